"""Claim: who is served next, exactly (§11a).

`plan` walks tenants, their queues and the groups in them over a store's scans and changes nothing; what it took so far
counts through the walk's own state. `claim` then turns the plan into leases. Within one claim whatever can't be taken
stays so (takes only use up room), which is what lets the walk drop it for good.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from tenure.domain.calls import Claim, Claimed, ClaimedJob, Cursor
from tenure.domain.config import QueueRules
from tenure.domain.errors import Refused, StoreFrozen
from tenure.domain.job import Job, Lease, Ref, Spec, Token, secret_hash
from tenure.domain.model.plain import steady
from tenure.domain.model.tables import BucketKey, Tables
from tenure.domain.model.tables import Lane as LaneKey
from tenure.domain.model.unit import Unit
from tenure.domain.names import Ms
from tenure.domain.rate import Bucket
from tenure.domain.states import Command, Mode, State
from tenure.domain.transitions import Take, apply


def claim(unit: Unit, request: Claim, lease: "Leasing | None" = None) -> Claimed | Refused:
    """Leases up to n jobs. A claim id already in use answers what still runs under it and takes no more.

    A store may lease the planned jobs in its own way, if the answer is the same.
    """
    if unit.meta.frozen:
        return StoreFrozen()
    token = secret_hash(request.claim_id)
    held = unit.tables.running_under(token)
    if held:
        unit.fetch_jobs(held)
        jobs = [job for ref in held if (job := unit.job(ref)) is not None]
        return Claimed(_handed(unit, request, jobs), request.cursor, unit.now)
    unit.tables.promote([queue for queue, _ in request.queues], unit.now)
    walk = Walk(unit.tables, request, unit.now)
    cursor = walk.run()
    jobs = (lease or _lease_all)(unit, request, token, walk.taken)
    unit.buckets.update(walk.spent())
    unit.positions.update(walk.moved())
    wake_after = walk.wake_after() if len(jobs) < request.n else None
    return Claimed(_handed(unit, request, jobs), cursor if jobs else request.cursor, unit.now, wake_after)


def _handed(unit: Unit, request: Claim, jobs: list[Job]) -> tuple[ClaimedJob, ...]:
    refs = [job.ref for job in jobs]
    payloads = unit.tables.payloads(refs)
    secret, epoch = request.claim_id, unit.meta.epoch
    return tuple(
        ClaimedJob(job, payloads[ref], Token(ref[0], ref[1], job.lease_seq, secret), epoch)
        for job, ref in zip(jobs, refs, strict=True)
    )


def _lease_all(unit: Unit, request: Claim, token: bytes, taken: "list[Taken]") -> list[Job]:
    return [lease_one(unit, request, token, one) for one in taken]


def lease_one(unit: Unit, request: Claim, token: bytes, one: "Taken") -> Job:
    """A taken job under its lease."""
    claimed_at = max(unit.now, one.job.updated_at)  # as its event says; the lease itself goes by the store's time
    lease = lease_for(request, one.job.spec, one.lane.rules, claimed_at, unit.now)
    step = apply(Command.CLAIM, one.job, Take(token, lease, one.group_holders, one.group_limit), unit.now)
    unit.put(one.job, step)
    return step.job


def lease_for(request: Claim, spec: Spec, rules: QueueRules, claimed_at: Ms, now: Ms) -> Lease:
    """A lease on a job of a queue with these rules. Its times are the job's own, else the queue's, else the claim's."""
    ttl, grace = _first(spec.lease, rules.lease, request.ttl), _first(spec.grace, rules.grace, request.grace)
    return Lease(request.worker, claimed_at, now + ttl, ttl, grace)


def _first(own: Ms | None, queue: Ms | None, asked: Ms) -> Ms:
    if own is not None:
        return own
    return asked if queue is None else queue


def lone_cursor(at: Cursor, tenant: str, weight: int, given: int) -> Cursor:
    """Where a walk ends that gave so many jobs of one plain queue of the only tenant there is."""
    if not given:
        return at
    last, used, turns = at.tenant, at.used, at.round
    if last != tenant or used >= weight:
        turns, used = turns + (tenant <= last), 0
    taken = min(weight - used, given)
    used, left = used + taken, given - taken
    if left:
        turns, used = turns + 1 + (left - 1) // weight, (left - 1) % weight + 1
    return Cursor(tenant, used, turns)


def next_run_at(tables: Tables, queues: Sequence[str], tenants: Sequence[str] | None, now: Ms) -> Ms | None:
    """The earliest run_at after `now` of a pending job whose tenant and queue aren't paused."""
    found = [_first_upcoming(tables, queue, tenants, now) for queue in queues]
    return min((run_at for run_at in found if run_at is not None), default=None)


def _first_upcoming(tables: Tables, queue: str, tenants: Sequence[str] | None, now: Ms) -> Ms | None:
    for run_at, tenant in tables.upcoming(queue, now):
        paused = tables.tenant_config(tenant).paused or tables.rules(tenant, queue).paused
        if not paused and (tenants is None or tenant in tenants):
            return run_at
    return None


class Taken(msgspec.Struct, frozen=True, gc=False):
    """A job that the walk took, with its group's holders (itself among them) and limit."""

    job: Job
    lane: "Lane"
    group_holders: int | None = None
    group_limit: int | None = None


Leasing = Callable[[Unit, Claim, bytes, list[Taken]], list[Job]]
"""Puts the planned jobs under their leases, in order."""


class Rotation:
    """Names in byte order from after a start, wrapping, round and round; a name that is refused once is dropped.

    The first lap reads the store page by page, so a short claim over many names reads few of them.
    """

    def __init__(self, start: str, page: Callable[[str, int], list[str]]) -> None:
        self._page = page
        self._start = start
        self._lap: Iterator[str] | None = self._first_lap()
        self._alive: deque[str] = deque()

    def _first_lap(self) -> Iterator[str]:
        for name in self._from(self._start):
            yield name
        for name in self._from(""):
            if name > self._start:
                return
            yield name

    def _from(self, after: str) -> Iterator[str]:
        size = 4
        while names := self._page(after, size):
            yield from names
            if len(names) < size:
                return
            after, size = names[-1], min(size * 2, 256)

    def next(self, accept: Callable[[str], bool]) -> str | None:
        """The next name that is accepted; None when no name is left."""
        while (name := self._advance()) is not None:
            if accept(name):
                self._alive.append(name)
                return name
        return None

    def _advance(self) -> str | None:
        if self._lap is not None:
            name = next(self._lap, None)
            if name is not None:
                return name
            self._lap = None
        return self._alive.popleft() if self._alive else None


class Gauge:
    """A bucket during one claim: spent as jobs are taken, written back at the end."""

    def __init__(self, bucket: Bucket | None, tat: int) -> None:
        self.bucket = bucket
        self.tat = tat
        self.spent = False

    def conforms(self, now: Ms) -> bool:
        return self.bucket is None or self.bucket.conforms(self.tat, now)

    def spend(self, now: Ms) -> None:
        if self.bucket is not None:
            self.tat = self.bucket.spend(self.tat, now)
            self.spent = True

    def wait(self, now: Ms) -> Ms | None:
        """Milliseconds until it conforms; None when it does."""
        return None if self.bucket is None or self.conforms(now) else self.bucket.wait(self.tat, now)


def _one() -> int:
    return 1


class Group:
    """One group of a keyed lane during one claim."""

    def __init__(self, lane: "Lane", name: str) -> None:
        tables, key = lane.tables, lane.key
        self.name = name
        self.limit = lane.rules.limit_of(name)
        self.holders = tables.holders(key, name)
        bucket = lane.rules.group_bucket
        self.gauge = Gauge(bucket, tables.bucket((*key, name)) if bucket else 0)
        self._line = _ordered_line(lane, name) if lane.rules.ordered else tables.line(key, name, lane.now, _one)
        self._next: Job | None = None

    def ready(self, now: Ms) -> bool:
        has_room = self.limit is None or self.holders < self.limit
        return has_room and self.gauge.conforms(now) and self._peek() is not None

    def _peek(self) -> Job | None:
        """The job it would give next, read when it is first asked for."""
        if self._next is None:
            self._next = next(self._line, None)
        return self._next

    def take(self, now: Ms) -> Job:
        job, self._next = self._peek(), None
        if job is None:
            raise AssertionError(f"nothing to take in group {self.name}")
        self.holders += 1
        self.gauge.spend(now)
        return job


def _ordered_line(lane: "Lane", group: str) -> Iterator[Job]:
    """An ordered group offers its head, and only while the head is due."""
    head = lane.tables.head(lane.key, group, lane.now)
    if head is not None and head.state is State.PENDING and head.run_at <= lane.now:
        yield head


class Lane:
    """One tenant's queue during one claim: its gates, and the job it would give next."""

    def __init__(self, tables: Tables, tenant: str, queue: str, now: Ms, hint: int) -> None:
        self.tables = tables
        self.key: LaneKey = (tenant, queue)
        self.now = now
        self.rules = tables.rules(tenant, queue)
        self.groups: dict[str, Group] = {}
        self.position: str | None = None
        limit = self.rules.limit
        self._room = None if limit is None else limit - tables.held(self.key)
        bucket = self.rules.bucket
        self.gauge = Gauge(bucket, tables.bucket((tenant, queue, "")) if bucket else 0)
        self._keyed = self.rules.mode is Mode.KEYED
        self._next_group: Group | None = None
        self._next: Job | None = None
        self._ahead = hint
        if self._keyed:
            self._rotation = Rotation(
                tables.position(self.key), lambda after, size: tables.groups(self.key, after, size)
            )
        else:
            self._line = tables.line(self.key, "", now, lambda: self._ahead)

    def ready(self) -> bool:
        """Whether it has a takeable job, all gates of the lane considered."""
        if self.rules.paused or not self.gauge.conforms(self.now):
            return False
        if self._room is not None and self._room <= 0:
            return False
        return self._peek_group() if self._keyed else self._peek() is not None

    def _peek(self) -> Job | None:
        """The job a plain lane would give next, read when it is first asked for."""
        if self._next is None:
            self._next = next(self._line, None)
        return self._next

    def _peek_group(self) -> bool:
        if self._next_group is None or not self._next_group.ready(self.now):
            name = self._rotation.next(lambda name: self._group(name).ready(self.now))
            self._next_group = None if name is None else self._group(name)
        return self._next_group is not None

    def _group(self, name: str) -> Group:
        if name not in self.groups:
            self.groups[name] = Group(self, name)
        return self.groups[name]

    def take(self) -> Taken:
        """Gives the next job; `ready` was true."""
        self.gauge.spend(self.now)
        if self._room is not None:
            self._room -= 1
        if self._next_group is not None:
            group, self._next_group = self._next_group, None
            self.position = group.name
            return Taken(group.take(self.now), self, group.holders, group.limit)
        job, self._next = self._peek(), None
        if job is None:
            raise AssertionError(f"nothing to take in {self.key}")
        return Taken(job, self)

    @property
    def steady(self) -> bool:
        """Whether no gate can close while jobs are taken from it."""
        return steady(self.rules)

    def take_many(self, most: int) -> "list[Taken]":
        """Gives up to `most` jobs of a steady lane at once."""
        first, self._next = self._peek(), None
        if first is None:
            return []
        self._ahead = most - 1
        return [Taken(job, self) for job in (first, *islice(self._line, most - 1))]

    def waits(self, taken: set[Ref]) -> Iterator[Ms]:
        """When the buckets that hold back a due job will conform."""
        if self.rules.paused:
            return
        wait = self.gauge.wait(self.now)
        if wait is not None and self._has_due(taken):
            yield wait
        if self._keyed and self.rules.group_bucket is not None:
            for name in self._names():
                group = self._group(name)
                wait = group.gauge.wait(self.now)
                if wait is not None and self._group_has_due(name, taken):
                    yield wait

    def _names(self) -> list[str]:
        return self.tables.groups(self.key, "", 1 << 30)

    def _has_due(self, taken: set[Ref]) -> bool:
        if not self._keyed:
            return self._peek() is not None
        return any(
            job.ref not in taken
            for name in self._names()
            for job in self.tables.line(self.key, name, self.now, lambda: len(taken) + 1)
        )

    def _group_has_due(self, name: str, taken: set[Ref]) -> bool:
        offered = (
            _ordered_line(self, name)
            if self.rules.ordered
            else self.tables.line(self.key, name, self.now, lambda: len(taken) + 1)
        )
        return any(job.ref not in taken for job in offered)


class Walk:
    """The rotation over tenants, from the worker's cursor on."""

    def __init__(self, tables: Tables, request: Claim, now: Ms) -> None:
        self.tables = tables
        self.now = now
        self.request = request
        self.taken: list[Taken] = []
        self.queues = sorted(queue for queue, _ in request.queues)
        self._left = dict(request.queues)
        self._slots: dict[str, list[Lane]] = {}
        self._weights: dict[str, int] = {}
        self._rotation = Rotation(request.cursor.tenant, self._tenants)

    def _tenants(self, after: str, size: int) -> list[str]:
        if self.request.tenants is None:
            return self.tables.tenants(self.queues, after, size)
        return [tenant for tenant in sorted(set(self.request.tenants)) if tenant > after][:size]

    def run(self) -> Cursor:
        """Takes jobs until n are given or nothing is takeable; answers where it ended."""
        at = self.request.cursor
        tenant, used, turns = at.tenant, at.used, at.round
        if not (tenant and self._allowed(tenant) and used < self._weight(tenant) and self._ready(tenant)):
            used = -1
        while len(self.taken) < self.request.n:
            lane = None if used < 0 else self._pick(tenant, used, turns)
            if lane is not None:
                self._take(lane)
                used += 1
                continue
            following = self._rotation.next(self._ready)
            if following is None:
                break
            turns += following <= tenant
            lone = following == tenant
            tenant, used = following, 0
            if lone and (given := self._burst(tenant)):
                weight = self._weight(tenant)
                turns, used = turns + (given - 1) // weight, (given - 1) % weight + 1
        return Cursor(tenant, max(used, 0), turns)

    def _burst(self, tenant: str) -> int:
        """Takes all it can from a tenant that came round again alone, if one plain queue is all it has to give.

        The same jobs as one at a time (§11a): nobody else can be served between them.
        """
        (lane, *others) = dict.fromkeys(self._lanes(tenant))
        if others or not lane.steady:
            return 0
        left = self._left[lane.key[1]]
        wanted = self.request.n - len(self.taken)
        jobs = lane.take_many(wanted if left is None else min(wanted, left))
        self.taken += jobs
        if left is not None:
            self._left[lane.key[1]] = left - len(jobs)
        return len(jobs)

    def _pick(self, tenant: str, used: int, turns: int) -> Lane | None:
        """The queue that this turn of the tenant serves; None ends the visit."""
        weight = self._weight(tenant)
        if used >= weight:
            return None
        slots = self._lanes(tenant)
        start = (turns * weight + used) % len(slots)
        for offset in range(len(slots)):
            lane = slots[(start + offset) % len(slots)]
            if self._lane_ready(lane):
                return lane
        return None

    def _take(self, lane: Lane) -> None:
        self.taken.append(lane.take())
        left = self._left[lane.key[1]]
        if left is not None:
            self._left[lane.key[1]] = left - 1

    def _allowed(self, tenant: str) -> bool:
        return self.request.tenants is None or tenant in self.request.tenants

    def _ready(self, tenant: str) -> bool:
        """Whether the tenant is in the ring."""
        return any(self._lane_ready(lane) for lane in self._lanes(tenant))

    def _lane_ready(self, lane: Lane) -> bool:
        left = self._left[lane.key[1]]
        return (left is None or left > 0) and lane.ready()

    def _weight(self, tenant: str) -> int:
        if tenant not in self._weights:
            self._weights[tenant] = self.tables.tenant_config(tenant).weight or 1
        return self._weights[tenant]

    def _lanes(self, tenant: str) -> list[Lane]:
        """The asked queues in byte order, each as often as its weight; none of a paused tenant."""
        if tenant not in self._slots:
            paused = self.tables.tenant_config(tenant).paused
            lanes = [] if paused else [self._lane(tenant, queue) for queue in self.queues]
            self._slots[tenant] = [lane for lane in lanes for _ in range(lane.rules.weight)]
        return self._slots[tenant]

    def _lane(self, tenant: str, queue: str) -> Lane:
        return Lane(self.tables, tenant, queue, self.now, self._weight(tenant))

    def _distinct_lanes(self) -> list[Lane]:
        return [lane for slots in self._slots.values() for lane in dict.fromkeys(slots)]

    def spent(self) -> dict[BucketKey, int]:
        """The TATs to write back."""
        spent: dict[BucketKey, int] = {}
        for lane in self._distinct_lanes():
            if lane.gauge.spent:
                spent[*lane.key, ""] = lane.gauge.tat
            for group in lane.groups.values():
                if group.gauge.spent:
                    spent[*lane.key, group.name] = group.gauge.tat
        return spent

    def moved(self) -> dict[LaneKey, str]:
        """The positions to write back."""
        return {lane.key: lane.position for lane in self._distinct_lanes() if lane.position is not None}

    def wake_after(self) -> Ms | None:
        """How long nothing more can become takeable by time alone. Every tenant was visited: the claim ended short."""
        taken = {one.job.ref for one in self.taken}
        waits = [wait for lane in self._distinct_lanes() for wait in lane.waits(taken)]
        run_at = next_run_at(self.tables, self.queues, self.request.tenants, self.now)
        if run_at is not None:
            waits.append(run_at - self.now)
        return min(waits, default=None)
