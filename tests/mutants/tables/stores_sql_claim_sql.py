"""Deliberate bugs in `stores/sql/statements/claim.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/statements/claim.sql"

MUTANTS = (
    Mutant(
        name="sql-head-counts-expired",
        what="An expired job blocks its ordered group.",
        breaks="§10 ordered, §4 expire",
        edits=(
            Edit(
                "head",
                "AND (in_order.expires_at IS NULL OR in_order.expires_at > $4) AND job.seq = in_order.seq",
                "AND $4 AND job.seq = in_order.seq",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-head-ignores-arrival",
        what="The head of an ordered group is its last job.",
        breaks="§10 ordered: by seq only",
        edits=(Edit("head", "ORDER BY in_order.seq LIMIT 1", "ORDER BY in_order.seq DESC LIMIT 1"),),
        killers=("machine-sqlite",),
    ),
)
