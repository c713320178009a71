"""Reading: a job as it stands, what holds it back, pages of jobs and of events."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tenure.domain.calls import Document, EventPage, JobFilter, JobPage, JobView, Reading
from tenure.domain.errors import CursorExpired, InvalidValue, JobNotFound, Refused
from tenure.domain.event import Event, decode_events
from tenure.domain.job import Job, Ref, Traceback
from tenure.domain.model.attached import TRACEBACKS
from tenure.domain.model.documents import live
from tenure.domain.model.unit import Unit
from tenure.domain.states import Gate, State
from tenure.domain.store import LATEST

NONE: Mapping[str, Traceback] = MappingProxyType({})
WITHIN = "~"
"""In a cursor, between a position and how many events of the chunk after it were given."""


def get(unit: Unit, refs: Sequence[Ref], reading: Reading) -> list[JobView | Refused]:
    """Jobs by reference; unknown and foreign ones are not found."""
    unit.fetch_jobs(refs)
    payloads = unit.tables.payloads(refs)
    jobs = [job for ref in refs if (job := unit.job(ref)) is not None]
    unit.fetch_outcomes(jobs)
    tracebacks = unit.tables.attached(TRACEBACKS, jobs) if reading.tracebacks and jobs else {}
    views = {job.ref: _view(unit, job, payloads[job.ref], reading.explain, tracebacks.get(job.ref, {})) for job in jobs}
    return [views.get(ref) or JobNotFound() for ref in refs]


def _view(
    unit: Unit, job: Job, payload: bytes, explain: bool = False, tracebacks: Mapping[str, Traceback] = NONE
) -> JobView:
    letter = unit.letter(job.ref) if job.state is State.FAILED else None
    return JobView(
        job=job,
        status=job.status(unit.now),
        payload=payload,
        result=unit.result(job.ref) if job.state is State.SUCCEEDED else None,
        gates=tuple(gates(unit, job)) if explain else (),
        dead_letter=None if letter is None else letter.disposition,
        replayed_as=None if letter is None else letter.new_id,
        tracebacks=tuple((int(lease_seq), one) for lease_seq, one in tracebacks.items()),
    )


def gates(unit: Unit, job: Job) -> list[Gate]:
    """Everything that keeps a waiting job from being claimed now, in the contract's order."""
    if job.state not in (State.BLOCKED, State.PENDING):
        return []
    tables, spec, now = unit.tables, job.spec, unit.now
    rules = tables.rules(spec.tenant, spec.queue)
    closed: list[tuple[bool, Gate]] = [
        (job.state is State.BLOCKED, Gate.BLOCKED),
        (job.run_at > now, Gate.SCHEDULED),
        (job.expired(now), Gate.EXPIRED),
        (bool(tables.tenant_config(spec.tenant).paused), Gate.TENANT_PAUSED),
        (rules.paused, Gate.QUEUE_PAUSED),
        (rules.limit is not None and tables.held(spec.lane) >= rules.limit, Gate.LIMIT),
    ]
    if spec.group is not None:
        limit = rules.limit_of(spec.group)
        closed.append((limit is not None and tables.holders(spec.lane, spec.group) >= limit, Gate.GROUP_LIMIT))
        closed.append((rules.ordered and not _heads_its_group(unit, job, spec.group), Gate.ORDERED))
    if rules.bucket is not None:
        closed.append((not rules.bucket.conforms(tables.bucket((*spec.lane, "")), now), Gate.RATE))
    if rules.group_bucket is not None and spec.group is not None:
        tat = tables.bucket((*spec.lane, spec.group))
        closed.append((not rules.group_bucket.conforms(tat, now), Gate.GROUP_RATE))
    return [gate for holds, gate in closed if holds]


def _heads_its_group(unit: Unit, job: Job, group: str) -> bool:
    if job.state is State.BLOCKED or job.expired(unit.now):
        return True  # not in line: other gates say why it waits
    head = unit.tables.head(job.spec.lane, group, unit.now)
    return head is None or head.ref == job.ref


def query(unit: Unit, where: JobFilter, after: str | None, limit: int) -> JobPage:
    """A page of jobs, newest first."""
    before = None if after is None else _number("query", after)
    found = unit.tables.query(where, before, limit + 1)
    jobs = found[:limit]
    payloads = unit.tables.payloads([job.ref for job in jobs])
    unit.fetch_outcomes(jobs)
    views = tuple(_view(unit, job, payloads[job.ref]) for job in jobs)
    return JobPage(views, f"{jobs[-1].spec.seq}" if len(found) > limit else None)


def events(unit: Unit, tenant: str | None, after: str | None, limit: int) -> EventPage | Refused:
    """A page of the feed: up to the end of a chunk, until `limit` events are reached."""
    meta = unit.meta
    if after == LATEST:
        return EventPage((), _cursor(meta.feed_head))
    position, given = (meta.feed_floor, 0) if after is None else _place(after, meta.feed_head)
    if position < meta.feed_floor:
        return CursorExpired()
    page: list[Event] = []
    cursors: list[str] = []
    begun = position + 1
    chunks = unit.tables.chunks(tenant, position, limit)
    for chunk in chunks:
        if len(page) >= limit:
            break
        events = decode_events(chunk.body)
        first = given if chunk.position == begun else 0
        page += events[first:]
        cursors += _cursors(chunk.position, first, len(events))
        position = chunk.position
    else:
        position = position if len(chunks) == limit else meta.feed_head
    end = _cursor(position)
    return EventPage(tuple(page), end, (*cursors[:-1], end) if page else ())


def _cursors(position: int, first: int, count: int) -> list[str]:
    """Those after a chunk's events from `first` on. After the last it is past the chunk, which may go then."""
    within = [_cursor(position - 1, given) for given in range(first + 1, count)]
    return [*within, _cursor(position)] if first < count else []


def _cursor(position: int, given: int = 0) -> str:
    """One shard, `0`, its position, and how many events of the chunk after that were given."""
    return f"0:{position}{WITHIN}{given}" if given else f"0:{position}"


def _place(cursor: str, head: int) -> tuple[int, int]:
    """The position of a cursor, and how many events after it are passed over: that chunk must still be there."""
    shard, _, place = cursor.partition(":")
    position, within, given = place.partition(WITHIN)
    if shard != "0" or _number("feed", position) + bool(within) > head:
        raise InvalidValue(f"cursor {cursor!r:.80}: it isn't one of this store's feed")
    return int(position), _number("feed", given) if within else 0


def _number(what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidValue(f"cursor {text!r:.80}: it isn't one of a {what}")
    return int(text)


def documents(unit: Unit, tenant: str, kind: str, prefix: str) -> list[Document]:
    """Documents of one kind, by name, those past their time left out."""
    return [one for one in unit.tables.documents(tenant, kind, prefix) if live(one, unit.now) is not None]
