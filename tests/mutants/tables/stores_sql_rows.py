"""Deliberate bugs in `stores/sql/rows.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/rows.py"

MUTANTS = (
    Mutant(
        name="sql-edge-resolved-lost",
        what="That a parent has ended is not written.",
        breaks="§15 unresolved parents are a set",
        edits=(Edit("edge_row", "int(edge.resolved)", "0"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-every-job-as-enqueued",
        what="A transfer forgets what happened to a job that waits.",
        breaks="§5c dump and load",
        edits=(Edit("job_row", "not waits or job == as_enqueued(spec, state, priority, run_at)", "True"),),
        killers=("machine-sqlite",),
    ),
)
