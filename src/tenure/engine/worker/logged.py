"""What the log says of jobs: that an attempt began, and how it ended, once the store has that.

A failure is one line: ERROR when the job has failed for good, WARNING when it will be tried again; every other end is
DEBUG. The message is a constant template, and what it is about are fields of the record (`extra`), so that a collector
of errors groups by the first and searches by the second.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from tenure.domain.calls import UNKNOWN_ARGUMENT, UNKNOWN_TYPE, Fail, Outcome, Release, Retry, Succeed, SweptJob
from tenure.domain.job import Job
from tenure.domain.states import State

log = logging.getLogger("tenure.worker")

STARTED = "job %s (%s of %s) starts attempt %d"
FAILED = "job %s (%s of %s) failed in attempt %d (%s): %s"
AGAIN = "job %s (%s of %s) will be tried again after attempt %d (%s): %s"
UNHANDLED = "job %s (%s of %s) is given back before attempt %d (%s): %s"
ENDED = "job %s (%s of %s) ended attempt %d (%s): %s"

ELSEWHERE = {
    UNKNOWN_TYPE: "this worker has no handler for it",
    UNKNOWN_ARGUMENT: "this worker's handler refuses its arguments, another's may take them",
}


class Attempt(NamedTuple):
    """One attempt at a job; the names are those of the record's fields."""

    job: str
    job_type: str
    tenant: str
    queue: str
    attempt: int

    @classmethod
    def of(cls, job: Job) -> "Attempt":
        spec = job.spec
        return cls(spec.id, spec.job_type, spec.tenant, spec.queue, job.attempt)


def log_started(job: Job) -> None:
    if log.isEnabledFor(logging.DEBUG):
        about = Attempt.of(job)
        log.debug(STARTED, about.job, about.job_type, about.tenant, about.attempt, extra=about._asdict())


def log_ended(job: Job, outcome: Outcome, state: State, error: BaseException | None) -> None:
    """The same of a job as it was claimed. A success costs next to nothing."""
    if type(outcome) is not Succeed or state is not State.SUCCEEDED or log.isEnabledFor(logging.DEBUG):
        log_end(Attempt.of(job), outcome, state, error)


def log_end(about: Attempt, outcome: Outcome, state: State, error: BaseException | None = None) -> None:
    """An attempt's end, which the store has accepted: `state` is what the job went to. `error` is what the handler
    raised, if it did.
    """
    reason = _reason(outcome)
    if state is State.FAILED:
        final = "exhausted" if isinstance(outcome, Retry) else reason
        _say(logging.ERROR, FAILED, about, final, _cause(outcome), error)
    elif state is State.PENDING and isinstance(outcome, Retry):
        _say(logging.WARNING, AGAIN, about, reason, _cause(outcome), error)
    elif state is State.PENDING and reason in ELSEWHERE:
        _say(logging.WARNING, UNHANDLED, about, reason, ELSEWHERE[reason])
    else:
        _say(logging.DEBUG, ENDED, about, reason, state.value)


def log_swept(failed: Iterable[SweptJob]) -> None:
    """Jobs that a sweep has failed: their last lease was lost."""
    for one in failed:
        about = Attempt(one.id, one.job_type, one.tenant, one.queue, one.attempt)
        _say(logging.ERROR, FAILED, about, one.reason, "its lease ran out, and no attempt is left")


def _say(level: int, template: str, about: Attempt, reason: str, rest: str, error: BaseException | None = None) -> None:
    log.log(
        level,
        template,
        about.job,
        about.job_type,
        about.tenant,
        about.attempt,
        reason,
        rest,
        exc_info=error,
        extra={**about._asdict(), "reason": reason},
    )


def _reason(outcome: Outcome) -> str:
    return "ok" if isinstance(outcome, Succeed) else outcome.reason


def _cause(outcome: Outcome) -> str:
    """What went wrong, in the words that the record keeps."""
    match outcome:
        case Retry() | Fail():
            family, message = outcome.error.family, outcome.error.message
            return f"{family}: {message}" if message else family
        case Release():
            return f"it was given back {outcome.most} times before"
    return "its success was refused"
