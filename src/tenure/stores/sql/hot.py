"""The hot path: claims and successes without the model's general machinery.

Nine calls in ten are these two. Here they go from row to row with no intermediate records; whatever is out of the
ordinary (an expiry, parents, children, a refusal, any other outcome) takes the model's path, the whole batch with it
where that matters. What this writes must equal what the model would have written to the byte: lockstep compares them.

Jobs that were as enqueued when one claim took them differ in nothing but what never changes, so whole batches share one
encoding and one statement.
"""

from collections.abc import Sequence
from typing import Any

from tenure.domain import model
from tenure.domain.calls import Claim, Claimed, Settle, Settled, Succeed
from tenure.domain.errors import Refused
from tenure.domain.event import form
from tenure.domain.job import KEPT_ATTEMPTS, Attempt, Job, Lease, Ref, secret_hash
from tenure.domain.model import Unit
from tenure.domain.model.claim import Taken, lease_one, times_of
from tenure.domain.model.moves import release_key
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.stores import records
from tenure.stores.sql import rows
from tenure.stores.sql.tables import SqlTables
from tenure.stores.ways import Way

_SUCCEEDED = Settled(State.SUCCEEDED)
_SETTLEMENT = ("succeed", "succeeded")


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
        if (spec.expires_at is not None and job.lease_seq == 0) or now < job.updated_at:
            tables.ways.took(Way.CLAIM_HOT_MODEL)
            jobs.append(lease_one(unit, request, token, one))
            continue
        of = (spec.tenant, spec.queue, spec.job_type, spec.group, spec.lease, spec.grace)
        kind = kinds.get(of)
        if kind is None:
            kind = kinds[of] = _Leasing(unit, request, token, one)
            tables.ways.took(Way.CLAIM_HOT if spec.group is None else Way.CLAIM_HOT_GROUP)
        run_at, seq, id = job.run_at, spec.seq, spec.id
        if job.version == 1:
            after = Job(spec, State.RUNNING, 2, job.priority, run_at, now, 1, 1, token, kind.lease)
            live = kind.live
            if one.group_holders is None:
                kind.emit((kind.form, f"{id}\t{now - run_at}\n"))
            else:
                kind.emit(f"{kind.head}{id}{kind.middle}{now - run_at}{_of_group(one)}}}\n")
        else:
            tables.ways.took(Way.CLAIM_HOT_AGAIN)
            after = _again(job, now, token, kind.lease)
            live = records.live_blob(after)
            since = max(run_at, job.history[-1].ended_at) if job.history else run_at
            kind.emit(
                f'{kind.head}{id}","version":{after.version},"queue":"{spec.queue}","job_type":"{spec.job_type}",'
                f'"attempt":{after.attempt},"lease_seq":{after.lease_seq},"worker":"{request.worker}"{kind.group},'
                f'"lease_until":{kind.lease.until},"waited_ms":{now - since}{_of_group(one)}}}\n'
            )
        if spec.group is None:
            kind.leased.append((-job.priority, run_at, seq, kind.deadline, live, after.version))
        else:
            moves.left.append((spec.queue, spec.tenant, spec.group, -job.priority, run_at, seq))
            moves.taken.append((seq, spec.queue, spec.tenant, spec.group, token, kind.deadline, live, after.version))
        moves.running[spec.tenant, id] = after
        jobs.append(after)
    return jobs


def _of_group(one: Taken) -> str:
    if one.group_holders is None:
        return ""
    limit = "" if one.group_limit is None else f',"group_limit":{one.group_limit}'
    return f',"group_holders":{one.group_holders}{limit}'


class _Leasing:
    """What the jobs of one tenant, queue, type and group that one claim takes have in common."""

    __slots__ = ("deadline", "emit", "form", "group", "head", "lease", "leased", "live", "middle")

    def __init__(self, unit: Unit, request: Claim, token: bytes, one: Taken) -> None:
        spec, worker, now = one.job.spec, request.worker, unit.now
        tenant, queue, group = spec.tenant, spec.queue, spec.group
        ttl, grace = times_of(request, one)
        self.lease = Lease(worker, now, now + ttl, ttl, grace)
        self.deadline = now + ttl + grace
        self.group = "" if group is None else f',"group":{rows.json_text(group)}'
        self.head = f'{{"tenant":"{tenant}","kind":"claimed","at":{now},"job_id":"'
        self.middle = (
            f'","version":2,"queue":"{queue}","job_type":"{spec.job_type}","attempt":1,"lease_seq":1,'
            f'"worker":"{worker}"{self.group},"lease_until":{now + ttl},"waited_ms":'
        )
        self.form = form(self.head, self.middle, "}")
        self.emit = unit.events_of(tenant).append
        self.leased = _tables(unit).hot.leased[queue, tenant, token]
        self.live = records.encode((2, now, 1, 1, token, self.lease, None, False, None, None, None, None, {}, ()))
        """Of a job that was as enqueued: nothing tells two of them apart."""


def _again(job: Job, now: Ms, token: bytes, lease: Lease) -> Job:
    """The record of a job that is claimed, whatever came before."""
    return Job(
        job.spec,
        State.RUNNING,
        job.version + 1,
        job.priority,
        job.run_at,
        now,
        job.attempt + 1,
        job.lease_seq + 1,
        token,
        lease,
        None,
        job.cancel_requested,
        None,
        None,
        None,
        job.last_error,
        job.releases,
        job.history,
    )


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
    now = unit.now
    jobs: list[Job] = []
    for one, ref in zip(settlements, refs, strict=True):
        job, token = found.get(ref), one.token
        if job is None or job.lease is None or now > job.lease.until + job.lease.grace or now < job.updated_at:
            return None
        spec, hashed = job.spec, hashes.get(token.secret)
        if hashed is None:
            hashed = hashes[token.secret] = secret_hash(token.secret)
        if job.lease_seq != token.lease_seq or job.token != hashed:
            return None
        if spec.parents:
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
            kind = kinds[id(lease)] = _Succeeding(unit, job, lease)
            _tables(unit).ways.took(Way.SETTLE_HOT)
            if _tables(unit).rules(spec.tenant, spec.queue).limit is not None:
                freed.add(spec.queue)
        seq, name, result = spec.seq, spec.id, outcome.result
        if job.version == 2:
            kind.first.append(seq)
            if result is None:
                kind.emit((kind.form, f"{name}\n"))
            else:
                kind.emit((kind.form_with_result, f"{name}\t{len(result)}\n"))
        else:
            _tables(unit).ways.took(Way.SETTLE_HOT_AGAIN)
            size = "" if result is None else f',"result_size":{len(result)}'
            moves.succeeded[job.version + 1, records.encode(_ended(job, lease, now))].append(seq)
            kind.emit(
                f'{kind.head}{name}","version":{job.version + 1},"queue":"{spec.queue}","job_type":"{spec.job_type}",'
                f'"attempt":{job.attempt},"lease_seq":{job.lease_seq},"worker":"{lease.worker}",'
                f'"run_ms":{now - lease.claimed_at},"reason":"ok"{size}}}\n'
            )
        running.pop((spec.tenant, name), None)
        if spec.group is not None:
            freed.add(spec.queue)
            moves.out_of_order.append((spec.queue, spec.tenant, spec.group, seq))
        if result is not None:
            results.append((now + max(spec.result_ttl, spec.unique_for or 0), seq, result, outcome.codec))
    specs = [job.spec for job in jobs if job.spec.key is not None]
    unit.fetch_bindings([key for spec in specs if (key := spec.binding_key) is not None])
    for spec in specs:
        release_key(unit, spec, State.SUCCEEDED)
    unit.ended(freed, [job.ref for job in jobs])
    return [_SUCCEEDED] * len(jobs)


class _Succeeding:
    """What the jobs of one tenant, queue and type that one claim took have in common when they succeed."""

    __slots__ = ("emit", "first", "form", "form_with_result", "head")

    def __init__(self, unit: Unit, job: Job, lease: Lease) -> None:
        spec, now = job.spec, unit.now
        self.head = f'{{"tenant":"{spec.tenant}","kind":"succeeded","at":{now},"job_id":"'
        tail = (
            f'","version":3,"queue":"{spec.queue}","job_type":"{spec.job_type}","attempt":1,"lease_seq":1,'
            f'"worker":"{lease.worker}","run_ms":{now - lease.claimed_at},"reason":"ok"'
        )
        self.form = form(self.head, f"{tail}}}")
        self.form_with_result = form(self.head, f'{tail},"result_size":', "}")
        ended = Attempt(1, 1, lease.worker, lease.claimed_at, now, "succeeded", "ok", None)
        live = records.encode((3, now, 1, 1, job.token, None, _SETTLEMENT, False, now, "ok", None, None, {}, (ended,)))
        self.emit = unit.events_of(spec.tenant).append
        self.first = _tables(unit).hot.succeeded[3, live]
        """Jobs that were as enqueued when they were claimed, and unchanged since."""


def _ended(job: Job, lease: Lease, now: Ms) -> tuple[Any, ...]:
    """What `live` says of a job that succeeds, whatever came before."""
    ended = Attempt(job.attempt, job.lease_seq, lease.worker, lease.claimed_at, now, "succeeded", "ok", None)
    return (
        job.version + 1,
        now,
        job.attempt,
        job.lease_seq,
        job.token,
        None,
        _SETTLEMENT,
        job.cancel_requested,
        now,
        "ok",
        job.progress,
        job.last_error,
        job.releases,
        (*job.history[1 - KEPT_ATTEMPTS :], ended),
    )


def _tables(unit: Unit) -> SqlTables:
    if not isinstance(unit.tables, SqlTables):
        raise AssertionError("the hot path is for stores in SQL")
    return unit.tables
