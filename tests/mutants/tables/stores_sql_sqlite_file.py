"""Deliberate bugs in `stores/sql/sqlite/file.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/file.py"

MUTANTS = (
    Mutant(
        name="sql-forked-child-keeps-the-lock",
        what="A child forked while its parent writes holds the write lock for as long as it lives.",
        breaks="§16 several processes on one file",
        edits=(
            Edit(
                "StoreFile.locked",
                (
                    "finally:\n"
                    "        fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has it open too: "
                    "closing isn't enough"
                ),
                "finally:",
            ),
        ),
        killers=("processes-sqlite",),
        why="the machine has one process",
    ),
)
