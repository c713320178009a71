"""Deliberate bugs in `stores/sql/postgres/loop_runner.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/loop_runner.py"

MUTANTS = (
    Mutant(
        name="loop-answers-swapped",
        what="The first answer that comes goes to whoever asked last.",
        breaks="§4: an answer is that of its own question",
        edits=(Edit("LoopRunner._asked", "self._sent.append(answer)", "self._sent.appendleft(answer)"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="loop-closed-socket-watched",
        what="The loop goes on watching a socket that was closed, whose number another connection gets.",
        breaks="§5a: the call is sent again within its deadline",
        edits=(
            Edit(
                "LoopRunner._unwatch",
                "if socket is not None:\n        self._loop.remove_reader(socket)\n    if timer",
                "if timer",
            ),
        ),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
    Mutant(
        name="loop-errors-unread",
        what="A pipeline whose last statements failed ends as if all were well, and what it wrote is undone.",
        breaks="§1: no acknowledged enqueue is lost; §4: a refused write is no success",
        edits=(
            Edit(
                "LoopRunner._sync",
                "self._libpq.exit_pipeline_mode()\n    for answer in unread:\n        self._check(answer)",
                "self._libpq.exit_pipeline_mode()\n    assert not self._sent, unread",
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="loop-failed-preparation-remembered",
        what="A statement whose preparation failed counts as prepared.",
        breaks="§5a: a call that was overtaken begins again",
        edits=(
            Edit(
                "LoopRunner._read_one",
                "self._names.pop(answer.prepares, None)",
                "self._names.setdefault(answer.prepares, b'')",
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="loop-later-error-told",
        what="Of a pipeline that failed the call is told that it failed, not what did.",
        breaks="§5a: a call that was overtaken begins again",
        edits=(
            Edit(
                "LoopRunner._check",
                "error_from_result(self._failed or answer.result)",
                "error_from_result(answer.result)",
            ),
        ),
        killers=("machine-postgres",),
    ),
)
