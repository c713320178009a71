"""What is plain: calls that change nothing but the job that they name, so that a store may answer many at once.

All other calls go by the model, one job after the other.
"""

from tenure.domain.config import QueueRules, TenantConfig
from tenure.domain.job import Job, NewJob, Spec
from tenure.domain.names import Ms
from tenure.domain.states import Mode
from tenure.domain.transitions import refusal


def fits_mode(rules: QueueRules, group: str | None) -> bool:
    """Whether a queue takes jobs of such a group: in a keyed queue each has one, elsewhere none."""
    return (rules.mode is Mode.KEYED) == (group is not None)


def enqueues_plainly(new: NewJob, rules: QueueRules) -> bool:
    """Whether a new job is accepted without a look at other jobs, unless its id or key is known."""
    return not new.parents and rules.max_depth is None and fits_mode(rules, new.group)


def steady(rules: QueueRules) -> bool:
    """Whether no gate of a queue closes while jobs are taken from it."""
    return rules.mode is not Mode.KEYED and rules.bucket is None and rules.limit is None


def ungated(rules: QueueRules, tenant: TenantConfig) -> bool:
    """Whether nothing holds back a job of a tenant's queue but its time."""
    return steady(rules) and not rules.paused and not tenant.paused


def claims_plainly(spec: Spec, lease_seq: int, updated_at: Ms, now: Ms) -> bool:
    """Whether a claim changes nothing of a waiting job but its lease: it can't expire, and its times don't go back."""
    return (spec.expires_at is None or lease_seq > 0) and updated_at <= now


def succeeds_plainly(job: Job, lease_seq: int, token: bytes, now: Ms) -> bool:
    """Whether a success is accepted and ends nothing but the job itself, if no other waits for it."""
    return not job.spec.parents and job.updated_at <= now and refusal(job, lease_seq, token, now) is None


def succeeds_alike(job: Job, other: Job, lease_seq: int) -> bool:
    """Whether a success of a job is as plain as that of another, which one claim leased beside it."""
    return (
        job.lease is other.lease
        and job.lease_seq == other.lease_seq == lease_seq
        and job.state is other.state
        and job.token == other.token
        and job.updated_at == other.updated_at
        and not job.spec.parents
    )
