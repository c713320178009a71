"""Sweep and purge: what time does to jobs that nobody holds any more."""

from collections import deque
from datetime import date, timedelta

from msgspec.structs import replace

from tenure.domain.calls import Purged, Retention, Swept, SweptCounts, SweptJob
from tenure.domain.errors import Refused, StoreFrozen
from tenure.domain.event import Event
from tenure.domain.job import Job
from tenure.domain.model import moves
from tenure.domain.model.retention import CLEANED, cleanable, purgeable
from tenure.domain.model.unit import Unit
from tenure.domain.names import DAY, SYSTEM, Ms
from tenure.domain.states import Command, EventKind, State

FEED_RETENTION: Ms = 14 * DAY


def sweep(unit: Unit, interval: Ms, limit: int, hold: Ms | None) -> Swept | Refused:
    """One turn per interval over all callers: cascades, lost leases, expiries, drained slots, clean-up."""
    if unit.meta.frozen:
        return StoreFrozen()
    if hold is not None:
        _hold(unit, hold)
    last = unit.meta.last_turn
    if last is not None and unit.now < last + interval:
        return Swept(False, unit.now)
    unit.meta = replace(unit.meta, last_turn=unit.now)
    held = unit.now < unit.meta.hold_until
    cascaded = _cascade(unit, limit)
    lost = [] if held else _lose(unit, limit)
    counts = SweptCounts(
        cascaded=cascaded,
        lost=len(lost),
        expired=_expire(unit, limit),
        drained=0 if held else _drain(unit, limit),
    )
    for family in CLEANED:
        unit.cleaned[family.name] = cleanable(unit.tables, family, unit.now, limit)
    unit.tables.tidy(unit.now, limit)
    _trim_feed(unit, limit)
    return Swept(True, unit.now, counts, tuple(_named(job) for job in lost if job.state is State.FAILED))


def _hold(unit: Unit, hold: Ms) -> None:
    """The caller saw the clock jump: no lease is taken for a while, said once."""
    until = unit.now + hold
    if unit.now >= unit.meta.hold_until:
        unit.emit(Event(tenant=SYSTEM, kind=EventKind.CLOCK_JUMP, at=unit.now, hold_until=until))
    if until > unit.meta.hold_until:
        unit.meta = replace(unit.meta, hold_until=until)


def _cascade(unit: Unit, limit: int) -> int:
    """Goes on telling children of ended parents, in order of arrival."""
    budget = limit
    waiting = deque(unit.tables.cascades(limit))
    while waiting and budget > 0:
        position, parent = waiting[0]
        used, done, ended = moves.resolve(unit, parent, budget)
        budget -= used
        for child in ended:
            unit.defer(child)
            waiting.append((unit.meta.cascade_head, child))
        if not done:
            break
        unit.cascades[position] = None
        waiting.popleft()
    return limit - budget


def _lose(unit: Unit, limit: int) -> list[Job]:
    """The jobs whose lease is taken, as they are after it."""
    lost = []
    for seen in unit.tables.lost(unit.now, limit):
        job = unit.job(seen.ref)
        if job is not None and job.token == seen.token and job.lease is not None and job.lease.expired(unit.now):
            lost.append(moves.move(unit, Command.LOSE, job))
    return lost


def _named(job: Job) -> SweptJob:
    spec = job.spec
    return SweptJob(spec.tenant, spec.id, spec.job_type, spec.queue, job.attempt, job.reason or "")


def _expire(unit: Unit, limit: int) -> int:
    """Cancels pending jobs past their time, those that this very sweep unblocked too."""
    found = {job.ref: job for job in unit.tables.expired(unit.now, limit)}
    found.update(unit.after)
    due = [job for ref in found if (job := unit.job(ref)) is not None and job.expired(unit.now)]
    due.sort(key=_expiry_order)
    for job in due[:limit]:
        moves.move(unit, Command.EXPIRE, job)
    return len(due[:limit])


def _expiry_order(job: Job) -> tuple[Ms, str, str]:
    return (job.expires_at or 0, *job.ref)


def _drain(unit: Unit, limit: int) -> int:
    slots = unit.tables.drained(unit.now, limit)
    for slot in slots:
        unit.free(slot)
    return len(slots)


def _trim_feed(unit: Unit, limit: int) -> None:
    last = unit.tables.old_chunks(unit.now - FEED_RETENTION, limit)
    if last is not None:
        unit.meta = replace(unit.meta, feed_floor=last)


def purge(unit: Unit, retention: Retention) -> Purged | Refused | None:
    """Deletes the oldest (day, state) past retention that has a job no guard spares."""
    if unit.meta.frozen:
        return StoreFrozen()
    kept = {
        State.SUCCEEDED: retention.succeeded,
        State.CANCELLED: retention.cancelled,
        State.FAILED: retention.failed,
    }
    for batch in unit.tables.finished():
        if (batch.day + 1) * DAY + kept[batch.state] > unit.now:
            continue
        purged = purgeable(unit.tables, batch, unit.now)
        if purged:
            unit.purged[batch] = purged
            day, count = day_text(batch.day), len(purged)
            event = Event(
                tenant=SYSTEM, kind=EventKind.PURGED, at=unit.now, day=day, state=batch.state.value, count=count
            )
            unit.emit(event)
            return Purged(day, batch.state, count)
    return None


def day_text(day: int) -> str:
    """A UTC day, counted from the epoch, as YYYY-MM-DD."""
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()
