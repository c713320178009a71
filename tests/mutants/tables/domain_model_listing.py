"""Deliberate bugs in `domain/model/listing.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/listing.py"

MUTANTS = (
    Mutant(
        name="filter-bound-excluded",
        what="A filter leaves out the moment that its time begins with.",
        breaks="query",
        edits=(Edit("_holds", "return bool(found >= one.value)", "return bool(found > one.value)"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="filter-forgets-job-type",
        what="A filter by job type asks for nothing, on every store.",
        breaks="query",
        edits=(Edit("conditions", '("tenant", "queue", "job_type")', '("tenant", "queue")'),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="filter-forgets-labels",
        what="A filter by labels asks for nothing, on every store.",
        breaks="query",
        edits=(Edit("conditions", "in where.labels.items():", "in list(where.labels.items())[:0]:"),),
        killers=("machine-memory",),
    ),
)
