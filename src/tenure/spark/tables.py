"""The tables that Spark sees: for each its columns, and how a value of the domain becomes its rows.

A column is a name, an Arrow type and where its value comes from; Spark's schema follows from the Arrow one. Times are
UTC timestamps, bodies are bytes as the store has them, with the name of their codec beside them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

import msgspec
import pyarrow as pa
from msgspec.structs import astuple
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tenure.domain.calls import JobView
from tenure.domain.event import Event
from tenure.domain.job import Failure, Job
from tenure.domain.names import Ms
from tenure.domain.states import State

TEXT = pa.string()
WHOLE = pa.int64()
NUMBER = pa.float64()
YES = pa.bool_()
BYTES = pa.binary()
TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.list_(pa.string())
LABELS = pa.map_(pa.string(), pa.string())


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: pa.DataType
    value: Callable[[Any], Any]


class Table:
    """The columns of one table, in order."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns
        self.arrow = pa.schema([(column.name, column.type) for column in columns])
        self.spark: StructType = from_arrow_schema(self.arrow)

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Rows as Arrow."""
        arrays = [pa.array([column.value(row) for row in rows], column.type) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def _micros(at: Ms | None) -> int | None:
    return None if at is None else at * 1_000


def _job_columns() -> Iterator[Column]:
    """Of the job that a row is about."""
    yield Column("tenant", TEXT, lambda view: view.job.spec.tenant)
    yield Column("id", TEXT, lambda view: view.job.spec.id)
    yield Column("queue", TEXT, lambda view: view.job.spec.queue)
    yield Column("job_type", TEXT, lambda view: view.job.spec.job_type)


JOBS = Table(
    *_job_columns(),
    Column("state", TEXT, lambda view: view.job.state.value),
    Column("status", TEXT, lambda view: view.status.value),
    Column("priority", WHOLE, lambda view: view.job.priority),
    Column("version", WHOLE, lambda view: view.job.version),
    Column("attempt", WHOLE, lambda view: view.job.attempt),
    Column("max_attempts", WHOLE, lambda view: view.job.spec.max_attempts),
    Column("lease_seq", WHOLE, lambda view: view.job.lease_seq),
    Column("enqueued_at", TIME, lambda view: _micros(view.job.spec.enqueued_at)),
    Column("run_at", TIME, lambda view: _micros(view.job.run_at)),
    Column("updated_at", TIME, lambda view: _micros(view.job.updated_at)),
    Column("finished_at", TIME, lambda view: _micros(view.job.finished_at)),
    Column("expires_at", TIME, lambda view: _micros(view.job.spec.expires_at)),
    Column("worker", TEXT, lambda view: view.job.lease and view.job.lease.worker),
    Column("lease_until", TIME, lambda view: view.job.lease and _micros(view.job.lease.until)),
    Column("cancel_requested", YES, lambda view: view.job.cancel_requested),
    Column("reason", TEXT, lambda view: view.job.reason),
    Column("error_family", TEXT, lambda view: view.job.last_error and view.job.last_error.family),
    Column("error_message", TEXT, lambda view: view.job.last_error and view.job.last_error.message),
    Column("progress", NUMBER, lambda view: view.job.progress and view.job.progress.fraction),
    Column("progress_message", TEXT, lambda view: view.job.progress and view.job.progress.message),
    Column("key", TEXT, lambda view: view.job.spec.key),
    Column("group", TEXT, lambda view: view.job.spec.group),
    Column("labels", LABELS, lambda view: list(view.job.spec.labels.items())),
    Column("parents", TEXTS, lambda view: [parent.id for parent in view.job.spec.parents]),
    Column("replay_of", TEXT, lambda view: view.job.spec.replay_of),
    Column("codec", TEXT, lambda view: view.job.spec.codec),
    Column("payload", BYTES, lambda view: view.payload),
    Column("payload_size", WHOLE, lambda view: view.job.spec.payload_size),
)


class AttemptRow(NamedTuple):
    """One lease of a job. While it is held it has no end."""

    job: Job
    attempt: int
    lease_seq: int
    worker: str
    claimed_at: Ms
    ended_at: Ms | None = None
    outcome: str | None = None
    reason: str | None = None
    error: Failure | None = None


def attempts_of(view: JobView) -> Iterator[AttemptRow]:
    """Those that a job's record has kept, oldest first, and the one that runs."""
    job = view.job
    for one in job.history:
        yield AttemptRow(job, *astuple(one))
    if job.lease is not None:
        yield AttemptRow(job, job.attempt, job.lease_seq, job.lease.worker, job.lease.claimed_at)


ATTEMPTS = Table(
    *_job_columns(),
    Column("attempt", WHOLE, lambda row: row.attempt),
    Column("lease_seq", WHOLE, lambda row: row.lease_seq),
    Column("worker", TEXT, lambda row: row.worker),
    Column("claimed_at", TIME, lambda row: _micros(row.claimed_at)),
    Column("ended_at", TIME, lambda row: _micros(row.ended_at)),
    Column("outcome", TEXT, lambda row: row.outcome),
    Column("reason", TEXT, lambda row: row.reason),
    Column("error_family", TEXT, lambda row: row.error and row.error.family),
    Column("error_message", TEXT, lambda row: row.error and row.error.message),
)

DEAD_LETTERS = Table(
    *_job_columns(),
    Column("disposition", TEXT, lambda view: view.dead_letter.value),
    Column("replayed_as", TEXT, lambda view: view.replayed_as),
    Column("failed_at", TIME, lambda view: _micros(view.job.finished_at)),
    Column("attempt", WHOLE, lambda view: view.job.attempt),
    Column("reason", TEXT, lambda view: view.job.reason),
    Column("error_family", TEXT, lambda view: view.job.last_error and view.job.last_error.family),
    Column("error_message", TEXT, lambda view: view.job.last_error and view.job.last_error.message),
    Column("labels", LABELS, lambda view: list(view.job.spec.labels.items())),
    Column("codec", TEXT, lambda view: view.job.spec.codec),
    Column("payload", BYTES, lambda view: view.payload),
)

RESULTS = Table(
    *_job_columns(),
    Column("finished_at", TIME, lambda view: _micros(view.job.finished_at)),
    Column("labels", LABELS, lambda view: list(view.job.spec.labels.items())),
    Column("codec", TEXT, lambda view: view.result.codec),
    Column("result", BYTES, lambda view: view.result.body),
)


def _event_columns() -> Iterator[Column]:
    """One for each field of an event, as the feed keeps it."""
    types = {
        "at": TIME,
        "run_at": TIME,
        "lease_until": TIME,
        "hold_until": TIME,
        "progress": NUMBER,
        "labels": LABELS,
        "parents": TEXTS,
    }
    for name, hint in get_type_hints(Event).items():
        if name == "more":
            continue
        type = types.get(name) or (WHOLE if hint in (int, int | None) else TEXT)
        yield Column(name, type, _event_value(name, type))
    yield Column("extra", TEXT, lambda event: msgspec.json.encode(event.more).decode() if event.more else None)


def _event_value(name: str, type: pa.DataType) -> Callable[[Event], Any]:
    if type is TIME:
        return lambda event: _micros(getattr(event, name))
    if type is LABELS:
        return lambda event: event.labels and list(event.labels.items())
    return attrgetter(name)


EVENTS = Table(*_event_columns())

TABLES = {"jobs": JOBS, "attempts": ATTEMPTS, "dead_letters": DEAD_LETTERS, "results": RESULTS, "events": EVENTS}


def rows_of(table: str, views: Iterable[JobView]) -> list[Any]:
    """The rows of a table that come from some jobs."""
    match table:
        case "attempts":
            return [row for view in views for row in attempts_of(view)]
        case "dead_letters":
            return [view for view in views if view.dead_letter is not None]
        case "results":
            return [view for view in views if view.result is not None]
    return list(views)


STATES = {"dead_letters": (State.FAILED,), "results": (State.SUCCEEDED,)}
"""The states of the jobs that a table is about, where not all are."""
