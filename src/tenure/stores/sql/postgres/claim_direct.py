"""A claim from the only lane that there is, of jobs that are as they were enqueued: from row to lease in one step.

Many claims under load are such. What this gives and writes is what the model would (`hot.py` has the general form), but
it walks over no tenants, and makes no record of a job before it is taken. A worker that waits for its next job takes it
by one statement (`claim_few`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenure.domain.calls import Claim, Claimed, ClaimedJob
from tenure.domain.job import Job, Spec, Token, as_enqueued, secret_hash
from tenure.domain.model import Unit
from tenure.domain.model.bulk import BulkLease
from tenure.domain.model.claim import lease_for, lone_cursor, next_run_at
from tenure.domain.model.plain import claims_plainly, ungated
from tenure.domain.model.tables import Lane
from tenure.domain.names import Ms
from tenure.domain.states import Command, State
from tenure.domain.transitions import Take, apply
from tenure.stores.forms import ClaimForm, store_timed
from tenure.stores.records import PLAIN_END, spec_of
from tenure.stores.sql.postgres.place import Unreadable
from tenure.stores.sql.rows import Row
from tenure.stores.ways import Way

if TYPE_CHECKING:
    from tenure.stores.sql.postgres.tables import PostgresTables

FEW = 32
"""Jobs that one statement may take without their number having been known: many take longer to look at twice."""
REST = 16
"""Claims that go the usual way after one that tried this in vain. Such a claim of one job took 0.97 ms, by the usual
way alone 0.69, by one statement 0.40 (medians of 300)."""


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
        jobs = tuple(_Leasing(tables, unit, request, lane).lease(specs, line))
        tables.place.expect_few(len(jobs) <= FEW and all(row[1].endswith(PLAIN_END) for row in line))
    tables.place.falls_short = len(jobs) < request.n
    cursor = lone_cursor(request.cursor, lane[0], tables.tenant_config(lane[0]).weight or 1, len(jobs))
    return Claimed(jobs, cursor, now, _wake_after(tables, request, now) if len(jobs) < request.n else None)


def _gated(tables: "PostgresTables", lane: Lane) -> bool:
    return not ungated(tables.rules(*lane), tables.tenant_config(lane[0]))


def _specs(line: list[Row], now: Ms) -> list[Spec] | None:
    """What never changes of each, if all are as they were enqueued and none may expire."""
    found: list[Spec] = []
    for row in line:
        if row[5] is not None or row[1] is None:
            return None
        spec = _spec(row[0], row[1])
        if not claims_plainly(spec, 0, spec.enqueued_at, now):
            return None
        found.append(spec)
    return found


def _spec(seq: int, body: bytes) -> Spec:
    try:
        return spec_of(body)
    except Exception as error:
        raise Unreadable(seq, error) from error


def _wake_after(tables: "PostgresTables", request: Claim, now: Ms) -> Ms | None:
    run_at = next_run_at(tables, [request.queues[0][0]], request.tenants, now)
    return None if run_at is None else run_at - now


class _Leasing:
    """What the jobs of one claim share, and what is to be written of them."""

    def __init__(self, tables: "PostgresTables", unit: Unit, request: Claim, lane: Lane) -> None:
        self._unit = unit
        self._request = request
        self._tenant = lane[0]
        self._rules = tables.rules(*lane)
        self._token = secret_hash(request.claim_id)
        self._lying = tables.lying
        self._kinds: dict[tuple[str, Ms | None, Ms | None], tuple[ClaimForm, list[Job]]] = {}

    def lease(self, specs: Sequence[Spec], line: Sequence[Row]) -> list[ClaimedJob]:
        """As many as there are specs, which are some. One loop with everything at hand: this is every job's way."""
        tenant, secret, now, epoch = self._tenant, self._request.claim_id, self._unit.now, self._unit.meta.epoch
        emit, lying = self._unit.events_of(tenant).append, self._lying
        jobs: list[ClaimedJob] = []
        of = specs[0]
        form, leased = self._kind(of, line[0])
        for spec, row in zip(specs, line, strict=False):
            if spec.job_type != of.job_type or spec.lease != of.lease or spec.grace != of.grace:
                of = spec
                form, leased = self._kind(of, row)
            seq, _, _, priority, run_at, _, payload, lies = row[:8]
            id = spec.id
            after = replace(form.like, spec=spec, priority=priority, run_at=run_at)
            emit(form.event(id, now - run_at))
            lying[seq] = lies
            leased.append(after)
            jobs.append(ClaimedJob(after, payload, Token(tenant, id, after.lease_seq, secret), epoch))
        return jobs

    def _kind(self, spec: Spec, row: Row) -> tuple[ClaimForm, list[Job]]:
        """How jobs of this type and lease are leased, and those that were."""
        of = (spec.job_type, spec.lease, spec.grace)
        if of not in self._kinds:
            now = self._unit.now
            lease = lease_for(self._request, spec, self._rules, now, now)
            first = as_enqueued(spec, State.PENDING, row[3], row[4])
            self._kinds[of] = (ClaimForm(first, Take(self._token, lease), now), [])
            self._unit.leased.append(BulkLease(self._kinds[of][1]))
        return self._kinds[of]


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
    found = tables.all("claim_few", *_values(tables, request, now, lane, wanted))
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
    taken = _Taken(tables, request, lane, at, epoch)
    jobs = tuple([taken.job(*row[4:9]) for row in found]) if count else ()
    wake_after = None if upcoming is None or len(jobs) == request.n else upcoming - at
    return Claimed(jobs, lone_cursor(request.cursor, tenant, weight, len(jobs)), at, wake_after)


def _values(tables: "PostgresTables", request: Claim, now: Ms | None, lane: Lane, wanted: int) -> tuple[Any, ...]:
    (tenant, queue), token = lane, secret_hash(request.claim_id)
    form = store_timed(request, lane, tables.rules(*lane))
    promoted, lease = tables.place.promoted - tables.place.slack, form.lease
    return (
        *(tables.config, now, token, queue, tenant, wanted, FEW, PLAIN_END, promoted, lease.ttl, lease.grace),
        *(form.live(token), *form.rooms, form.version, tables.pipeline.column("text", form.story)),
    )


class _Taken:
    """The jobs that one statement took, as they are now."""

    def __init__(self, tables: "PostgresTables", request: Claim, lane: Lane, now: Ms, epoch: int) -> None:
        self._request, self._now, self._epoch = request, now, epoch
        self._tenant = lane[0]
        self._rules = tables.rules(*lane)
        self._running = tables.running
        self._hash = secret_hash(request.claim_id)
        self._likes: dict[str, Job] = {}
        """By type: what succeeds together shares more than a lease's times (`hot.succeed`)."""

    def job(self, seq: int, body: bytes, priority: int, run_at: Ms, payload: bytes) -> ClaimedJob:
        spec = _spec(seq, body)
        like = self._likes.get(spec.job_type)
        if like is None:
            like = self._likes[spec.job_type] = self._first(as_enqueued(spec, State.PENDING, priority, run_at))
        after = replace(like, spec=spec, priority=priority, run_at=run_at)
        self._running[self._tenant, spec.id] = after
        token = Token(self._tenant, spec.id, after.lease_seq, self._request.claim_id)
        return ClaimedJob(after, payload, token, self._epoch)

    def _first(self, job: Job) -> Job:
        lease = lease_for(self._request, job.spec, self._rules, self._now, self._now)
        return apply(Command.CLAIM, job, Take(self._hash, lease), self._now).job
