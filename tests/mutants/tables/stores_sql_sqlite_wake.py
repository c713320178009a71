"""Deliberate bugs in `stores/sql/sqlite/wake.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/wake.py"

MUTANTS = (
    Mutant(
        name="sqlite-cancels-not-polled",
        what="Where sockets can't be had nobody hears of cancels.",
        breaks="§8: the worker learns of a cancel by a wake-up hint, at once and whatever process it is in",
        edits=(Edit("Wake._run", "not self._of_cancels or self._receiver is None", "not self._of_cancels"),),
        killers=("processes-sqlite",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
)
