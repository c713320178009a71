"""Renew and settle: what the holder of a token may do."""

from collections.abc import Sequence

from tenure.domain.calls import Fail, Outcome, Release, Renewal, Renewed, Retry, Settle, Settled, Succeed
from tenure.domain.errors import InvalidValue, JobCancelled, Refused
from tenure.domain.job import Job, Result, Token, Traceback, secret_hash
from tenure.domain.model import moves
from tenure.domain.model.attached import TRACEBACKS, member
from tenure.domain.model.enqueue import enqueue_carried
from tenure.domain.model.unit import Unit
from tenure.domain.states import Command
from tenure.domain.transitions import refusal

_COMMANDS = {
    "succeed": Command.SUCCEED,
    "retry": Command.RETRY,
    "fail": Command.FAIL,
    "release": Command.RELEASE,
}


def renew(unit: Unit, renewals: Sequence[Renewal]) -> list[Renewed | Refused]:
    """Extends leases, never shortening one, and notes progress."""
    unit.fetch_jobs([renewal.token.ref for renewal in renewals])
    return [_renew_one(unit, renewal) for renewal in renewals]


def _renew_one(unit: Unit, renewal: Renewal) -> Renewed | Refused:
    token = renewal.token
    job = unit.job(token.ref)
    refused = refusal(job, token.lease_seq, secret_hash(token.secret), unit.now)
    if isinstance(refused, Refused):
        return refused
    job = moves.move(unit, Command.RENEW, _found(job), renewal.progress)
    return Renewed(job.lease.until if job.lease else unit.now, job.cancel_requested)


def settle(unit: Unit, settlements: Sequence[Settle]) -> list[Settled | Refused]:
    """Ends leases in item order; a refused item changes nothing for the others."""
    for settlement in settlements:
        if isinstance(settlement.outcome, Succeed) and settlement.outcome.jobs:
            _check_carried(settlement.token, settlement.outcome)
    unit.prefetch([(one.token.tenant, one.token.job_id) for one in settlements])
    unit.fetch_members(TRACEBACKS, [one.token.ref for one in settlements if _may_be_too_many(one)])
    hashes = {secret: secret_hash(secret) for secret in {settlement.token.secret for settlement in settlements}}
    return [_settle_one(unit, one.token, hashes[one.token.secret], one.outcome) for one in settlements]


def _traceback_of(outcome: Outcome) -> Traceback | None:
    return outcome.traceback if isinstance(outcome, Retry | Fail) else None


def _may_be_too_many(settlement: Settle) -> bool:
    """Whether a job may then have more tracebacks than are kept: it has one a lease at most."""
    return settlement.token.lease_seq > TRACEBACKS.most and _traceback_of(settlement.outcome) is not None


def _check_carried(token: Token, outcome: Succeed) -> None:
    if any(job.tenant != token.tenant for job in outcome.jobs):
        raise InvalidValue("jobs: a success can carry jobs of its own tenant only")


def _settle_one(unit: Unit, token: Token, hashed: bytes, outcome: Outcome) -> Settled | Refused:
    job = unit.job((token.tenant, token.job_id))
    refused = refusal(job, token.lease_seq, hashed, unit.now, outcome.tag)
    if refused is not None:
        if isinstance(refused, JobCancelled) and isinstance(outcome, Release):
            _confirm_drained(unit, token)
        return refused
    if isinstance(outcome, Succeed) and outcome.jobs:
        return _succeed_carrying(unit, _found(job), outcome)
    return Settled(_end(unit, _found(job), outcome).state)


def _confirm_drained(unit: Unit, token: Token) -> None:
    """The handler of a cancelled job has really ended: its place is free."""
    slot = unit.slot(token.ref)
    if slot is not None and slot.lease_seq == token.lease_seq:
        unit.free(slot)


def _succeed_carrying(unit: Unit, job: Job, outcome: Succeed) -> Settled | Refused:
    before = unit.snapshot()
    after = _end(unit, job, outcome)
    refused = enqueue_carried(unit, outcome.jobs)
    if refused is not None:
        unit.restore(before)
        return refused
    return Settled(after.state)


def _end(unit: Unit, job: Job, outcome: Outcome) -> Job:
    after = moves.move(unit, _COMMANDS[outcome.tag], job, outcome)
    if isinstance(outcome, Succeed) and outcome.result is not None:
        unit.results[after.ref] = Result(outcome.result, outcome.codec, after.result_expires_at)
    traceback = _traceback_of(outcome)
    if traceback is not None:
        unit.attach(TRACEBACKS, after.ref, member(after.lease_seq), traceback)
    return after


def _found(job: Job | None) -> Job:
    if job is None:
        raise AssertionError("a token was accepted for a job that isn't there")
    return job
