"""Deliberate bugs in `stores/sql/query.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/query.py"

MUTANTS = (
    Mutant(
        name="sql-query-bound-excluded",
        what="A query leaves out the moment that its time begins with.",
        breaks="query",
        edits=(
            Edit(
                "_terms",
                'terms.add("enqueued_at >= ?", where.enqueued_from)',
                'terms.add("enqueued_at > ?", where.enqueued_from)',
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-query-shows-other-tenants",
        what="A query of one tenant lists the jobs of others.",
        breaks="§11 tenancy, query",
        edits=(
            Edit("_terms", 'terms.add(f"{listed} = ?", where.tenant)', 'terms.add(f"{listed} >= ?", where.tenant)'),
        ),
        killers=("machine-sqlite",),
    ),
)
