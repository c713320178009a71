"""The state machine: one table (command × states → states, guard, effects, events) and one pure function over it.

`apply` is the only place where a job's record changes. It answers a `Step`: the new record and the event that says so.
The model keeps the step and follows its consequences (children, keys, dead letters).
The picture in `docs/states.md` is drawn from `TABLE`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from tenure.domain.calls import Fail, Release, Retry, Settled, Succeed
from tenure.domain.errors import JobCancelled, JobFinished, JobNotFound, LeaseExpired, LeaseLost, Refused
from tenure.domain.event import Event
from tenure.domain.job import KEPT_ATTEMPTS, Attempt, Failure, Job, Lease, Progress, Settlement, key_hash
from tenure.domain.names import Ms
from tenure.domain.retry import clamp_delay
from tenure.domain.states import TERMINAL, Command, EventKind, OnParentFailure, State


class Step(msgspec.Struct, frozen=True, gc=False):
    """A transition's result: the record after it, and its event (None: nothing worth telling)."""

    job: Job
    event: Event | None


class Take(msgspec.Struct, frozen=True, gc=False):
    """A claim's share for one job: the hash of its secret, the lease, and its group's holders with this one."""

    token: bytes
    lease: Lease
    group_holders: int | None = None
    group_limit: int | None = None


# Guards


def refusal(job: Job | None, lease_seq: int, token: bytes, now: Ms, tag: str | None = None) -> Refused | Settled | None:
    """Why the presenter of a token may not act, in the contract's order (§5); None when it may.

    `Settled` is the answer to the very settle (same token, same `tag`) that already ended this lease.
    """
    if job is None:
        return JobNotFound()
    if lease_seq != job.lease_seq or token != job.token:
        return LeaseLost()
    if tag is not None and job.settled is not None and job.settled.tag == tag:
        return Settled(job.settled.state)
    if job.state is State.RUNNING and job.lease is not None:
        return LeaseExpired() if job.lease.expired(now) else None
    if job.state is State.CANCELLED:
        return JobCancelled()
    return JobFinished(job.state) if job.state in TERMINAL else LeaseLost()


# Effects: each makes the record and event of one row of the table.


def _event(kind: EventKind, job: Job, now: Ms, worker: str | None = None, **fields: Any) -> Event:
    spec = job.spec
    return Event(
        spec.tenant,
        kind,
        now,
        spec.id,
        job.version,
        spec.queue,
        spec.job_type,
        job.attempt,
        job.lease_seq,
        worker,
        **fields,
    )


def _enqueue(job: Job, _: None, now: Ms) -> Step:
    spec = job.spec
    event = _event(
        EventKind.ENQUEUED,
        job,
        now,
        priority=job.priority,
        run_at=job.run_at,
        key_hash=None if spec.key is None else key_hash(spec.key),
        group=spec.group,
        max_attempts=spec.max_attempts,
        parents=tuple(parent.id for parent in spec.parents) or None,
        replay_of=spec.replay_of,
        payload_size=spec.payload_size,
        labels=spec.labels or None,
    )
    return Step(job, event)


def _unblock(job: Job, _: None, now: Ms) -> Step:
    after = replace(job, state=State.PENDING, version=job.version + 1, run_at=max(job.run_at, now), updated_at=now)
    return Step(after, _event(EventKind.UNBLOCKED, after, now, run_at=after.run_at))


def _parent_failed(job: Job, policy: OnParentFailure, now: Ms) -> Step:
    if policy is OnParentFailure.IGNORE:
        return _unblock(job, None, now)
    failed = policy is OnParentFailure.FAIL
    return _end_unleased(job, State.FAILED if failed else State.CANCELLED, "parent_failed", now)


def _claim(job: Job, take: Take, now: Ms) -> Step:
    after = replace(
        job,
        state=State.RUNNING,
        version=job.version + 1,
        attempt=job.attempt + 1,
        lease_seq=job.lease_seq + 1,
        token=take.token,
        lease=take.lease,
        settled=None,
        progress=None,
        updated_at=now,
    )
    since = max(job.run_at, job.history[-1].ended_at) if job.history else job.run_at
    event = _event(
        EventKind.CLAIMED,
        after,
        now,
        take.lease.worker,
        lease_until=take.lease.until,
        waited_ms=now - since,
        group=job.spec.group,
        group_holders=take.group_holders,
        group_limit=take.group_limit,
    )
    return Step(after, event)


def _renew(job: Job, progress: Progress | None, now: Ms) -> Step:
    lease = _held(job)
    lease = replace(lease, until=max(lease.until, now + lease.ttl))
    if progress is None:
        return Step(replace(job, lease=lease), None)
    after = replace(job, lease=lease, progress=progress, version=job.version + 1, updated_at=now)
    event = _event(
        EventKind.PROGRESS,
        after,
        now,
        worker=lease.worker,
        progress=progress.fraction,
        message=progress.message or None,
    )
    return Step(after, event)


def _succeed(job: Job, outcome: Succeed, now: Ms) -> Step:
    size = None if outcome.result is None else len(outcome.result)
    return _end_lease(job, State.SUCCEEDED, EventKind.SUCCEEDED, "ok", now, settled=outcome.tag, result_size=size)


def _retry(job: Job, outcome: Retry, now: Ms) -> Step:
    if job.cancel_requested:
        return _cancel_on_request(job, outcome.tag, now, error=outcome.error)
    if job.attempt >= job.spec.max_attempts:
        return _end_lease(
            job, State.FAILED, EventKind.FAILED, "exhausted", now, settled=outcome.tag, error=outcome.error
        )
    return _end_lease(
        job,
        State.PENDING,
        EventKind.RETRY_SCHEDULED,
        outcome.reason,
        now,
        settled=outcome.tag,
        error=outcome.error,
        run_at=now + clamp_delay(outcome.delay),
    )


def _fail(job: Job, outcome: Fail, now: Ms) -> Step:
    return _end_lease(
        job, State.FAILED, EventKind.FAILED, outcome.reason, now, settled=outcome.tag, error=outcome.error
    )


def _release(job: Job, outcome: Release, now: Ms) -> Step:
    job = replace(job, attempt=job.attempt - 1)
    if job.cancel_requested:
        return _cancel_on_request(job, outcome.tag, now)
    if not outcome.delay:
        return _end_lease(
            job, State.PENDING, EventKind.RELEASED, outcome.reason, now, settled=outcome.tag, run_at=job.run_at
        )
    used = job.releases.get(outcome.reason, 0)
    if used >= outcome.most:
        return _end_lease(job, State.FAILED, EventKind.FAILED, outcome.reason, now, settled=outcome.tag)
    return _end_lease(
        replace(job, releases={**job.releases, outcome.reason: used + 1}),
        State.PENDING,
        EventKind.RELEASED,
        outcome.reason,
        now,
        settled=outcome.tag,
        run_at=now + outcome.delay,
    )


def _lose(job: Job, _: None, now: Ms) -> Step:
    if job.cancel_requested:
        return _end_lease(job, State.CANCELLED, EventKind.CANCELLED, "lease_lost", now)
    if job.attempt >= job.spec.max_attempts:
        return _end_lease(job, State.FAILED, EventKind.FAILED, "lease_lost", now)
    return _end_lease(job, State.PENDING, EventKind.LEASE_LOST, "lease_lost", now, run_at=job.run_at)


def _cancel(job: Job, _: None, now: Ms) -> Step:
    if job.state is State.RUNNING:
        return _end_lease(job, State.CANCELLED, EventKind.CANCELLED, "cancelled", now)
    return _end_unleased(job, State.CANCELLED, "cancelled", now)


def _request_cancel(job: Job, _: None, now: Ms) -> Step:
    after = replace(job, cancel_requested=True, version=job.version + 1, updated_at=now)
    return Step(after, _event(EventKind.CANCEL_REQUESTED, after, now, worker=_held(job).worker))


def _expire(job: Job, _: None, now: Ms) -> Step:
    return _end_unleased(job, State.CANCELLED, "expired", now)


def _reschedule(job: Job, run_at: Ms, now: Ms) -> Step:
    after = replace(job, run_at=run_at, version=job.version + 1, updated_at=now)
    return Step(after, _event(EventKind.RESCHEDULED, after, now, run_at=run_at))


def _reprioritise(job: Job, priority: int, now: Ms) -> Step:
    after = replace(job, priority=priority, version=job.version + 1, updated_at=now)
    return Step(after, _event(EventKind.REPRIORITISED, after, now, priority=priority))


def _replay(job: Job, new_id: str, now: Ms) -> Step:
    after = replace(job, version=job.version + 1, updated_at=now)
    return Step(after, _event(EventKind.REPLAYED, after, now, new_id=new_id))


def _discard(job: Job, _: None, now: Ms) -> Step:
    after = replace(job, version=job.version + 1, updated_at=now)
    return Step(after, _event(EventKind.DISCARDED, after, now))


def _held(job: Job) -> Lease:
    if job.lease is None:
        raise AssertionError(f"job {job.spec.id} is {job.state} without a lease")
    return job.lease


def _cancel_on_request(job: Job, settled: str, now: Ms, error: Failure | None = None) -> Step:
    return _end_lease(job, State.CANCELLED, EventKind.CANCELLED, "cancelled", now, settled=settled, error=error)


def _end_lease(
    job: Job,
    state: State,
    kind: EventKind,
    reason: str,
    now: Ms,
    *,
    settled: str | None = None,
    error: Failure | None = None,
    run_at: Ms | None = None,
    result_size: int | None = None,
) -> Step:
    """Closes the lease: history, reason, and the state that follows."""
    lease = _held(job)
    ended = Attempt(job.attempt, job.lease_seq, lease.worker, lease.claimed_at, now, kind.value, reason, error)
    terminal = state is not State.PENDING
    after = replace(
        job,
        state=state,
        version=job.version + 1,
        run_at=job.run_at if run_at is None else run_at,
        updated_at=now,
        lease=None,
        settled=None if settled is None else Settlement(settled, state),
        finished_at=now if terminal else None,
        reason=reason if terminal else None,
        last_error=error or job.last_error,
        history=(*job.history[1 - KEPT_ATTEMPTS :], ended),
    )
    event = _event(
        kind,
        after,
        now,
        worker=lease.worker,
        run_ms=now - lease.claimed_at,
        reason=reason,
        error_family=None if error is None else error.family,
        message=None if error is None else error.message or None,
        result_size=result_size,
        run_at=run_at,
    )
    return Step(after, event)


def _end_unleased(job: Job, state: State, reason: str, now: Ms) -> Step:
    """Ends a job that no lease holds."""
    after = replace(job, state=state, version=job.version + 1, updated_at=now, finished_at=now, reason=reason)
    kind = EventKind.FAILED if state is State.FAILED else EventKind.CANCELLED
    return Step(after, _event(kind, after, now, reason=reason))


# The table


class Rule(msgspec.Struct, frozen=True):
    """One row: from which states to which, who may, when, with what effect and which events."""

    sources: tuple[State | None, ...]
    targets: tuple[State, ...]
    who: str
    guard: str
    effects: str
    events: tuple[EventKind, ...]
    effect: Callable[[Job, Any, Ms], Step]


_LIVE = (State.BLOCKED, State.PENDING, State.RUNNING)

TABLE: dict[Command, Rule] = {
    Command.ENQUEUE: Rule(
        (None,),
        (State.PENDING, State.BLOCKED),
        "producer",
        "id, key, group and parents accepted, depth below its limit",
        "seq and version 1, binding, edges",
        (EventKind.ENQUEUED,),
        _enqueue,
    ),
    Command.UNBLOCK: Rule(
        (State.BLOCKED,),
        (State.PENDING,),
        "whoever ends the last parent",
        "no unresolved parent",
        "run_at = max(run_at, now)",
        (EventKind.UNBLOCKED,),
        _unblock,
    ),
    Command.PARENT_FAILED: Rule(
        (State.BLOCKED,),
        (State.CANCELLED, State.FAILED, State.PENDING),
        "whoever ends the parent",
        "the edge's policy: cancel, fail, or ignore",
        "cascades to its own children",
        (EventKind.CANCELLED, EventKind.FAILED, EventKind.UNBLOCKED),
        _parent_failed,
    ),
    Command.CLAIM: Rule(
        (State.PENDING,),
        (State.RUNNING,),
        "worker",
        "due, not expired, not paused, room in queue and group, rates conform, attempt < max",
        "lease_seq + 1, attempt + 1, token, lease",
        (EventKind.CLAIMED,),
        _claim,
    ),
    Command.RENEW: Rule(
        (State.RUNNING,),
        (State.RUNNING,),
        "holder",
        "not expired",
        "lease never shortened; progress kept",
        (EventKind.PROGRESS,),
        _renew,
    ),
    Command.SUCCEED: Rule(
        (State.RUNNING,),
        (State.SUCCEEDED,),
        "holder",
        "not expired",
        "result, children resolved, carried jobs enqueued",
        (EventKind.SUCCEEDED,),
        _succeed,
    ),
    Command.RETRY: Rule(
        (State.RUNNING,),
        (State.PENDING, State.FAILED, State.CANCELLED),
        "holder",
        "not expired",
        "run_at = now + delay; failed when attempts are spent; cancelled when that was requested",
        (EventKind.RETRY_SCHEDULED, EventKind.FAILED, EventKind.CANCELLED),
        _retry,
    ),
    Command.FAIL: Rule(
        (State.RUNNING,),
        (State.FAILED,),
        "holder",
        "not expired",
        "dead letter",
        (EventKind.FAILED,),
        _fail,
    ),
    Command.RELEASE: Rule(
        (State.RUNNING,),
        (State.PENDING, State.FAILED, State.CANCELLED),
        "holder",
        "not expired",
        "attempt refunded; a delay is counted per reason, beyond its limit failed",
        (EventKind.RELEASED, EventKind.FAILED, EventKind.CANCELLED),
        _release,
    ),
    Command.LOSE: Rule(
        (State.RUNNING,),
        (State.PENDING, State.FAILED, State.CANCELLED),
        "sweep",
        "lease and grace passed, re-checked inside the write",
        "run_at kept; failed when attempts are spent; cancelled when that was requested",
        (EventKind.LEASE_LOST, EventKind.FAILED, EventKind.CANCELLED),
        _lose,
    ),
    Command.CANCEL: Rule(
        _LIVE,
        (State.CANCELLED,),
        "tenant, admin",
        "not terminal",
        "token dead at once; a running job's slot drains",
        (EventKind.CANCELLED,),
        _cancel,
    ),
    Command.REQUEST_CANCEL: Rule(
        (State.RUNNING,),
        (State.RUNNING,),
        "tenant, admin",
        "running, not yet asked",
        "cancel_requested",
        (EventKind.CANCEL_REQUESTED,),
        _request_cancel,
    ),
    Command.EXPIRE: Rule(
        (State.PENDING,),
        (State.CANCELLED,),
        "sweep",
        "never claimed, now ≥ expires_at",
        "",
        (EventKind.CANCELLED,),
        _expire,
    ),
    Command.RESCHEDULE: Rule(
        (State.PENDING,),
        (State.PENDING,),
        "tenant, admin",
        "pending",
        "run_at",
        (EventKind.RESCHEDULED,),
        _reschedule,
    ),
    Command.REPRIORITISE: Rule(
        (State.PENDING,),
        (State.PENDING,),
        "tenant, admin",
        "pending",
        "priority",
        (EventKind.REPRIORITISED,),
        _reprioritise,
    ),
    Command.REPLAY: Rule(
        (State.FAILED,),
        (State.FAILED,),
        "tenant, admin",
        "its dead letter isn't replayed yet, or again is asked for",
        "a new job; disposition replayed",
        (EventKind.REPLAYED,),
        _replay,
    ),
    Command.DISCARD: Rule(
        (State.FAILED,),
        (State.FAILED,),
        "tenant, admin",
        "its dead letter is open",
        "disposition discarded",
        (EventKind.DISCARDED,),
        _discard,
    ),
}


def apply(command: Command, job: Job, argument: Any, now: Ms) -> Step:
    """Moves `job` by one row of the table. The caller has checked the row's guard; the states are checked here.

    A row that would be left from a wrong state, or would end in one it doesn't name, is a bug in Tenure and raises
    `AssertionError` before anything is stored. A job's times never go back, whatever the clock does.
    """
    rule = TABLE[command]
    if job.state not in rule.sources and command is not Command.ENQUEUE:
        raise AssertionError(f"{command} of a job that is {job.state}")
    step = rule.effect(job, argument, max(now, job.updated_at))
    if step.job.state not in rule.targets or (step.event is not None and step.event.kind not in rule.events):
        raise AssertionError(f"{command} led from {job.state} to {step.job.state}")
    return step
