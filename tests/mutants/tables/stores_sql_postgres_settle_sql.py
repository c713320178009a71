"""Deliberate bugs in `stores/sql/postgres/statements/settle.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/statements/settle.sql"

MUTANTS = (
    Mutant(
        name="postgres-success-ignores-version",
        what="A success that this process remembers to be its own is taken whoever holds the lease by now.",
        breaks="§17: a stale worker's success accepted while attempt 2 runs",
        edits=(
            Edit(
                "finish_at_once",
                "count(*) = cardinality($1::bigint[]) AND coalesce(bool_and(version = ($2::bigint[])[1]), false)",
                "count(version) = cardinality($1::bigint[])",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
)
