"""Deliberate bugs in `domain/transitions.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/transitions.py"

MUTANTS = (
    Mutant(
        name="cancel-tells-finished",
        what="The holder of a cancelled job is told that it is finished, not that it was cancelled.",
        breaks="H8: JobCancelled",
        edits=(
            Edit("refusal", "if job.state is State.CANCELLED:\n        return JobCancelled()\n    return", "return"),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="event-progress-keeps-version",
        what="Progress is told under the version before it.",
        breaks="H2: version = previous + 1",
        edits=(Edit("_renew", "progress, version=job.version + 1, updated_at=", "progress, updated_at="),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="event-progress-without-progress",
        what="Every renewal is told.",
        breaks="H11: one iff it carries progress",
        edits=(
            Edit(
                "_renew",
                ("if progress is None:\n        return Step(replace(job, lease=lease), None)"),
                "progress = progress or Progress(0.0)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="event-replayed-missing",
        what="A replay is not told in the history of its original.",
        breaks="H11, H2",
        edits=(
            Edit(
                "_replay",
                "return Step(after, _event(EventKind.REPLAYED, after, now, new_id=new_id))",
                "return Step(after, None)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-fail-as-cancel",
        what="A child that should fail with its parent is cancelled.",
        breaks="H12: fail",
        edits=(Edit("_parent_failed", "failed = policy is OnParentFailure.FAIL", "failed = False"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-unblock-keeps-old-time",
        what="An unblocked job keeps a run_at of before its parents ended.",
        breaks="H10, H12: run_at = max(run_at, now)",
        edits=(Edit("_unblock", "max(job.run_at, now)", "job.run_at"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-deadline-ignored-by-renew",
        what="A lease past its deadline may still be renewed until a sweep takes it.",
        breaks="H3: the holder may renew iff not expired",
        edits=(
            Edit(
                "refusal",
                "return LeaseExpired() if job.lease.expired(now) else None",
                "return LeaseExpired() if tag is not None and job.lease.expired(now) else None",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-deadline-ignored-by-settle",
        what="A lease past its deadline may still be settled until a sweep takes it.",
        breaks="H3: the holder may settle iff not expired",
        edits=(
            Edit(
                "refusal",
                "return LeaseExpired() if job.lease.expired(now) else None",
                "return LeaseExpired() if tag is None and job.lease.expired(now) else None",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-renewed-from-old-end",
        what="A renewal adds ttl to the old end of the lease instead of to now.",
        breaks="H3: lease_until = now + ttl",
        edits=(
            Edit(
                "_renew",
                "lease = replace(lease, until=max(lease.until, now + lease.ttl))",
                "lease = replace(lease, until=lease.until + lease.ttl)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-seq-unchecked",
        what="The number of the lease is not compared, only its secret.",
        breaks="H1, H3",
        edits=(Edit("refusal", "if lease_seq != job.lease_seq or token != job.token:", "if token != job.token:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lost-moves-run-at",
        what="A lost lease sends the job to the end of the line.",
        breaks="H10: a lost job keeps its place",
        edits=(Edit("_lose", "run_at=job.run_at)", "run_at=now)"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="release-moves-run-at",
        what="A release without delay sends the job to the end of the line.",
        breaks="H10: a released job keeps its place",
        edits=(Edit("_release", "tag, run_at=job.run_at", "tag, run_at=now"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="release-never-counted",
        what="Releases with a delay are not counted: a job can be snoozed for ever.",
        breaks="H2: counted per reason, beyond it failed",
        edits=(
            Edit(
                "_release",
                "replace(job, releases={**job.releases, outcome.reason: used + 1}),",
                "replace(job, releases=job.releases),",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="release-reasons-share-a-count",
        what="All releases with a delay count against each reason's limit.",
        breaks="H2: counted per reason",
        edits=(Edit("_release", "used = job.releases.get(outcome.reason, 0)", "used = sum(job.releases.values())"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="release-one-too-many",
        what="One release more than allowed is granted.",
        breaks="H2: beyond its limit failed(reason)",
        edits=(Edit("_release", "if used >= outcome.most:", "if used > outcome.most:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="release-refunds-twice",
        what="A release gives back two attempts, where two were used.",
        breaks="H3: refund",
        edits=(
            Edit(
                "_release",
                "job = replace(job, attempt=job.attempt - 1)",
                "job = replace(job, attempt=max(0, job.attempt - 2))",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="release-without-refund",
        what="A release does not give the attempt back.",
        breaks="H3: refund",
        edits=(
            Edit(
                "_release",
                (
                    "def _release(job: Job, outcome: Release, now: Ms) -> Step:\n"
                    "    job = replace(job, attempt=job.attempt - 1)"
                ),
                "def _release(job: Job, outcome: Release, now: Ms) -> Step:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="retry-beyond-attempts",
        what="A retry on the last attempt is granted.",
        breaks="H3, H2: failed(exhausted) when attempts are spent",
        edits=(Edit("_retry", "if job.attempt >= job.spec.max_attempts:", "if job.attempt > job.spec.max_attempts:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="retry-ignores-cancel-request",
        what="A retry of a job whose cancel was requested is granted.",
        breaks="H8: cancel_requested → cancelled",
        edits=(
            Edit(
                "_retry",
                (
                    "def _retry(job: Job, outcome: Retry, now: Ms) -> Step:\n"
                    "    if job.cancel_requested:\n"
                    "        return _cancel_on_request(job, outcome.tag, now, error=outcome.error)"
                ),
                "def _retry(job: Job, outcome: Retry, now: Ms) -> Step:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="retry-keeps-run-at",
        what="A retry comes back at its old time: no back-off.",
        breaks="H10, H11: run_at = now + delay",
        edits=(Edit("_retry", "run_at=now + clamp_delay(outcome.delay),", "run_at=job.run_at,"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-01-last-attempt-wedges",
        what=("A lease lost on the last attempt puts the job back in line, where it is claimed past its max_attempts."),
        breaks="§17 a worker dying on its last attempt wedges the queue; H3, H2",
        edits=(
            Edit(
                "_lose",
                (
                    'return _end_lease(job, State.CANCELLED, EventKind.CANCELLED, "lease_lost", now)\n'
                    "    if job.attempt >= job.spec.max_attempts:\n"
                    '        return _end_lease(job, State.FAILED, EventKind.FAILED, "lease_lost", now)'
                ),
                'return _end_lease(job, State.CANCELLED, EventKind.CANCELLED, "lease_lost", now)',
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-02-cancel-request-lost-with-lease",
        what="A job whose cancel was requested and whose worker died is run again.",
        breaks="§17 a cancelled running job whose worker dies is never cancelled; H8",
        edits=(
            Edit(
                "_lose",
                (
                    "def _lose(job: Job, _: None, now: Ms) -> Step:\n"
                    "    if job.cancel_requested:\n"
                    '        return _end_lease(job, State.CANCELLED, EventKind.CANCELLED, "lease_lost", now)'
                ),
                "def _lose(job: Job, _: None, now: Ms) -> Step:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-03-stale-success-accepted",
        what="A worker that lost its lease may settle while the next attempt runs.",
        breaks="§17 stale worker's success accepted while attempt 2 runs; H1",
        edits=(
            Edit("refusal", "if lease_seq != job.lease_seq or token != job.token:", "if lease_seq > job.lease_seq:"),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-13-attempt-only-on-report",
        what="A worker that dies is not counted: a lost lease gives its attempt back.",
        breaks="§17 attempts counted only on reported failure; H3",
        edits=(
            Edit(
                "_lose",
                "def _lose(job: Job, _: None, now: Ms) -> Step:",
                ("def _lose(job: Job, _: None, now: Ms) -> Step:\n    job = replace(job, attempt=job.attempt - 1)"),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-14-owner-as-fence",
        what="The secret is not compared: whoever names the right lease number holds the lease.",
        breaks="§17 owner id as the fence; H1",
        edits=(
            Edit("refusal", "if lease_seq != job.lease_seq or token != job.token:", "if lease_seq != job.lease_seq:"),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-15-renewal-writes-stale",
        what="A renewal writes back the record without the cancel that was requested meanwhile.",
        breaks="§17 renewal writes back a stale record; H8",
        edits=(
            Edit(
                "_renew",
                "return Step(replace(job, lease=lease), None)",
                "return Step(replace(job, lease=lease, cancel_requested=False), None)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="settle-cancelled-before-repeat",
        what="The repeat of a settle is refused when the job was cancelled since.",
        breaks="H8, H1: Settled comes before JobCancelled",
        edits=(
            Edit(
                "refusal",
                "if tag is not None and job",
                "if job.state is State.CANCELLED:\n        return JobCancelled()\n    if tag is not None and job",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="settle-last-error-forgotten",
        what="A success wipes the last error.",
        breaks="H2: last_error survives a later success",
        edits=(Edit("_end_lease", "last_error=error or job.last_error,", "last_error=error,"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="settle-not-repeatable",
        what="A settle sent again is refused.",
        breaks="H1: same token, same outcome, same answer",
        edits=(
            Edit(
                "refusal",
                (
                    "return LeaseLost()\n"
                    "    if tag is not None and job.settled is not None and job.settled.tag == tag:\n"
                    "        return Settled(job.settled.state)"
                ),
                "return LeaseLost()",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="settle-repeat-any-outcome",
        what="A lease that was settled answers every other outcome as if it had been the first.",
        breaks="H1: same outcome = the same tag",
        edits=(
            Edit(
                "refusal",
                "if tag is not None and job.settled is not None and job.settled.tag == tag:",
                "if tag is not None and job.settled is not None:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="settle-repeat-tells-new-state",
        what="A settle sent again answers with the state of now, not the one it led to then.",
        breaks="H1: first call and repeat answer the same",
        edits=(Edit("refusal", "return Settled(job.settled.state)", "return Settled(job.state)"),),
        killers=("machine-memory",),
    ),
)
