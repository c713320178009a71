"""Deliberate bugs in `stores/sql/postgres/watch.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/watch.py"

MUTANTS = (
    Mutant(
        name="postgres-failed-look-forgotten",
        what="A look at awaited jobs that failed isn't made again.",
        breaks="§13: waiting = subscribe → read the state → hint or poll → read",
        edits=(Edit("Watch._run", "self._roused.set()\n                pause", "pause"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
)
