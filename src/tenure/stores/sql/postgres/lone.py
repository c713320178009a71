"""A claim from the only lane that there is, of jobs that are as they were enqueued: from row to lease in one step.

Many claims under load are such. What this gives and writes is what the model would (`hot.py` has the general form), but
it walks over no tenants, and makes no record of a job before it is taken. A worker that waits for its next job takes it
by one statement (`claim_few`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenure.domain.calls import Claim, Claimed, ClaimedJob
from tenure.domain.event import form
from tenure.domain.job import Job, Lease, Spec, Token, secret_hash
from tenure.domain.model import Unit
from tenure.domain.model.claim import lease_times, lone_cursor
from tenure.domain.model.tables import Lane
from tenure.domain.names import Ms
from tenure.domain.states import Mode, State, Unique
from tenure.stores import records
from tenure.stores.sql.postgres.place import Unreadable
from tenure.stores.sql.rows import Row
from tenure.stores.sql.tables import LeasedAtOnce
from tenure.stores.ways import Way

if TYPE_CHECKING:
    from tenure.stores.sql.postgres.tables import PostgresTables

FEW = 32
"""Jobs that one statement may take without their number having been known: many take longer to look at twice."""
REST = 16
"""Claims that go the usual way after one that tried this in vain. Such a claim of one job took 0.97 ms, by the usual
way alone 0.69, by one statement 0.40 (medians of 300)."""
PLAIN_END = b"".join(map(records.encode, (Unique.ACTIVE, None, None, {}, None, None, None, (), None, None)))
"""How a spec ends, from `unique` on, that has neither lease nor grace of its own nor anything else there. No other ends
so: MessagePack says before a number how long it is, and no text has its byte for nothing."""
_NOW, _UNTIL = 0x7A11_5EA7_0000_0004, 0x7A11_5EA7_0000_0005
"""Room for times that the server will know, eight bytes each."""


def claim(tables: "PostgresTables", unit: Unit, request: Claim, lane: Lane, line: list[Row]) -> Claimed | None:
    """The answer; None, and nothing done, if these jobs must be looked at one by one."""
    (_, most), now = request.queues[0], unit.now
    if _gated(tables, lane):
        return None
    wanted = request.n if most is None else min(request.n, most)
    specs = _specs(line[:wanted], now)
    if specs is None:
        return None
    tables.ways.took(Way.CLAIM_LONE)
    jobs: tuple[ClaimedJob, ...] = ()
    if specs:  # else nothing is to be written, not even that nothing happened
        leasing = _Leasing(tables, unit, request, lane)
        jobs = tuple(leasing.lease(specs, line))
        tables.hot.at_once = leasing.written
        tables.place.expect_few(len(jobs) <= FEW and all(row[1].endswith(PLAIN_END) for row in line))
    tables.place.falls_short = len(jobs) < request.n
    cursor = lone_cursor(request.cursor, lane[0], tables.tenant_config(lane[0]).weight or 1, len(jobs))
    return Claimed(jobs, cursor, now, _wake_after(tables, request, now) if len(jobs) < request.n else None)


def _gated(tables: "PostgresTables", lane: Lane) -> bool:
    """Whether something besides its time may hold back a job."""
    rules = tables.rules(*lane)
    limited = rules.limit is not None or rules.bucket is not None or rules.mode is Mode.KEYED
    return bool(limited or rules.paused or tables.tenant_config(lane[0]).paused)


def _specs(line: list[Row], now: Ms) -> list[Spec] | None:
    """What never changes of each, if all are as they were enqueued and none may expire."""
    found: list[Spec] = []
    for row in line:
        if row[5] is not None or row[1] is None:
            return None
        spec = _spec(row[0], row[1])
        if spec.expires_at is not None or now < spec.enqueued_at:
            return None
        found.append(spec)
    return found


def _spec(seq: int, body: bytes) -> Spec:
    try:
        return records.spec_of(body)
    except Exception as error:
        raise Unreadable(seq, error) from error


def _wake_after(tables: "PostgresTables", request: Claim, now: Ms) -> Ms | None:
    run_at = tables.next_run_at([request.queues[0][0]], request.tenants, now)
    return None if run_at is None else run_at - now


class _Leasing:
    """What the jobs of one claim share, and what is to be written of them."""

    def __init__(self, tables: "PostgresTables", unit: Unit, request: Claim, lane: Lane) -> None:
        self._request = request
        self._tenant, self._queue = lane
        self._rules = tables.rules(*lane)
        self._now = unit.now
        self._epoch = unit.meta.epoch
        self._token = secret_hash(request.claim_id)
        self._running = tables.hot.running
        self._emit = unit.events_of(self._tenant).append
        self._head = f'{{"tenant":"{self._tenant}","kind":"claimed","at":{self._now},"job_id":"'
        self.written = LeasedAtOnce(self._queue, self._tenant, self._token)

    def lease(self, specs: Sequence[Spec], line: Sequence[Row]) -> list[ClaimedJob]:
        """As many as there are specs, which are some. One loop with everything at hand: this is every job's way."""
        tenant, secret, now, token, epoch = self._tenant, self._request.claim_id, self._now, self._token, self._epoch
        emit, running, add, state = self._emit, self._running, self.written.add, State.RUNNING
        jobs: list[ClaimedJob] = []
        of = specs[0]
        lease, shared, kind = self._turn_to(of)
        for spec, row in zip(specs, line, strict=False):
            if spec.job_type != of.job_type or spec.lease != of.lease or spec.grace != of.grace:
                of = spec
                lease, shared, kind = self._turn_to(of)
            seq, _, _, priority, run_at, _, payload, lies = row[:8]
            id = spec.id
            after = Job(spec, state, 2, priority, run_at, now, 1, 1, token, lease)
            emit((shared, f"{id}\t{now - run_at}\n"))
            running[tenant, id] = after
            add(seq, lies, kind)
            jobs.append(ClaimedJob(after, payload, Token(tenant, id, 1, secret), epoch))
        return jobs

    def _turn_to(self, spec: Spec) -> tuple[Lease, str, int]:
        """What the following jobs share, which are of another kind: the lease, the event's form, the number."""
        worker, now = self._request.worker, self._now
        ttl, grace = lease_times(self._request, spec, self._rules)
        lease = Lease(worker, now, now + ttl, ttl, grace)
        middle = (
            f'","version":2,"queue":"{self._queue}","job_type":"{spec.job_type}","attempt":1,"lease_seq":1,'
            f'"worker":"{worker}","lease_until":{now + ttl},"waited_ms":'
        )
        live = records.encode((2, now, 1, 1, self._token, lease, None, False, None, None, None, None, {}, ()))
        return lease, form(self._head, middle, "}"), self.written.kind(now + ttl + grace, live)


# By one statement


def claim_few(tables: "PostgresTables", request: Claim, now: Ms | None) -> Claimed | None:
    """The answer, which is committed; None, and nothing done, if the claim must go the usual way."""
    place = tables.place
    if not place.few or len(request.queues) != 1 or request.tenants is not None or place.frontiers.needed:
        return None
    queue, most = request.queues[0]
    tenant = place.lone.get(queue)
    if tenant is None:
        return None
    tables.know_config()
    lane, weight = (tenant, queue), tables.tenant_config(tenant).weight or 1
    if _gated(tables, lane) or weight > request.n:
        return None
    wanted = min(request.n, FEW + 1) if most is None else min(request.n, most, FEW + 1)
    rules = tables.rules(*lane)
    ttl = request.ttl if rules.lease is None else rules.lease
    grace = request.grace if rules.grace is None else rules.grace
    found = tables.all("claim_few", *_values(tables, request, now, lane, wanted, ttl, grace))
    if not found:
        tables.ways.took(Way.CLAIM_FEW_FAILED)
        place.expect_many(REST)
        return None
    at, epoch, upcoming, count, *_, before, after = found[0]
    place.frontiers.looked(after - before)
    if count and found[0][4] is None:
        tables.ways.took(Way.CLAIM_FEW_FAILED)
        place.expect_many(REST)
        return None
    tables.ways.took(Way.CLAIM_FEW)
    taken = _Taken(tables, request, lane, at, ttl, grace, epoch)
    jobs = tuple([taken.job(*row[4:9]) for row in found]) if count else ()
    wake_after = None if upcoming is None or len(jobs) == request.n else upcoming - at
    return Claimed(jobs, lone_cursor(request.cursor, tenant, weight, len(jobs)), at, wake_after)


def _values(
    tables: "PostgresTables", request: Claim, now: Ms | None, lane: Lane, wanted: int, ttl: Ms, grace: Ms
) -> tuple[Any, ...]:
    (tenant, queue), worker, token = lane, request.worker, secret_hash(request.claim_id)
    lease = Lease(worker, _NOW, _UNTIL, ttl, grace)
    live = records.encode((2, _NOW, 1, 1, token, lease, None, False, None, None, None, None, {}, ()))
    first = live.find(_NOW.to_bytes(8))
    rooms = (first + 1, live.find(_NOW.to_bytes(8), first + 8) + 1, live.find(_UNTIL.to_bytes(8)) + 1)
    promoted = tables.place.promoted - tables.place.slack
    return (
        *(tables.config, now, token, queue, tenant, wanted, FEW, PLAIN_END, promoted, ttl, grace, live, *rooms),
        f'{{"tenant":"{tenant}","kind":"claimed","at":',
        f'","version":2,"queue":"{queue}","job_type":"',
        f'","attempt":1,"lease_seq":1,"worker":"{worker}","lease_until":',
    )


class _Taken:
    """The jobs that one statement took, as they are now."""

    def __init__(
        self, tables: "PostgresTables", request: Claim, lane: Lane, now: Ms, ttl: Ms, grace: Ms, epoch: int
    ) -> None:
        self._running = tables.hot.running
        self._secret, self._hash = request.claim_id, secret_hash(request.claim_id)
        self._tenant = lane[0]
        self._times = (request.worker, now, now + ttl, ttl, grace)
        self._epoch = epoch
        self._leases: dict[str, Lease] = {}
        """By type: what succeeds together shares more than this (`hot.succeed`)."""

    def job(self, seq: int, body: bytes, priority: int, run_at: Ms, payload: bytes) -> ClaimedJob:
        spec, now = _spec(seq, body), self._times[1]
        lease = self._leases.get(spec.job_type)
        if lease is None:
            lease = self._leases[spec.job_type] = Lease(*self._times)
        after = Job(spec, State.RUNNING, 2, priority, run_at, now, 1, 1, self._hash, lease)
        self._running[self._tenant, spec.id] = after
        return ClaimedJob(after, payload, Token(self._tenant, spec.id, 1, self._secret), self._epoch)
