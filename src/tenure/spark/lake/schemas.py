"""The tables of a lake: bronze as it came, silver by job and attempt, gold by hour.

A table is a folder of Parquet files with a Delta log. Its partition column is in the log only, and is computed from
the others when Spark reads the files: compaction moves them to folders of its own.
"""

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tenure.domain.errors import InvalidValue
from tenure.spark.tables import EVENTS, LABELS, NUMBER, TEXT, TEXTS, TIME, WHOLE

SMALL = pa.int32()

OPEN, QUIET = "open", "quiet"
"""The partitions of what hasn't ended; `quiet` has jobs of which the sync that put them there had nothing new."""


def _day(column: str) -> str:
    """The UTC day of a time, whatever the session's time zone."""
    return f"string(date_from_unix_date(int(floor(unix_seconds({column}) / 86400))))"


STORE = "tenure.store"
SLO = "tenure.slo_ms"
"""In the configuration of every table: whose history it is, and what the lake takes for a job's objective."""
SLO_MS = 60_000


class LakeTable(NamedTuple):
    """What a table holds. `stats` are the columns whose range in a file its log knows."""

    name: str
    columns: pa.Schema
    partition: str
    value: str
    """The partition column in Spark's SQL."""
    stats: tuple[str, ...]
    key: tuple[str, ...] = ()
    """Columns that tell rows apart."""
    sums: tuple[str, ...] = ()
    """Of a table that only grows: what is added up where a key stands in several rows."""

    @property
    def arrow(self) -> pa.Schema:
        """With the partition column, as the log has it."""
        return self.columns.append(pa.field(self.partition, TEXT))

    @property
    def spark(self) -> StructType:
        """What a file has."""
        schema: StructType = from_arrow_schema(self.columns)
        return schema


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema([(name.rstrip("_"), type) for name, type in types.items()])


EVENTS_TABLE = LakeTable("bronze.events", EVENTS.arrow, "date", _day("at"), ("pos", "at"), key=("pos", "idx"))

ATTEMPTS_TABLE = LakeTable(
    "silver.attempts",
    _schema(
        tenant=TEXT,
        job_id=TEXT,
        lease_seq=WHOLE,
        queue=TEXT,
        job_type=TEXT,
        attempt=WHOLE,
        worker=TEXT,
        claimed_at=TIME,
        waited_ms=WHOLE,
        finished_at=TIME,
        run_ms=WHOLE,
        outcome=TEXT,
        reason=TEXT,
        error_family=TEXT,
        error_message=TEXT,
        pos=WHOLE,
    ),
    "part",
    f"coalesce({_day('finished_at')}, '{OPEN}')",
    ("finished_at", "pos"),
    key=("tenant", "job_id", "lease_seq"),
)

JOBS_TABLE = LakeTable(
    "silver.jobs",
    _schema(
        tenant=TEXT,
        job_id=TEXT,
        queue=TEXT,
        job_type=TEXT,
        state=TEXT,
        version=WHOLE,
        attempt=WHOLE,
        lease_seq=WHOLE,
        priority=WHOLE,
        max_attempts=WHOLE,
        key_hash=TEXT,
        group=TEXT,
        labels=LABELS,
        parents=TEXTS,
        replay_of=TEXT,
        payload_size=WHOLE,
        enqueued_at=TIME,
        due_at=TIME,
        run_at=TIME,
        first_claimed_at=TIME,
        finished_at=TIME,
        reason=TEXT,
        error_family=TEXT,
        error_message=TEXT,
        result_size=WHOLE,
        claims=WHOLE,
        retries=WHOLE,
        lease_losses=WHOLE,
        releases=WHOLE,
        busy_ms=WHOLE,
        e2e_ms=WHOLE,
        pos=WHOLE,
    ),
    "part",
    f"coalesce({_day('finished_at')}, '{OPEN}')",
    ("finished_at", "pos"),
    key=("tenant", "job_id"),
)

DISPOSITIONS_TABLE = LakeTable(
    "silver.dispositions",
    _schema(tenant=TEXT, job_id=TEXT, kind=TEXT, at=TIME, new_id=TEXT, pos=WHOLE),
    "day",
    _day("at"),
    ("at", "pos"),
)

_WINDOW = {"hour": TIME, "tenant": TEXT, "queue": TEXT, "job_type": TEXT}
_DAY_OF_HOUR = _day("hour")

COUNTS = (
    "enqueued",
    "started",
    "succeeded",
    "failed",
    "cancelled",
    "expired",
    "retries",
    "released",
    "lease_losses",
    "busy_ms",
)
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
MEASURES = ("wait", "run", "e2e")
BASE = 1.02
"""Buckets of latency grow by this: a value read back from the middle of its bucket is off by 1 % at most."""

HOURLY_TABLE = LakeTable(
    "gold.hourly",
    _schema(
        **_WINDOW,
        **dict.fromkeys(COUNTS, WHOLE),
        **{f"{measure}_{name}": NUMBER for measure in MEASURES for name in PERCENTILES},
        slo_n=WHOLE,
        slo_ok=WHOLE,
    ),
    "day",
    _DAY_OF_HOUR,
    ("hour",),
    key=tuple(_WINDOW),
)

LATENCY_TABLE = LakeTable(
    "gold.latency",
    _schema(**_WINDOW, measure=TEXT, bucket=SMALL, n=WHOLE),
    "day",
    _DAY_OF_HOUR,
    ("hour",),
    key=(*_WINDOW, "measure", "bucket"),
    sums=("n",),
)

FAILURES_TABLE = LakeTable(
    "gold.failures",
    _schema(
        **_WINDOW,
        error_family=TEXT,
        pattern=TEXT,
        n=WHOLE,
        final=WHOLE,
        example=TEXT,
        first_at=TIME,
        last_at=TIME,
        first_pos=WHOLE,
    ),
    "day",
    _DAY_OF_HOUR,
    ("hour",),
    key=(*_WINDOW, "error_family", "pattern"),
    sums=("n", "final"),
)

USAGE_TABLE = LakeTable(
    "gold.usage",
    _schema(hour=TIME, worker=TEXT, tenant=TEXT, queue=TEXT, job_type=TEXT, busy_ms=WHOLE, attempts=WHOLE),
    "day",
    _DAY_OF_HOUR,
    ("hour",),
    key=("hour", "worker", "tenant", "queue", "job_type"),
    sums=("busy_ms", "attempts"),
)

TABLES = {
    table.name: table
    for table in (
        EVENTS_TABLE,
        ATTEMPTS_TABLE,
        JOBS_TABLE,
        DISPOSITIONS_TABLE,
        HOURLY_TABLE,
        LATENCY_TABLE,
        FAILURES_TABLE,
        USAGE_TABLE,
    )
}


def lake_table(name: str) -> LakeTable:
    if name not in TABLES:
        raise InvalidValue(f"table {name!r:.80}: a lake has {', '.join(TABLES)}")
    return TABLES[name]
