"""The rows of the tables, against rows made from each job's own view."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.domain.calls import JobFilter, JobView
from tenure.domain.names import Ms
from tenure.spark.tables import JOB_TABLES
from tenure.stores.sql.snapshot import SqlSnapshot
from tests.stores.everything import everything_read

Row = dict[str, Any]


def time(at: Ms | None) -> datetime | None:
    return None if at is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)


def job_of(view: JobView) -> Row:
    spec = view.job.spec
    return {"tenant": spec.tenant, "id": spec.id, "queue": spec.queue, "job_type": spec.job_type}


def error_of(error: Any) -> Row:
    return {"error_family": error and error.family, "error_message": error and error.message}


def jobs(view: JobView) -> Iterator[Row]:
    job, spec, lease, progress = view.job, view.job.spec, view.job.lease, view.job.progress
    yield {
        **job_of(view),
        "state": job.state.value,
        "status": view.status.value,
        "priority": job.priority,
        "version": job.version,
        "attempt": job.attempt,
        "max_attempts": spec.max_attempts,
        "lease_seq": job.lease_seq,
        "enqueued_at": time(spec.enqueued_at),
        "run_at": time(job.run_at),
        "updated_at": time(job.updated_at),
        "finished_at": time(job.finished_at),
        "expires_at": time(spec.expires_at),
        "worker": lease and lease.worker,
        "lease_until": lease and time(lease.until),
        "cancel_requested": job.cancel_requested,
        "reason": job.reason,
        **error_of(job.last_error),
        "progress": progress and progress.fraction,
        "progress_message": progress and progress.message,
        "key": spec.key,
        "group": spec.group,
        "labels": list(spec.labels.items()),
        "parents": [parent.id for parent in spec.parents],
        "replay_of": spec.replay_of,
        "codec": spec.codec,
        "payload": view.payload,
        "payload_size": spec.payload_size,
        "result_codec": view.result and view.result.codec,
        "result": view.result and view.result.body,
    }


def attempts(view: JobView) -> Iterator[Row]:
    job = view.job
    for one in job.history:
        yield {
            **job_of(view),
            "attempt": one.attempt,
            "lease_seq": one.lease_seq,
            "worker": one.worker,
            "claimed_at": time(one.claimed_at),
            "ended_at": time(one.ended_at),
            "outcome": one.outcome,
            "reason": one.reason,
            **error_of(one.error),
        }
    if job.lease is not None:
        yield {
            **job_of(view),
            "attempt": job.attempt,
            "lease_seq": job.lease_seq,
            "worker": job.lease.worker,
            "claimed_at": time(job.lease.claimed_at),
            **dict.fromkeys(("ended_at", "outcome", "reason")),
            **error_of(None),
        }


def dead_letters(view: JobView) -> Iterator[Row]:
    job, spec = view.job, view.job.spec
    if view.dead_letter is not None:
        yield {
            **job_of(view),
            "key": spec.key,
            "disposition": view.dead_letter.value,
            "replayed_as": view.replayed_as,
            "failed_at": time(job.finished_at),
            "attempt": job.attempt,
            "reason": job.reason,
            **error_of(job.last_error),
            "labels": list(spec.labels.items()),
            "codec": spec.codec,
            "payload": view.payload,
        }


def results(view: JobView) -> Iterator[Row]:
    if view.result is not None:
        yield {
            **job_of(view),
            "key": view.job.spec.key,
            "finished_at": time(view.job.finished_at),
            "labels": list(view.job.spec.labels.items()),
            "codec": view.result.codec,
            "result": view.result.body,
        }


ROWS: dict[str, Callable[[JobView], Iterator[Row]]] = {
    "jobs": jobs,
    "attempts": attempts,
    "dead_letters": dead_letters,
    "results": results,
}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlSnapshot]:
    with everything_read(tmp_path_factory.mktemp("tables") / "jobs.db") as opened:
        yield opened


def read(snapshot: SqlSnapshot, table: str, names: list[str], limit: int = 1_000) -> list[Row]:
    made = JOB_TABLES[table]
    pages = snapshot.scan(JobFilter(), made.fields(names), limit=limit)
    return [row for page in pages for row in made.batch(page, names).to_pylist()]


@pytest.mark.parametrize("limit", [2, 1_000])
@pytest.mark.parametrize("table", ROWS)
def test_rows_are_those_of_the_jobs(snapshot: SqlSnapshot, table: str, limit: int) -> None:
    views = reversed(snapshot.query(JobFilter(), limit=1_000).jobs)
    expected = [row for view in views for row in ROWS[table](view)]
    assert len(expected) > 1
    assert read(snapshot, table, JOB_TABLES[table].arrow.names, limit) == expected


@pytest.mark.parametrize("table", ROWS)
def test_a_column_alone_is_the_same(snapshot: SqlSnapshot, table: str) -> None:
    names = JOB_TABLES[table].arrow.names
    rows = read(snapshot, table, names)
    for name in names:
        assert read(snapshot, table, [name]) == [{name: row[name]} for row in rows]
