"""From a DataFrame to jobs and back: `enqueue` writes, `results` reads what came of the same rows."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict, TypeVar, Unpack

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from tenure.domain.errors import InvalidValue
from tenure.domain.states import State
from tenure.engine.app import DEFAULT_TENANT
from tenure.engine.options import check_names
from tenure.spark import sink
from tenure.spark.columns import check_columns, check_payload
from tenure.spark.job_type import job_type_of
from tenure.spark.summary import BatchSummary, kept
from tenure.spark.way_back import key_text, result_text
from tenure.spark.write_options import OPTIONS, OnFull, OnReject, WriteOptions, new_batch, write_options

T = TypeVar("T")

IDENTITY = {"tenant": "_tenure_tenant", "queue": "_tenure_queue", "key": "_tenure_key"}
"""What tells jobs of one type apart, as columns beside the user's own."""
JOB = "_tenure_job"
SHOWN = {
    "job_id": "id",
    "state": "state",
    "result": "result",
    "error_family": "error_family",
    "error_message": "error_message",
}
"""What `results` adds to a row, and which column of the jobs it is."""
READ = (
    "tenant string, id string, queue string, job_type string, state string, enqueued_at timestamp, "
    "error_family string, error_message string, key string, replay_of string, result_codec string, result binary"
)


class Where(TypedDict, total=False):
    """What tells the jobs of a DataFrame's rows: the same for `enqueue` and `results`."""

    queue: str
    tenant: str
    queue_column: str
    tenant_column: str
    app: str


class How(Where, total=False):
    """What `enqueue` takes besides: the other options of the sink."""

    payload: str
    priority_column: str
    run_at_column: str
    group_column: str
    labels_column: str
    priority: int
    max_attempts: int
    result_ttl: float
    on_full: OnFull
    wait_seconds: float
    on_reject: OnReject
    batch_size: int


def enqueue(
    rows: DataFrame,
    *,
    url: str,
    job_type: str,
    key_columns: Sequence[str] | None,
    batch: str | None = None,
    **how: Unpack[How],
) -> BatchSummary:
    """Makes a job of every row and says what came of it; `key_columns=None` means that the whole row is its key.

    Raises `InvalidValue` before anything is written, and `WriteFailed` for rows that can't be jobs, once all others
    are in.
    """
    check_names(how, frozenset(How.__annotations__), "enqueue()")
    given = _given(url, job_type, key_columns, batch or new_batch(), how)
    options = _checked(given)
    check_columns(options, rows.schema)
    check_payload(options, rows.schema)
    try:
        rows.write.format("tenure").mode("append").options(**given).save()
    except PySparkException as error:
        summary = _run(_kept(url, options.batch))
        if summary is not None and summary.rejected:
            raise sink.failure(summary) from error
        raise
    return batch_summary(url, options.batch)


def batch_summary(url: str, batch: str) -> BatchSummary:
    """What came of a write. It is kept for 30 days. Raises `InvalidValue` for a batch that isn't known."""
    summary = _run(_kept(url, batch))
    if summary is None:
        raise InvalidValue(f"batch {batch!r:.80}: no write of that id is known here, or it was over 30 days ago")
    return summary


def results(
    rows: DataFrame,
    *,
    url: str,
    job_type: str,
    key_columns: Sequence[str] | None,
    batch: str | None = None,
    schema: str | DataType | None = None,
    prefix: str = "",
    **where: Unpack[Where],
) -> DataFrame:
    """The rows, each with its job's `job_id`, `state`, `result`, `error_family` and `error_message`.

    Say what was said to `enqueue`. A row without a job has nulls. `result` is JSON text, or parsed by `schema`. With
    `batch` only jobs of that write count, else whichever write made them. `prefix` goes before the five names.
    """
    check_names(where, frozenset(Where.__annotations__), "results()")
    options = _checked(_given(url, job_type, key_columns, batch or new_batch(), where))
    check_columns(options, rows.schema)
    taken = [prefix + name for name in SHOWN if prefix + name in rows.columns]
    if taken:
        raise InvalidValue(f"column {taken[0]!r} is there already: rename it, or give results(prefix='job_')")
    options = _run(_resolved(options))
    jobs = _jobs(rows, options, batch)
    found = _identified(rows, options).join(jobs, list(IDENTITY.values()), "left")
    return found.select(
        *(f.col(_quoted(name)) for name in rows.columns),
        *(_shown(name, options, schema).alias(prefix + name) for name in SHOWN),
    )


def _jobs(rows: DataFrame, options: WriteOptions, batch: str | None) -> DataFrame:
    """The jobs that rows may have, by what tells them apart. Of a failed one and its replays the last one."""
    reader = rows.sparkSession.read.format("tenure").schema(READ).option("url", options.url)
    jobs = (reader if batch is None else reader.option("batch", batch)).load()
    jobs = jobs.where((f.col("job_type") == options.job_type) & f.col("key").isNotNull())
    if options.tenant_column is None:
        jobs = jobs.where(f.col("tenant").isin(options.tenant or DEFAULT_TENANT))
    if options.queue_column is None:
        jobs = jobs.where(f.col("queue").isin(options.queue))
    job = f.struct(*dict.fromkeys(["tenant", "result_codec", *SHOWN.values()]))
    newest = f.struct("enqueued_at", f.col("replay_of").isNotNull())
    return jobs.groupBy(*(f.col(name).alias(own) for name, own in IDENTITY.items())).agg(
        f.max_by(job, newest).alias(JOB)
    )


def _identified(rows: DataFrame, options: WriteOptions) -> DataFrame:
    """The rows with what tells their jobs apart."""
    columns = options.key_columns or tuple(rows.columns)
    key = key_text(options.key_columns)(f.struct(*(f.col(_quoted(name)) for name in columns)))
    identity = {
        "tenant": _said(options.tenant_column, options.tenant or (None if options.tenant_column else DEFAULT_TENANT)),
        "queue": _said(options.queue_column, options.queue),
        "key": key,
    }
    return rows.withColumns({IDENTITY[name]: value for name, value in identity.items()})


def _said(column: str | None, otherwise: str | None) -> Column:
    said = f.lit(otherwise).cast("string")
    return said if column is None else f.coalesce(f.col(_quoted(column)), said)


def _shown(name: str, options: WriteOptions, schema: str | DataType | None) -> Column:
    job = f.col(JOB)
    if name.startswith("error"):  # of an attempt before the one that succeeded: no news
        return f.when(job["state"] != State.SUCCEEDED.value, job[SHOWN[name]])
    if name != "result":
        return job[SHOWN[name]]
    text = result_text(options.app)(job["result"], job["result_codec"], job["tenant"], job["id"])
    if schema is None:
        return text
    type = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    wrapped = f.concat(f.lit('{"result":'), text, f.lit("}"))  # Spark parses no JSON that isn't an object or an array
    return f.from_json(wrapped, StructType().add("result", type))["result"]


def _quoted(column: str) -> str:
    return f"`{column.replace('`', '``')}`"


def _checked(given: Mapping[str, str]) -> WriteOptions:
    return write_options({name.lower(): value for name, value in given.items()})


def _given(
    url: str, job_type: str, key_columns: Sequence[str] | None, batch: str, more: Mapping[str, Any]
) -> dict[str, str]:
    """The options as Spark takes them."""
    key = {"key": "row"} if key_columns is None else {"keyColumns": _joined(key_columns)}
    spelled = {name.lower(): name for name in OPTIONS}
    said = {spelled[name.replace("_", "")]: str(value) for name, value in more.items()}
    return {"url": url, "jobType": job_type, "batchId": batch, **key, **said}


def _joined(columns: Sequence[str]) -> str:
    if isinstance(columns, str) or not columns:
        raise InvalidValue(f"key_columns {columns!r:.80}: give a list of names, or None for the whole row")
    return ",".join(columns)


async def _kept(url: str, batch: str) -> BatchSummary | None:
    async with sink.opened(url) as store:
        return await kept(store, batch)


async def _resolved(options: WriteOptions) -> WriteOptions:
    async with sink.opened(options.url) as store:
        return sink.resolved(options, await job_type_of(store, options))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end, also in a notebook, whose thread has an event loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
