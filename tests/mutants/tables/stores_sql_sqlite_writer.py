"""Deliberate bugs in `stores/sql/sqlite/writer.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/writer.py"

MUTANTS = (
    Mutant(
        name="sql-cancelled-call-kills-the-writer",
        what="A caller that gives up takes the answer's place away, and the writer with it.",
        breaks="§5b: a caller's cancellation leaves the batch alone",
        edits=(
            Edit(
                "Writer._next_group",
                (
                    "if call.reply.set_running_or_notify_cancel():  # from here on its caller can't take it back\n"
                    "            calls.append(call)"
                ),
                "calls.append(call)",
            ),
        ),
        killers=("conformance-sqlite",),
        why="the machine waits for every answer",
    ),
    Mutant(
        name="sql-savepoint-not-rolled-back",
        what="A call that broke half way is committed with the others.",
        breaks="§5b, bad input: the store unchanged",
        edits=(
            Edit(
                "Writer._savepoint",
                (
                    "raise  # the device or the file failed: nobody's call can be trusted to have fitted\n"
                    '        connection.execute("ROLLBACK TO call")'
                ),
                "raise  # the device or the file failed: nobody's call can be trusted to have fitted",
            ),
        ),
        killers=("processes-sqlite",),
        why="no call of the contract breaks after it has written something; a test breaks one on purpose",
    ),
    Mutant(
        name="sql-acknowledged-in-a-deleted-file",
        what="An enqueue is acknowledged that was committed to a file without a name.",
        breaks="§1.4 no acknowledged enqueue is lost",
        edits=(Edit("Writer._transaction", "        self._file.check_still_there(connection)\n", ""),),
        killers=("file-sqlite",),
        why="the machine leaves the file where it is",
    ),
)
