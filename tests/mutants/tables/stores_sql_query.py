"""Deliberate bugs in `stores/sql/query.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/query.py"

MUTANTS = (
    Mutant(
        name="sql-query-bound-excluded",
        what="A query leaves out the moment that its time begins with.",
        breaks="query",
        edits=(Edit("_add", 'terms.add(f"{column} >= ?", one.value)', 'terms.add(f"{column} > ?", one.value)'),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-query-shows-other-tenants",
        what="A query of one tenant lists the jobs of others.",
        breaks="§11 tenancy, query",
        edits=(
            Edit(
                "_add",
                'terms.add(f"{column} = ?", one.value)',
                "terms.add(f\"{column} {'>=' if one.field == 'tenant' else '='} ?\", one.value)",
            ),
        ),
        killers=("machine-sqlite",),
    ),
)
