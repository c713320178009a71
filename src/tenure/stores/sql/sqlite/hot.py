"""The hot path: claims of plain jobs and their successes, without the model's general machinery.

Nine calls in ten are these two. Here they go from row to row with no intermediate records; whatever is not plain (a
group, a key, an expiry, children, a refusal, any other outcome) takes the model's path, the whole batch with it where
that matters. What this writes must equal what the model would have written to the byte: lockstep compares them.

Measured at batch 200: claim + settle through the general path took 2.1 times as long.
"""

from collections.abc import Sequence

from tenure.domain import model
from tenure.domain.calls import Claim, Claimed, Settle, Settled, Succeed
from tenure.domain.errors import Refused
from tenure.domain.job import KEPT_ATTEMPTS, Attempt, Job, Lease, Ref, secret_hash
from tenure.domain.model import Unit
from tenure.domain.model.claim import Taken, lease_one, times_of
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.stores.sql.sqlite import rows
from tenure.stores.sql.sqlite.tables import SqliteTables

_SUCCEEDED = Settled(State.SUCCEEDED)
_SETTLEMENT = ("succeed", "succeeded")


def claim(unit: Unit, request: Claim) -> Claimed | Refused:
    """The model's claim, its plain jobs leased by the short way."""
    return model.claim(unit, request, lease=_lease)


def _lease(unit: Unit, request: Claim, token: bytes, taken: list[Taken]) -> list[Job]:
    tables, now, worker = unit.tables, unit.now, request.worker
    if not isinstance(tables, SqliteTables):
        raise AssertionError("the hot path is SQLite's own")
    moves = tables.hot
    leases: dict[tuple[Ms, Ms], Lease] = {}
    jobs: list[Job] = []
    for one in taken:
        job = one.job
        spec = job.spec
        if spec.group is not None or (spec.expires_at is not None and job.lease_seq == 0):
            jobs.append(lease_one(unit, request, token, one))
            continue
        times = times_of(request, one)
        lease = leases.get(times)
        if lease is None:
            lease = leases[times] = Lease(worker, now, now + times[0], *times)
        after = Job(
            spec,
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
        tenant, queue, seq = spec.tenant, spec.queue, spec.seq
        moves.saved.append(("running", rows.live_blob(after), seq))
        moves.leased[queue, tenant, token].append((-job.priority, job.run_at, seq, lease.until + lease.grace))
        moves.running[tenant, spec.id] = after
        since = max(job.run_at, job.history[-1].ended_at) if job.history else job.run_at
        unit.emit_line(
            tenant,
            f'{{"tenant":"{tenant}","kind":"claimed","at":{now},"job_id":"{spec.id}","version":{after.version},'
            f'"queue":"{queue}","job_type":"{spec.job_type}","attempt":{after.attempt},"lease_seq":{after.lease_seq},'
            f'"worker":"{worker}","lease_until":{lease.until},"waited_ms":{now - since}}}\n',
        )
        jobs.append(after)
    return jobs


def settle(unit: Unit, settlements: Sequence[Settle]) -> list[Settled | Refused]:
    """Successes of plain jobs by the short way, if the batch is nothing else; by the model's otherwise."""
    jobs = _plain(unit, settlements)
    if jobs is None:
        return model.settle(unit, settlements)
    for job, outcome in jobs:
        _succeed(unit, job, outcome.result, outcome.codec)
    return [_SUCCEEDED] * len(jobs)


def _plain(unit: Unit, settlements: Sequence[Settle]) -> list[tuple[Job, Succeed]] | None:
    """The jobs of a batch in which every item is an acceptable success with no consequences but its own."""
    refs: list[Ref] = []
    outcomes: list[Succeed] = []
    for one in settlements:
        outcome = one.outcome
        if not isinstance(outcome, Succeed) or outcome.jobs:
            return None
        outcomes.append(outcome)
        refs.append((one.token.tenant, one.token.job_id))
    if len(set(refs)) < len(refs) or unit.tables.edges_from(refs):
        return None
    found = unit.tables.jobs(refs)
    hashes = {secret: secret_hash(secret) for secret in {one.token.secret for one in settlements}}
    now = unit.now
    jobs: list[Job] = []
    for one, ref in zip(settlements, refs, strict=True):
        job, token = found.get(ref), one.token
        if job is None or job.lease is None or now > job.lease.until + job.lease.grace:
            return None
        spec = job.spec
        if job.lease_seq != token.lease_seq or job.token != hashes[token.secret]:
            return None
        if spec.group is not None or spec.key is not None or spec.parents:
            return None
        jobs.append(job)
    return list(zip(jobs, outcomes, strict=True))


def _succeed(unit: Unit, job: Job, result: bytes | None, codec: str) -> None:
    tables, now, spec, lease = unit.tables, unit.now, job.spec, job.lease
    if not isinstance(tables, SqliteTables) or lease is None:
        raise AssertionError("the hot path is SQLite's own, for running jobs")
    moves, version, worker = tables.hot, job.version + 1, lease.worker
    tenant, queue, seq = spec.tenant, spec.queue, spec.seq
    ended = Attempt(job.attempt, job.lease_seq, worker, lease.claimed_at, now, "succeeded", "ok", None)
    live = (
        version,
        job.priority,
        job.run_at,
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
    moves.saved.append(("succeeded", rows.encode(live), seq))
    moves.succeeded.append(seq)
    moves.running.pop((tenant, spec.id), None)
    size = ""
    if result is not None:
        moves.results.append((now + max(spec.result_ttl, spec.unique_for or 0), seq, result, codec))
        size = f',"result_size":{len(result)}'
    unit.emit_line(
        tenant,
        f'{{"tenant":"{tenant}","kind":"succeeded","at":{now},"job_id":"{spec.id}","version":{version},'
        f'"queue":"{queue}","job_type":"{spec.job_type}","attempt":{job.attempt},"lease_seq":{job.lease_seq},'
        f'"worker":"{worker}","run_ms":{now - lease.claimed_at},"reason":"ok"{size}}}\n',
    )
    unit.ended(queue, (tenant, spec.id))
