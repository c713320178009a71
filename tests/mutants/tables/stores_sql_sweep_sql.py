"""Deliberate bugs in `stores/sql/statements/sweep.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/statements/sweep.sql"

MUTANTS = (
    Mutant(
        name="sql-clean-live-buckets",
        what="A sweep forgets a bucket that still holds jobs back.",
        breaks="§11 rate",
        edits=(Edit("due_bucket", "tat <= $1", "tat <= $1 + 60000000"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-drained-1ms-early",
        what="A draining slot is freed at its deadline.",
        breaks="§11: freed when the lease is expired",
        edits=(
            Edit(
                "drained",
                "FROM tenure.slot WHERE deadline < $1 ORDER BY deadline, tenant, job_id LIMIT $2",
                "FROM tenure.slot WHERE deadline <= $1 ORDER BY deadline, tenant, job_id LIMIT $2",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-old-chunks-ignore-limit",
        what="A sweep trims the feed further than its limit.",
        breaks="§4 sweep: each ≤ limit",
        edits=(Edit("old_chunks", "position LIMIT $2) AS oldest", "position LIMIT $2 + 1) AS oldest"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-trim-off-by-one",
        what="The last chunk past retention stays in the feed.",
        breaks="§12 retention",
        edits=(
            Edit(
                "trim_feed",
                "DELETE FROM tenure.feed WHERE position <= $1",
                "DELETE FROM tenure.feed WHERE position < $1",
            ),
        ),
        killers=("machine-sqlite",),
    ),
)
