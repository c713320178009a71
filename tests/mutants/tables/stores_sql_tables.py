"""Deliberate bugs in `stores/sql/tables.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/tables.py"

MUTANTS = (
    Mutant(
        name="sql-rows-beside-never-go",
        what="Rows that a unit takes away from beside a record stay.",
        breaks="§6: the last 20 a job",
        edits=(Edit("SqlTables.keep_attached", 'self.many("drop_attached", sorted(gone))', "return"),),
        killers=("conformance-sqlite",),
        why="no job of the machine has so many attempts",
    ),
)
