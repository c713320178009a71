"""Deliberate bugs in `domain/model/documents.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/documents.py"

MUTANTS = (
    Mutant(
        name="document-expect-ignored",
        what="A document is written whatever version is expected.",
        breaks="H11: compare-and-set",
        edits=(Edit("put", "expect != version and not (same and version in (0, expect + 1)):", "expect < 0:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="event-resumed-missing",
        what="The end of a pause is not told.",
        breaks="H11: resumed",
        edits=(Edit("_tell", "if bool(old.paused) != bool(new.paused):", "if bool(new.paused) and not old.paused:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="mode-changes-under-jobs",
        what="The mode of a queue may change while jobs are in it.",
        breaks="H6: ModeConflict",
        edits=(
            Edit(
                "_mode_conflict",
                "if after.mode is not before:",
                "if after.mode is not before and after.limit is not None:",
            ),
        ),
        killers=("machine-memory",),
    ),
)
