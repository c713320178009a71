"""The hot path: claims and successes without the model's general machinery.

Nine calls in ten are these two. Here they go from row to row with no intermediate records; whatever is out of the
ordinary (an expiry, parents, children, a refusal, any other outcome) takes the model's path, the whole batch with it
where that matters. What this writes must equal what the model would have written to the byte: lockstep compares them.

Jobs that were as enqueued when one claim took them differ in nothing but what never changes, so whole batches share one
encoding and one statement.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tenure.domain import model
from tenure.domain.calls import Claim, Claimed, Settle, Settled, Succeed
from tenure.domain.errors import Refused
from tenure.domain.job import Job, Ref, result_expiry, secret_hash
from tenure.domain.model import Unit
from tenure.domain.model.claim import Taken, lease_for, lease_one
from tenure.domain.model.moves import release_key
from tenure.domain.model.plain import claims_plainly, succeeds_plainly
from tenure.domain.names import Ms
from tenure.domain.states import Command, State
from tenure.domain.transitions import Take, apply
from tenure.stores import records
from tenure.stores.forms import ClaimForm, SuccessForm
from tenure.stores.sql.tables import SqlTables
from tenure.stores.ways import Way

_SUCCEEDED = Settled(State.SUCCEEDED)


def claim(unit: Unit, request: Claim) -> Claimed | Refused:
    """The model's claim, its plain jobs leased by the short way."""
    return model.claim(unit, request, lease=_lease)


def _lease(unit: Unit, request: Claim, token: bytes, taken: list[Taken]) -> list[Job]:
    tables, now = _tables(unit), unit.now
    moves = tables.hot
    kinds: dict[tuple[str, str, str, str | None, Ms | None, Ms | None], _Leasing] = {}
    jobs: list[Job] = []
    for one in taken:
        job = one.job
        spec = job.spec
        if not claims_plainly(spec, job.lease_seq, job.updated_at, now):
            tables.ways.took(Way.CLAIM_HOT_MODEL)
            jobs.append(lease_one(unit, request, token, one))
            continue
        of = (spec.tenant, spec.queue, spec.job_type, spec.group, spec.lease, spec.grace)
        kind = kinds.get(of)
        if kind is None:
            kind = kinds[of] = _Leasing(unit, request, token, one)
            tables.ways.took(Way.CLAIM_HOT if spec.group is None else Way.CLAIM_HOT_GROUP)
        run_at, seq = job.run_at, spec.seq
        if job.version == 1:
            form = kind.form or kind.begin(one)
            after = replace(form.like, spec=spec, priority=job.priority, run_at=run_at)
            live = form.live
            kind.emit(form.event(spec.id, now - run_at, one.group_holders))
        else:
            tables.ways.took(Way.CLAIM_HOT_AGAIN)
            step = apply(Command.CLAIM, job, kind.take(one), now)
            after = step.job
            live = records.live_blob(after)
            unit.tell(step)
        if spec.group is None:
            kind.leased.append((-job.priority, run_at, seq, kind.deadline, live, after.version))
        else:
            moves.left.append((spec.queue, spec.tenant, spec.group, -job.priority, run_at, seq))
            moves.taken.append((seq, spec.queue, spec.tenant, spec.group, token, kind.deadline, live, after.version))
        moves.running[spec.tenant, spec.id] = after
        jobs.append(after)
    return jobs


class _Leasing:
    """What the jobs of one tenant, queue, type and group that one claim takes have in common."""

    __slots__ = ("_lease", "_now", "_token", "deadline", "emit", "form", "leased")

    def __init__(self, unit: Unit, request: Claim, token: bytes, one: Taken) -> None:
        spec = one.job.spec
        self._now, self._token = unit.now, token
        self._lease = lease_for(request, spec, one.lane.rules, unit.now, unit.now)
        self.deadline = self._lease.deadline
        self.emit = unit.events_of(spec.tenant).append
        self.leased = _tables(unit).hot.leased[spec.queue, spec.tenant, token]
        self.form: ClaimForm | None = None
        """Of jobs that are as they were enqueued."""

    def take(self, one: Taken) -> Take:
        return Take(self._token, self._lease, one.group_holders, one.group_limit)

    def begin(self, one: Taken) -> ClaimForm:
        """The form, of the first such job."""
        self.form = ClaimForm(one.job, self.take(one), self._now)
        return self.form


def settle(unit: Unit, settlements: Sequence[Settle]) -> list[Settled | Refused]:
    """Successes of plain jobs by the short way, if the batch is nothing else; by the model's otherwise."""
    jobs = plain(unit, settlements)
    if jobs is not None:
        return succeed(unit, jobs, settlements)
    _tables(unit).ways.took(Way.SETTLE_MODEL)
    return model.settle(unit, settlements)


def plain(unit: Unit, settlements: Sequence[Settle]) -> list[Job] | None:
    """The jobs of a batch in which every item is an acceptable success with no consequences but its own."""
    refs: list[Ref] = []
    for one in settlements:
        outcome, token = one.outcome, one.token
        if type(outcome) is not Succeed or outcome.jobs:
            return None
        refs.append((token.tenant, token.job_id))
    if len(set(refs)) < len(refs) or not _tables(unit).childless(refs):
        return None
    found = _tables(unit).recent(refs)
    hashes: dict[bytes, bytes] = {}
    jobs: list[Job] = []
    for one, ref in zip(settlements, refs, strict=True):
        job, token = found.get(ref), one.token
        hashed = hashes.get(token.secret)
        if hashed is None:
            hashed = hashes[token.secret] = secret_hash(token.secret)
        if job is None or not succeeds_plainly(job, token.lease_seq, hashed, unit.now):
            return None
        jobs.append(job)
    return jobs


def succeed(unit: Unit, jobs: list[Job], settlements: Sequence[Settle]) -> list[Settled | Refused]:
    """Ends plain jobs well. Only where a place was scarce may another job have waited for theirs."""
    now, moves = unit.now, _tables(unit).hot
    results, running = moves.results, moves.running
    kinds: dict[int, _Succeeding] = {}
    freed: set[str] = set()
    for job, one in zip(jobs, settlements, strict=True):
        spec, lease, outcome = job.spec, job.lease, one.outcome
        if lease is None or type(outcome) is not Succeed:
            raise AssertionError("the hot path is for running jobs that succeed")
        kind = kinds.get(id(lease))  # one lease, one claim, tenant, queue and type (`_Leasing`)
        if kind is None:
            kind = kinds[id(lease)] = _Succeeding(unit, job)
            _tables(unit).ways.took(Way.SETTLE_HOT)
            if _tables(unit).rules(spec.tenant, spec.queue).limit is not None:
                freed.add(spec.queue)
        result = outcome.result
        if job.version == 2:
            form = kind.form or kind.begin(job)
            kind.first.append(spec.seq)
            kind.emit(form.event(spec.id, result))
        else:
            _tables(unit).ways.took(Way.SETTLE_HOT_AGAIN)
            step = apply(Command.SUCCEED, job, outcome, now)
            moves.succeeded[step.job.version, records.live_blob(step.job)].append(spec.seq)
            unit.tell(step)
        running.pop((spec.tenant, spec.id), None)
        if spec.group is not None:
            freed.add(spec.queue)
            moves.out_of_order.append((spec.queue, spec.tenant, spec.group, spec.seq))
        if result is not None:
            expires_at = result_expiry(now, spec.result_ttl, spec.unique_for)
            results.append((expires_at, spec.seq, result, outcome.codec))
    specs = [job.spec for job in jobs if job.spec.key is not None]
    unit.fetch_bindings([key for spec in specs if (key := spec.binding_key) is not None])
    for spec in specs:
        release_key(unit, spec, State.SUCCEEDED)
    unit.ended(freed, [job.ref for job in jobs])
    return [_SUCCEEDED] * len(jobs)


class _Succeeding:
    """What the jobs of one tenant, queue and type that one claim took have in common when they succeed."""

    __slots__ = ("_unit", "emit", "first", "form")

    def __init__(self, unit: Unit, job: Job) -> None:
        self._unit = unit
        self.emit = unit.events_of(job.spec.tenant).append
        self.form: SuccessForm | None = None
        """Of jobs that were as enqueued when they were claimed, and unchanged since."""
        self.first: list[int] = []

    def begin(self, job: Job) -> SuccessForm:
        """The form, of the first such job."""
        self.form = SuccessForm(job, self._unit.now)
        self.first = _tables(self._unit).hot.succeeded[self.form.like.version, self.form.live]
        return self.form


def _tables(unit: Unit) -> SqlTables:
    if not isinstance(unit.tables, SqlTables):
        raise AssertionError("the hot path is for stores in SQL")
    return unit.tables
