"""Deliberate bugs in `stores/sql/postgres/wake.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/wake.py"

MUTANTS = (
    Mutant(
        name="postgres-cancels-missed-by-a-thread",
        what="A thread that listens anew doesn't look for cancels that were told before.",
        breaks="§8: the worker learns of a cancel by a wake-up hint, at once and whatever process it is in",
        edits=(Edit("Wake._serve", "self._tell(MISSED)", "self._tell(MISSED[:1])"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-told-in-vain",
        what="What was to be told when the connection broke is never told.",
        breaks="§13: waiting = subscribe → read the state → hint or poll → read",
        edits=(Edit("Wake._send", "self._topics |= topics  # over the next connection", "pass"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-cancels-cut-short",
        what="A notification that would be too long says nothing of cancels.",
        breaks="§8: the worker learns of a cancel by a wake-up hint, at once and whatever process it is in",
        edits=(Edit("payload", 'return "\\n".join(MISSED) if CANCELS in topics else EVERYTHING', "return EVERYTHING"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-cancels-unheard-by-a-thread",
        what="A thread that can't listen doesn't look for cancels.",
        breaks="§8: where hints can't arrive a worker looks, within three seconds",
        edits=(Edit("Wake._run", "self._tell(UNHEARD)", "self._tell(())"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
)
