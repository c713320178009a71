"""Deliberate bugs in `stores/sql/statements/write.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/statements/write.sql"

MUTANTS = (
    Mutant(
        name="sql-cascade-not-drained",
        what="A cascade that was carried on stays in the list.",
        breaks="§15 through a durable list",
        edits=(
            Edit(
                "drop_cascade",
                "DELETE FROM tenure.cascade WHERE position @each(position bigint)",
                "DELETE FROM tenure.cascade WHERE -position @each(position bigint)",
            ),
        ),
        killers=("conformance-sqlite",),
        why=(
            "a cascade is left behind beyond 1,000 descendants; the small worlds of the machine have a few dozen jobs"
        ),
    ),
)
