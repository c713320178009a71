"""Deliberate bugs in `stores/sql/sqlite/statements/read.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/statements/read.sql"

MUTANTS = (
    Mutant(
        name="sql-depth-ignores-blocked",
        what="Blocked jobs do not count for the depth of a queue.",
        breaks="§11 backpressure: pending + blocked",
        edits=(
            Edit(
                "depth",
                (
                    "+ (SELECT count(*) FROM scheduled WHERE queue = ?1 AND tenant = ?2)\n"
                    "     + (SELECT count(*) FROM blocked WHERE queue = ?1 AND tenant = ?2)"
                ),
                "+ (SELECT count(*) FROM scheduled WHERE queue = ?1 AND tenant = ?2)",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-holders-ignore-slots",
        what="Draining slots do not count for limits.",
        breaks="§11 groups, limit",
        edits=(
            Edit(
                "holders",
                (
                    "FROM (SELECT tenant, queue, grp FROM running UNION ALL SELECT tenant, queue, coalesce(grp, '') "
                    "FROM slot)"
                ),
                "FROM running",
            ),
        ),
        killers=("machine-sqlite",),
    ),
)
