"""Deliberate bugs in `stores/sql/statements/transfer.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/statements/transfer.sql"

MUTANTS = (
    Mutant(
        name="sql-dump-skips-jobs",
        what="A dump goes on with the next tenant where a page of jobs ends.",
        breaks="§5c dump and load",
        edits=(
            Edit(
                "dump_job",
                "WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT $3",
                "WHERE tenant > $1 AND $2 = $2 ORDER BY tenant, id LIMIT $3",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-dump-skips-rows-beside",
        what="A dump goes on with the next job where a page of tracebacks ends.",
        breaks="§5c dump and load",
        edits=(
            Edit(
                "dump_attached",
                "(a.seq, a.member) > ($1, $2)",
                "a.seq > $1 AND $2 = $2",
            ),
        ),
        killers=("machine-sqlite",),
    ),
)
