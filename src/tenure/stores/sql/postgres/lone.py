"""A claim from the only lane that there is, of jobs that are as they were enqueued: from row to lease in one step.

Many claims under load are such. What this gives and writes is what the model would (`hot.py` has the general form), but
it walks over no tenants, and makes no record of a job before it is taken.
"""

from typing import TYPE_CHECKING

from tenure.domain.calls import Claim, Claimed, ClaimedJob
from tenure.domain.job import Job, Lease, Spec, Token, secret_hash
from tenure.domain.model import Unit
from tenure.domain.model.claim import lease_times, lone_cursor
from tenure.domain.model.tables import Lane
from tenure.domain.names import Ms
from tenure.domain.states import Mode, State
from tenure.stores.sql import rows
from tenure.stores.sql.postgres.place import Unreadable
from tenure.stores.sql.rows import Row
from tenure.stores.sql.tables import LeasedAtOnce

if TYPE_CHECKING:
    from tenure.stores.sql.postgres.tables import PostgresTables


def claim(tables: "PostgresTables", unit: Unit, request: Claim, lane: Lane, line: list[Row]) -> Claimed | None:
    """The answer; None, and nothing done, if these jobs must be looked at one by one."""
    (_, most), now = request.queues[0], unit.now
    rules, config = tables.rules(*lane), tables.tenant_config(lane[0])
    gated = rules.limit is not None or rules.bucket is not None or rules.mode is Mode.KEYED
    if gated or rules.paused or config.paused:
        return None
    wanted = request.n if most is None else min(request.n, most)
    specs = _specs(line[:wanted], now)
    if specs is None:
        return None
    jobs: tuple[ClaimedJob, ...] = ()
    if specs:  # else nothing is to be written, not even that nothing happened
        leasing = _Leasing(tables, unit, request, lane)
        jobs = tuple([leasing.lease(spec, row) for spec, row in zip(specs, line, strict=False)])
        tables.hot.at_once = leasing.written
    tables.place.falls_short = len(jobs) < request.n
    cursor = lone_cursor(request.cursor, lane[0], config.weight or 1, len(jobs))
    return Claimed(jobs, cursor, now, _wake_after(tables, request, now) if len(jobs) < request.n else None)


def _specs(line: list[Row], now: Ms) -> list[Spec] | None:
    """What never changes of each, if all are as they were enqueued and none may expire."""
    found: list[Spec] = []
    for row in line:
        if row[5] is not None or row[1] is None:
            return None
        try:
            spec = rows.spec_of(row[1])
        except Exception as error:
            raise Unreadable(row[0], error) from error
        if spec.expires_at is not None or now < spec.enqueued_at:
            return None
        found.append(spec)
    return found


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
        self._of: tuple[str, Ms | None, Ms | None] | None = None
        self.written = LeasedAtOnce(self._queue, self._tenant, self._token)

    def lease(self, spec: Spec, row: Row) -> ClaimedJob:
        if (spec.job_type, spec.lease, spec.grace) != self._of:
            self._turn_to(spec)
        seq, _, _, priority, run_at, _, payload, lies = row[:8]
        id, tenant, secret = spec.id, self._tenant, self._request.claim_id
        after = Job(spec, State.RUNNING, 2, priority, run_at, self._now, 1, 1, self._token, self._lease)
        self._emit(f"{self._head}{id}{self._middle}{self._now - run_at}}}\n")
        self._running[tenant, id] = after
        self.written.add(seq, lies, self._kind)
        return ClaimedJob(after, payload, Token(tenant, id, 1, secret), self._epoch)

    def _turn_to(self, spec: Spec) -> None:
        """The following jobs are of another kind."""
        worker, now = self._request.worker, self._now
        self._of = (spec.job_type, spec.lease, spec.grace)
        ttl, grace = lease_times(self._request, spec, self._rules)
        self._lease = Lease(worker, now, now + ttl, ttl, grace)
        self._middle = (
            f'","version":2,"queue":"{self._queue}","job_type":"{spec.job_type}","attempt":1,"lease_seq":1,'
            f'"worker":"{worker}","lease_until":{now + ttl},"waited_ms":'
        )
        live = rows.encode((2, now, 1, 1, self._token, self._lease, None, False, None, None, None, None, {}, ()))
        self._kind = self.written.kind(now + ttl + grace, live)
