"""Deliberate bugs in `domain/model/retention.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/retention.py"

MUTANTS = (
    Mutant(
        name="clean-early",
        what="A sweep removes rows that have a minute left.",
        breaks="§9 window, §11 rate: what is past its time counts as gone, and nothing else",
        edits=(Edit("cleanable", "until = now * family.ticks", "until = (now + 60_000) * family.ticks"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="clean-first-page-only",
        what="Results that children may still ask for hide those behind them from a sweep.",
        breaks="§4 sweep: what is past its time goes",
        edits=(Edit("cleanable", "if len(page) < limit:\n            break", "break"),),
        killers=("pages-stores",),
        why="No answer depends on when a row that counts as gone is removed.",
    ),
    Mutant(
        name="clean-results-of-parents",
        what="A sweep cleans a parent's result while a child may ask for it.",
        breaks="§15 results of parents",
        edits=(Edit("_unasked", "return [one for one in results if one.key not in asked]", "return results"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="purge-first-page-only",
        what="A purge looks at the first jobs of a day only.",
        breaks="§13: due jobs go",
        edits=(Edit("purgeable", "last = page[-1].seq", "break"),),
        killers=("pages-stores",),
        why="A page is of 10,000 jobs.",
    ),
    Mutant(
        name="purge-ignores-child",
        what="A parent is purged while a child waits.",
        breaks="H4: non-terminal child",
        edits=(Edit("spared", "or job.child or job.draining", "or job.draining"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="purge-ignores-draining",
        what="A cancelled job is purged while its slot drains.",
        breaks="§4 purge",
        edits=(Edit("spared", "or job.child or job.draining", "or job.child"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="purge-ignores-open-letter",
        what="A failed job is purged while its dead letter is open.",
        breaks="H4: open dead letter",
        edits=(Edit("spared", "or job.letter is Disposition.OPEN", ""),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="purge-ignores-window",
        what="A job is purged while its window key lives.",
        breaks="H4, H9: live window binding",
        edits=(Edit("spared", "binding.unique is Unique.WINDOW", "binding.unique is Unique.ACTIVE"),),
        killers=("conformance-memory",),
        why=(
            "needs a window that ends on a later day than its success, and a purge between: the windows of "
            "the machine are a day at most"
        ),
    ),
)
