"""Deliberate bugs in `domain/model/reads.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/reads.py"

MUTANTS = (
    Mutant(
        name="reads-without-counts",
        what="Counts aren't among what must hold at the commit.",
        breaks="§11 max_depth, limit: two that enqueue at once both see room",
        edits=(Edit("Recorder.__getattr__", "if kind is None", "if kind in (None, ReadKind.COUNT)"),),
        killers=("optimistic-memory",),
        why="A store with locks notes no reads.",
    ),
    Mutant(
        name="reads-without-gets",
        what="Rows read by their keys aren't among what must hold at the commit.",
        breaks="§1: one terminal transition per job",
        edits=(Edit("Recorder.__getattr__", "if kind is None", "if kind in (None, ReadKind.GET)"),),
        killers=("optimistic-memory",),
        why="A store with locks notes no reads.",
    ),
    Mutant(
        name="reads-without-looses",
        what="The tenants and groups that were seen aren't among what must hold at the commit.",
        breaks="§11a: a claim sees who has jobs",
        edits=(Edit("Recorder.__getattr__", "if kind is None", "if kind in (None, ReadKind.LOOSE)"),),
        killers=("optimistic-memory",),
        why="A store with locks notes no reads.",
    ),
    Mutant(
        name="reads-without-scans",
        what="Lines and lists aren't among what must hold at the commit.",
        breaks="§1: one valid lease per job",
        edits=(Edit("Recorder.__getattr__", "if kind is None", "if kind in (None, ReadKind.SCAN)"),),
        killers=("optimistic-memory",),
        why="A store with locks notes no reads.",
    ),
    Mutant(
        name="reads-walk-without-end",
        what="That a walk found nothing more isn't among what must hold at the commit.",
        breaks="§10: no claim passes over a job that was visible to it",
        edits=(Edit("Read.holds", "not (self.whole and next(found, None) is not None)", "self.walked"),),
        killers=("optimistic-memory",),
        why="A store with locks notes no reads.",
    ),
)
