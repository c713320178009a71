"""Deliberate bugs in `stores/sql/dump.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/dump.py"

MUTANTS = (
    Mutant(
        name="sql-load-loses-tracebacks",
        what="A load leaves tracebacks out.",
        breaks="§5c dump and load",
        edits=(Edit("restore", 'tables.run("restore_attached", *ref, kind, member, records.encode(row))', "return"),),
        killers=("machine-sqlite",),
    ),
)
