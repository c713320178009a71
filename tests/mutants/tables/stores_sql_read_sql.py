"""Deliberate bugs in `stores/sql/statements/read.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/statements/read.sql"

MUTANTS = (
    Mutant(
        name="sql-result-by-wrong-seq",
        what="A result is kept under the time of its end only: two of one moment are one.",
        breaks="§13 results",
        edits=(
            Edit(
                "results",
                "@find(tenure.result AS r: r.expires_at = want.expires_at AND r.seq = want.seq)",
                "@find(tenure.result AS r: r.expires_at = want.expires_at)",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-tenant-feed-shows-all",
        what="A tenant sees the events of all.",
        breaks="§12 tenant views",
        edits=(Edit("tenant_chunks", "feed WHERE tenant = $3 AND", "feed WHERE tenant >= $3 AND"),),
        killers=("machine-sqlite",),
    ),
)
