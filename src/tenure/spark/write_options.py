"""What a write was asked for, taken from Spark's options once, and checked before any work starts."""

import math
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, cast, get_args

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.spark.given import Given

OPTIONS = (
    "url",
    "jobType",
    "keyColumns",
    "key",
    "queue",
    "tenant",
    "payload",
    "app",
    "queueColumn",
    "tenantColumn",
    "priorityColumn",
    "runAtColumn",
    "groupColumn",
    "labelsColumn",
    "priority",
    "maxAttempts",
    "resultTtl",
    "batchId",
    "onFull",
    "waitSeconds",
    "onReject",
    "batchSize",
)
OF_STREAMS = ("checkpointLocation",)

WHOLE_ROW = "row"
BATCH_SIZE = names.MAX_BATCH
MOST_ATTEMPTS = 1_000
WAIT_SECONDS = 300.0

OnFull = Literal["wait", "fail"]
OnReject = Literal["fail", "skip"]


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `df.write.format("tenure")`, and what followed from them on the driver."""

    url: str
    """Where the store is."""
    job_type: str
    batch: str
    """The label that every job of this write carries."""
    key_columns: tuple[str, ...]
    """What makes a row the same row; empty: all of its columns."""
    queue: str | None = None
    tenant: str | None = None
    payload: str | None = None
    """The struct column that is the payload; None: all columns that say nothing else about the job."""
    app: str | None = None
    """MODULE:APP that declares the job type."""
    queue_column: str | None = None
    tenant_column: str | None = None
    priority_column: str | None = None
    run_at_column: str | None = None
    group_column: str | None = None
    labels_column: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    result_ttl: float | None = None
    """Seconds that a result is kept."""
    on_full: OnFull = "wait"
    wait_seconds: float = WAIT_SECONDS
    """How long a full queue may give no room at all."""
    on_reject: OnReject = "fail"
    batch_size: int = BATCH_SIZE
    """Jobs that are sent at once."""
    codec: str = "json"
    """No option: that of the job type."""

    @property
    def per_row(self) -> dict[str, str]:
        """The columns that say something about the job, by the option that named them."""
        named = {
            "queueColumn": self.queue_column,
            "tenantColumn": self.tenant_column,
            "priorityColumn": self.priority_column,
            "runAtColumn": self.run_at_column,
            "groupColumn": self.group_column,
            "labelsColumn": self.labels_column,
        }
        return {option: column for option, column in named.items() if column is not None}


def write_options(given: Mapping[str, str], *, stream: bool = False) -> WriteOptions:
    """Raises `InvalidValue` that says what to change."""
    asked = Given(given)
    asked.check((*OPTIONS, *OF_STREAMS) if stream else OPTIONS, "save")
    url = asked.url()
    job_type = asked.name("jobType")
    if job_type is None:
        raise InvalidValue('option jobType: say which job every row becomes, as in .option("jobType", "enrich")')
    priority, ttl = asked.text("priority"), asked.text("resultTtl")
    return WriteOptions(
        url=url,
        job_type=job_type,
        batch=_batch(asked, stream),
        key_columns=_key_columns(asked),
        queue=asked.name("queue"),
        tenant=asked.tenant(),
        payload=asked.text("payload"),
        app=asked.text("app"),
        queue_column=asked.text("queueColumn"),
        tenant_column=asked.text("tenantColumn"),
        priority_column=asked.text("priorityColumn"),
        run_at_column=asked.text("runAtColumn"),
        group_column=asked.text("groupColumn"),
        labels_column=asked.text("labelsColumn"),
        priority=None if priority is None else _priority(priority),
        max_attempts=None if asked.text("maxAttempts") is None else asked.number("maxAttempts", 1, MOST_ATTEMPTS),
        result_ttl=None if ttl is None else _seconds("resultTtl", ttl),
        on_full=cast(OnFull, asked.one_of("onFull", get_args(OnFull), "wait")),
        wait_seconds=_seconds("waitSeconds", asked.text("waitSeconds") or str(WAIT_SECONDS)),
        on_reject=cast(OnReject, asked.one_of("onReject", get_args(OnReject), "fail")),
        batch_size=asked.number("batchSize", BATCH_SIZE, names.MAX_BATCH),
    )


def new_batch() -> str:
    """A batch id that nobody else has, and that says when it was made."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def _key_columns(given: Given) -> tuple[str, ...]:
    key, columns = given.text("key"), given.text("keyColumns")
    if key is not None and columns is not None:
        raise InvalidValue("options key and keyColumns say the same: give one")
    if key is not None:
        if key != WHOLE_ROW:
            raise InvalidValue(f"option key={key!r:.80}: give key={WHOLE_ROW}, or keyColumns with names of columns")
        return ()
    if columns is None:
        raise InvalidValue(
            "option keyColumns: name the columns that make a row the same row when it is written again, "
            f"as in keyColumns=id; key={WHOLE_ROW} means all of them"
        )
    found = tuple(column.strip() for column in columns.split(","))
    if not all(found) or len(set(found)) != len(found):
        raise InvalidValue(f"option keyColumns={columns!r:.80}: give names with commas between, each once")
    return found


def _batch(given: Given, stream: bool) -> str:
    batch = given.text("batchId")
    if batch is not None:
        return names.name("option batchId", batch)
    if stream:
        raise InvalidValue("option batchId: give a stream a name of its own, which stays the same when it is restarted")
    return new_batch()


def _priority(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and -100 <= int(text) <= 100):
        raise InvalidValue(f"option priority={text!r:.80}: give a number from -100 to 100")
    return int(text)


def _seconds(name: str, text: str) -> float:
    most = names.MAX_DURATION // 1_000
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= most:
        raise InvalidValue(f"option {name}={text!r:.80}: give 0 to {most} seconds")
    return seconds
