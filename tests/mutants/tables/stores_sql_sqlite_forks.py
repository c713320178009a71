"""Deliberate bugs in `stores/sql/sqlite/forks.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/forks.py"
WHY = "the machine has one process"

MUTANTS = (
    Mutant(
        name="sql-forked-child-keeps-the-lock",
        what="A child forked while its parent writes has the write lock for as long as it lives, once the parent died.",
        breaks="§16 several processes on one file",
        edits=(Edit("_in_child", "        os.close(lock)\n", "        pass\n"),),
        killers=("forks-sqlite",),
        why=WHY,
    ),
    Mutant(
        name="sql-fork-leaves-connections-open",
        what="A child has its parent's connections: what it commits is lost when the parent closes.",
        breaks="§1.4 no acknowledged enqueue is lost",
        edits=(Edit("_before", "            held.close()", "            pass"),),
        killers=("forks-sqlite",),
        why=WHY,
    ),
    Mutant(
        name="sql-child-writes-beside-its-parents-connection",
        what="A child that has a connection of its parent's opens the file all the same.",
        breaks="§1.4 no acknowledged enqueue is lost",
        edits=(Edit("check_inherited", "if not _forked:\n        return", "return"),),
        killers=("forks-sqlite",),
        why=WHY,
    ),
    Mutant(
        name="sql-child-closes-its-parents-connection",
        what="A child that ends takes its parent's transaction back.",
        breaks="§1.4 no acknowledged enqueue is lost",
        edits=(Edit("_in_child", "    _keep_for_ever(list(_open))\n", ""),),
        killers=("forks-sqlite",),
        why=WHY,
    ),
)
