"""Deliberate bugs in `domain/model/changes.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/changes.py"

MUTANTS = (
    Mutant(
        name="changes-without-cleaned",
        what="What a sweep cleans isn't among the changes.",
        breaks="changes are everything that an operation wrote",
        edits=(Edit("_puts", "yield from (Put(kind, one.key, None) for one in cleaned)", "pass"),),
        killers=("optimistic-memory",),
        why="A store with locks keeps the unit itself.",
    ),
    Mutant(
        name="changes-without-purged-keys",
        what="The key of a purged job isn't among the changes.",
        breaks="changes are everything that an operation wrote",
        edits=(Edit("_purged", "if job.key is not None:", "if job.key is None:"),),
        killers=("optimistic-memory",),
        why="A store with locks keeps the unit itself.",
    ),
    Mutant(
        name="changes-without-slot-entries",
        what="A draining slot has no index entries.",
        breaks="§11: draining slots count",
        edits=(Edit("_moves", "yield from (([], slot_entries(slot)) for slot", "yield from (([], []) for slot"),),
        killers=("optimistic-memory",),
        why="A store with locks keeps the unit itself.",
    ),
)
