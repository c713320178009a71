"""Deliberate bugs in `stores/sql/postgres/store.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/store.py"

MUTANTS = (
    Mutant(
        name="postgres-doubt-not-told",
        what="A call whose commit was on its way when the server went away counts as one that did nothing.",
        breaks="§5a: after its deadline a call raises OutcomeUnknown",
        edits=(Edit("_Open._connected", "committing = begin != READING", "committing = False"),),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
    Mutant(
        name="postgres-lost-reply-not-sent-again",
        what="A call whose connection broke is given up at once.",
        breaks="§5a: the client retries within the call's deadline",
        edits=(Edit("_Open._again", "deadline = time.monotonic() + TRY_SECONDS", "deadline = 0.0"),),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
    Mutant(
        name="postgres-quick-outcome-forgotten",
        what="A single job whose connection broke on the way is sent again as if it had never left.",
        breaks="§5a: the call is sent again within its deadline, or its outcome is unknown",
        edits=(Edit("PostgresStore.enqueue", "severed = error", "severed = error if not error.committing else None"),),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
    Mutant(
        name="postgres-told-before-the-commit",
        what="A job enqueued in a user's transaction is told at once, also if it is rolled back.",
        breaks="§1: in the user's transaction: all of it, or nothing",
        edits=(
            Edit(
                "PostgresStore._join",
                "place = self._opened().place",
                ("place = self._opened().place\n    self._opened()._tell({queue_topic(job.queue) for job in jobs})"),
            ),
        ),
        killers=("transactions-postgres",),
        why="The machine has no transactions of a user's.",
    ),
    Mutant(
        name="postgres-feed-without-a-look",
        what="Who waits for a job of another process is told by name or not at all.",
        breaks="§13: waiting = subscribe → read the state → hint or poll → read",
        edits=(Edit("_Open.heard", "self._watch.rouse()", "pass"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-deaf-to-cancels",
        what="Behind a pooler a cancel is learnt of when the lease is renewed.",
        breaks="§8: where hints are missing, within seconds",
        edits=(Edit("PostgresStore._wait_deaf", "heard or until_due < timeout_seconds", "heard"),),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
    Mutant(
        name="postgres-awaited-before-the-commit",
        what="Who begins to wait while a job's end is being committed isn't told.",
        breaks="§13: waiting = subscribe → read the state → hint or poll → read",
        edits=(
            Edit(
                "_Open._transaction",
                "changed.add(unit)",
                "changed.add(unit)\n            changed.ended *= self._hints.jobs_awaited",
            ),
        ),
        killers=("waits-postgres",),
        why="A hint is no promise, so neither checker nor lockstep judges hints.",
    ),
)
