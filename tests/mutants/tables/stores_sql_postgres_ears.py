"""Deliberate bugs in `stores/sql/postgres/ears.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/ears.py"

MUTANTS = (
    Mutant(
        name="postgres-cancels-missed-by-a-loop",
        what="A loop that listens anew doesn't look for cancels that were told before.",
        breaks="§8: the worker learns of a cancel by a wake-up hint, at once and whatever process it is in",
        edits=(Edit("Ears._connected", "self._tell(MISSED)", "self._tell(MISSED[:1])"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-cancels-unheard-by-a-loop",
        what="A loop that can't listen doesn't look for cancels.",
        breaks="§8: where hints can't arrive a worker looks, within three seconds",
        edits=(Edit("Ears._connect_later", "self._tell(UNHEARD)", "self._tell(())"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
)
