"""Deliberate bugs in `stores/sql/postgres/awaited.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/awaited.py"

MUTANTS = (
    Mutant(
        name="postgres-announcement-forgotten",
        what="A process that hears who waits for which job doesn't remember it.",
        breaks="§13: waiting = subscribe → read the state → hint or poll → read",
        edits=(Edit("Awaited.heard", "self._elsewhere.add(refs)", "self._elsewhere.add(())"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-crossed-announcement-unanswered",
        what="Of a job that ended just before it was announced nobody is told by name.",
        breaks="§13: waiting = subscribe → read the state → hint or poll → read",
        edits=(Edit("Awaited.heard", "return set(map(job_topic, self._lately.among(refs)))", "return set()"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-announcement-for-ever",
        what="Jobs that nobody waits for any more are told by name for as long as a process lives.",
        breaks="STYLE: limits on everything that can grow",
        edits=(Edit("Recent._turn", "set() if stale else self._newer, set()", "self._older | self._newer, set()"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-announced-again-and-again",
        what="A process announces each look of a caller.",
        breaks="a settle that nobody waits for tells no more than the feed",
        edits=(Edit("Awaited.announce", "self._announced.add(new)", "self._announced.add(())"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
)
