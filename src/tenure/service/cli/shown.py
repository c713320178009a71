"""Jobs as they are shown: a row of a table, a JSON object, or the whole story."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tenure.engine.handle import Attempt, Job
from tenure.service.cli.output import Column, Out, to_json
from tenure.service.cli.words import age, clip, failure_text, moment, span

COLUMNS = (
    Column("id"),
    Column("type"),
    Column("queue"),
    Column("status"),
    Column("attempt", right=True),
    Column("age", right=True),
    Column("error", loose=True),
)
TENANT = Column("tenant")
GATES = Column("held by", loose=True)

ATTEMPT_COLUMNS = (
    Column("attempt", right=True),
    Column("worker"),
    Column("claimed"),
    Column("took", right=True),
    Column("outcome"),
    Column("reason"),
    Column("error", loose=True),
)

NAME = 24
"""Characters of a name that a table shows."""


def jobs_table(out: Out, jobs: list[Job], *, tenants: bool, gates: bool, empty: str) -> None:
    """A row per job."""
    now = datetime.now(UTC)
    columns = (*((TENANT,) if tenants else ()), *COLUMNS, *((GATES,) if gates else ()))
    rows = [
        (*((clip(job.tenant, NAME),) if tenants else ()), *_row(job, now), *((", ".join(job.gates),) if gates else ()))
        for job in jobs
    ]
    out.table(columns, rows, empty=empty)


def _row(job: Job, now: datetime) -> tuple[str, ...]:
    return (
        job.id,
        clip(job.job_type, NAME),
        clip(job.queue, NAME),
        job.status,
        f"{job.attempt}/{job.max_attempts}",
        age(job.enqueued_at, now),
        clip(failure_text(job.last_error)),
    )


def job_document(job: Job, *, whole: bool = False) -> dict[str, Any]:
    """A job for programs, in the words of the Python API; payload, history and tracebacks only as part of the whole."""
    document = job.to_dict()
    if not whole:
        del document["payload"], document["history"], document["tracebacks"]
    return document


def story(out: Out, job: Job, result: str) -> None:
    """Everything about one job."""
    out.fields({**_identity(job), **_times(job), **_fate(job), "payload": to_json(job.payload).decode()})
    out.fields({"result": result})
    if job.history:
        out.line()
        out.table(ATTEMPT_COLUMNS, [_attempt_row(one) for one in job.history])
    attempts = {one.lease_seq: f"attempt {one.attempt}" for one in job.history}
    for traceback in job.tracebacks:
        out.line()
        which = attempts.get(traceback.lease_seq, f"lease {traceback.lease_seq}")
        out.line(f"{which} raised {traceback.class_path}:")
        for text in traceback.text.splitlines() or [traceback.message]:
            out.line(text)


def _identity(job: Job) -> dict[str, str]:
    return {
        "id": job.id,
        "tenant": job.tenant,
        "type": job.job_type,
        "queue": job.queue,
        "status": job.status,
        "held by": ", ".join(job.gates),
        "attempt": f"{job.attempt} of {job.max_attempts}",
        "priority": str(job.priority),
        "key": job.key or "",
        "group": job.group or "",
        "labels": ", ".join(f"{name}={value}" for name, value in sorted(job.labels.items())),
        "parents": ", ".join(job.parents),
    }


def _times(job: Job) -> dict[str, str]:
    ended = job.finished_at is not None
    return {
        "enqueued": f"{moment(job.enqueued_at)} ({age(job.enqueued_at, datetime.now(UTC))} ago)",
        "due": "" if ended else moment(job.run_at),
        "worker": job.worker or "",
        "lease until": "" if job.lease_until is None else moment(job.lease_until),
        "finished": "" if job.finished_at is None else moment(job.finished_at),
    }


def _fate(job: Job) -> dict[str, str]:
    progress = "" if job.progress is None else f"{job.progress.fraction:.0%} {job.progress.message}".strip()
    return {
        "progress": progress,
        "cancel": "requested" if job.cancel_requested else "",
        "reason": job.reason or "",
        "error": failure_text(job.last_error),
        "dead letter": job.dead_letter or "",
        "replay of": job.replay_of or "",
        "replayed as": job.replayed_as or "",
    }


def _attempt_row(one: Attempt) -> tuple[str, ...]:
    return (
        str(one.attempt),
        clip(one.worker, NAME),
        moment(one.claimed_at),
        _took(one.claimed_at, one.ended_at),
        one.outcome,
        one.reason,
        clip(failure_text(one.error)),
    )


def _took(claimed_at: datetime, ended_at: datetime) -> str:
    milliseconds = (ended_at - claimed_at) // timedelta(milliseconds=1)
    return f"{milliseconds} ms" if milliseconds < 1_000 else span(milliseconds / 1_000)
