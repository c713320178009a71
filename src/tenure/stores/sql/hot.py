"""The hot path: claims and successes of plain jobs in bulk.

Nine calls in ten are these two. Jobs that were as enqueued when one claim took them differ in spec, priority and run_at
alone: the model moves the first of each kind, and the others are written by its form (`stores/forms.py`), so that whole
batches share one encoding and one statement. A plain job that was claimed before is moved by the transition table, and
written in bulk all the same. Jobs that aren't plain (`domain/model/plain.py`) take the model's path; a batch of
settlements with one of these does so as a whole.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tenure.domain import model
from tenure.domain.calls import Claim, Claimed, Settle, Settled, Succeed
from tenure.domain.errors import Refused
from tenure.domain.job import Job, Ref, Result, result_expiry, secret_hash
from tenure.domain.model import Unit
from tenure.domain.model.bulk import BulkLease, BulkSuccess
from tenure.domain.model.claim import Taken, lease_for, lease_one
from tenure.domain.model.moves import release_key
from tenure.domain.model.plain import claims_plainly, succeeds_alike, succeeds_plainly
from tenure.domain.names import Ms
from tenure.domain.states import Command, State
from tenure.domain.transitions import Take, apply
from tenure.stores.forms import ClaimForm, SuccessForm
from tenure.stores.sql.tables import SqlTables
from tenure.stores.ways import Way

_SUCCEEDED = Settled(State.SUCCEEDED)


def claim(unit: Unit, request: Claim) -> Claimed | Refused:
    """The model's claim, with plain jobs leased in bulk."""
    return model.claim(unit, request, lease=_lease)


def _lease(unit: Unit, request: Claim, token: bytes, taken: list[Taken]) -> list[Job]:
    ways, now = _tables(unit).ways, unit.now
    kinds: dict[tuple[str, str, str, str | None, Ms | None, Ms | None], _Leasing] = {}
    jobs: list[Job] = []
    several = len(taken) > 1  # else a form doesn't pay
    for one in taken:
        job = one.job
        spec = job.spec
        if not claims_plainly(spec, job.lease_seq, job.updated_at, now):
            ways.took(Way.CLAIM_HOT_MODEL)
            jobs.append(lease_one(unit, request, token, one))
            continue
        of = (spec.tenant, spec.queue, spec.job_type, spec.group, spec.lease, spec.grace)
        kind = kinds.get(of)
        if kind is None:
            kind = kinds[of] = _Leasing(unit, request, token, one)
            ways.took(Way.CLAIM_HOT if spec.group is None else Way.CLAIM_HOT_GROUP)
        if job.version == 1 and several:
            form = kind.form or kind.begin(one)
            run_at = job.run_at
            after = replace(form.like, spec=spec, priority=job.priority, run_at=run_at)
            kind.emit(form.event(spec.id, now - run_at, one.group_holders))
            kind.jobs.append(after)
        else:
            if job.version > 1:
                ways.took(Way.CLAIM_HOT_AGAIN)
            step = apply(Command.CLAIM, job, kind.take(one), now)
            after = step.job
            unit.tell(step)
            unit.leased.append(BulkLease([after]))
        jobs.append(after)
    return jobs


class _Leasing:
    """What the jobs of one tenant, queue, type and group that one claim takes have in common."""

    __slots__ = ("_lease", "_token", "_unit", "emit", "form", "jobs")

    def __init__(self, unit: Unit, request: Claim, token: bytes, one: Taken) -> None:
        spec = one.job.spec
        self._unit, self._token = unit, token
        self._lease = lease_for(request, spec, one.lane.rules, unit.now, unit.now)
        self.emit = unit.events_of(spec.tenant).append
        self.form: ClaimForm | None = None
        """Of jobs that are as they were enqueued."""
        self.jobs: list[Job] = []

    def take(self, one: Taken) -> Take:
        return Take(self._token, self._lease, one.group_holders, one.group_limit)

    def begin(self, one: Taken) -> ClaimForm:
        """The form, of the first such job."""
        self.form = ClaimForm(one.job, self.take(one), self._unit.now)
        self._unit.leased.append(BulkLease(self.jobs))
        return self.form


def settle(unit: Unit, settlements: Sequence[Settle]) -> list[Settled | Refused]:
    """Successes in bulk, if all items of the batch are plain; else by the model."""
    jobs = plain(unit, settlements)
    if jobs is not None:
        return succeed(unit, jobs, settlements)
    _tables(unit).ways.took(Way.SETTLE_MODEL)
    return model.settle(unit, settlements)


def plain(unit: Unit, settlements: Sequence[Settle]) -> list[Job] | None:
    """The jobs of a batch in which every item is a success that is accepted and ends its own job only; else None."""
    refs: list[Ref] = []
    for one in settlements:
        outcome, token = one.outcome, one.token
        if type(outcome) is not Succeed or outcome.jobs:
            return None
        refs.append((token.tenant, token.job_id))
    if len(set(refs)) < len(refs) or not _tables(unit).childless(refs):
        return None
    found = _tables(unit).recent(refs)
    known: dict[bytes, tuple[bytes, Job]] = {}
    """By the secret of a claim: its hash, and the last job of it that was looked at whole."""
    jobs: list[Job] = []
    for one, ref in zip(settlements, refs, strict=True):
        job, token = found.get(ref), one.token
        if job is None:
            return None
        hashed, other = known.get(token.secret, (None, None))
        if other is None or not succeeds_alike(job, other, token.lease_seq):
            hashed = hashed or secret_hash(token.secret)
            if not succeeds_plainly(job, token.lease_seq, hashed, unit.now):
                return None
            known[token.secret] = hashed, job
        jobs.append(job)
    return jobs


def succeed(unit: Unit, jobs: list[Job], settlements: Sequence[Settle]) -> list[Settled | Refused]:
    """Ends plain jobs well."""
    now, ways = unit.now, _tables(unit).ways
    kinds: dict[int, _Succeeding] = {}
    several = len(jobs) > 1  # else a form doesn't pay
    for job, one in zip(jobs, settlements, strict=True):
        spec, lease, outcome = job.spec, job.lease, one.outcome
        if lease is None or type(outcome) is not Succeed:
            raise AssertionError("the hot path is for running jobs that succeed")
        kind = kinds.get(id(lease))  # one lease, one claim, tenant, queue, type and group (`_Leasing`)
        if kind is None:
            kind = kinds[id(lease)] = _Succeeding(unit, job)
            ways.took(Way.SETTLE_HOT)
        if job.version == 2 and several:
            form = kind.form or kind.begin(job)
            bulk = kind.bulk
            bulk.jobs.append(job)
            kind.emit(form.event(spec.id, outcome.result))
        else:
            if job.version > 2:
                ways.took(Way.SETTLE_HOT_AGAIN)
            step = apply(Command.SUCCEED, job, outcome, now)
            unit.tell(step)
            bulk = kind.end(step.job, [job])
        if outcome.result is not None:
            expires_at = result_expiry(now, spec.result_ttl, spec.unique_for)
            bulk.results.append((spec.seq, Result(outcome.result, outcome.codec, expires_at)))
    specs = [job.spec for job in jobs if job.spec.key is not None]
    unit.fetch_bindings([key for spec in specs if (key := spec.binding_key) is not None])
    for spec in specs:
        release_key(unit, spec, State.SUCCEEDED)
    return [_SUCCEEDED] * len(jobs)


class _Succeeding:
    """What the jobs of one tenant, queue, type and group that one claim took have in common when they succeed."""

    __slots__ = ("_frees", "_unit", "bulk", "emit", "form")

    bulk: BulkSuccess

    def __init__(self, unit: Unit, job: Job) -> None:
        spec = job.spec
        self._unit = unit
        self._frees = spec.group is not None or _tables(unit).rules(spec.tenant, spec.queue).limit is not None
        """Only where a place was scarce may another job have waited for theirs."""
        self.emit = unit.events_of(spec.tenant).append
        self.form: SuccessForm | None = None
        """Of jobs that were as enqueued when they were claimed, and unchanged since."""

    def begin(self, job: Job) -> SuccessForm:
        """The form, of the first such job."""
        self.form = SuccessForm(job, self._unit.now)
        self.bulk = self.end(self.form.like, [])
        return self.form

    def end(self, ended: Job, jobs: list[Job]) -> BulkSuccess:
        """Jobs that end as this one does."""
        bulk = BulkSuccess(ended, jobs, [], self._frees)
        self._unit.succeeded.append(bulk)
        return bulk


def _tables(unit: Unit) -> SqlTables:
    if not isinstance(unit.tables, SqlTables):
        raise AssertionError("the hot path is for stores in SQL")
    return unit.tables
