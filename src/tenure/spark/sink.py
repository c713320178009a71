"""`df.write.format("tenure")` and `writeStream`: every row becomes a job.

A row's key is held as long as its job's record, so a task that is tried again, runs twice, or a whole write that is run
again enqueues nothing twice. What a repeat can't change, a row that can't be a job, doesn't fail its task: it is
counted, the other rows go in, and `commit` fails the write. `abort` takes nothing back: what is in stays, and the same
write again completes it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager

from msgspec.structs import replace
from pyarrow import RecordBatch
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tenure.domain.errors import Unsupported, WriteFailed
from tenure.domain.store import Store
from tenure.spark.columns import arguments, check_columns, check_payload
from tenure.spark.job_type import JobType, job_type_of
from tenure.spark.sending import Sender, send_all
from tenure.spark.summary import BatchSummary, TaskDone, keep, kept, started, summed
from tenure.spark.write_options import WriteOptions, write_options
from tenure.stores.opening import open_store

Messages = Iterable[WriterCommitMessage | None]


class TenureWriter(DataSourceArrowWriter):
    """One write. Made on the driver, which has checked everything that can be checked there."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[RecordBatch]) -> TaskDone:
        return _write(self._options, self._schema, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        summary = summed(started(self._options), messages)
        asyncio.run(_end(self._options, summary))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        summary = summed(started(self._options), messages)
        asyncio.run(_keep(self._options, replace(summary, state="failed")))


class TenureStreamWriter(DataSourceStreamArrowWriter):
    """One stream. Each micro-batch adds to its summary, once."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[RecordBatch]) -> TaskDone:
        return _write(self._options, self._schema, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        asyncio.run(_end_micro_batch(self._options, messages, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: the micro-batch comes again, and is counted when it is through."""


def writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> TenureWriter:
    """What Spark asks for before it starts the tasks. The store is written to: one that can't be is refused here."""
    _refuse(overwrite, "mode overwrite: a write adds jobs and replaces none; say mode('append')")
    options = asyncio.run(_prepared(write_options(given), schema, announce=True))
    return TenureWriter(options, schema)


def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> TenureStreamWriter:
    """The same for a stream; Spark asks anew for each micro-batch."""
    _refuse(overwrite, "output mode complete: a write adds jobs and replaces none; say outputMode('append')")
    options = asyncio.run(_prepared(write_options(given, stream=True), schema, announce=False))
    return TenureStreamWriter(options, schema)


def _refuse(refused: bool, why: str) -> None:
    if refused:
        raise Unsupported(why)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """The store at a URL, for as long as the block lasts. Raises `Unsupported` if Spark's processes can't share it."""
    store = open_store(url)
    try:
        if not store.capabilities.multi_process:
            raise Unsupported(f"the {store.capabilities.name} store lives in one process: Spark's can't write to it")
        yield store
    finally:
        await store.close()


async def _prepared(options: WriteOptions, schema: StructType, announce: bool) -> WriteOptions:
    """The options with what the job type says, once everything fits together."""
    check_columns(options, schema)
    check_payload(options, schema)
    async with opened(options.url) as store:
        await store.migrate()
        known = await job_type_of(store, options)
        known.check(arguments(options, schema))
        options = resolved(options, known)
        if announce:
            await keep(store, started(options))
    return options


def resolved(options: WriteOptions, known: JobType) -> WriteOptions:
    """The options with the queue and the codec of the job type, where they don't say otherwise."""
    return replace(options, queue=options.queue or known.queue, codec=known.codec)


def _write(options: WriteOptions, schema: StructType, batches: Iterable[RecordBatch]) -> TaskDone:
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()

    async def send() -> TaskDone:
        async with opened(options.url) as store:
            return await send_all(Sender(store, options, partition), options, schema, batches)

    return asyncio.run(send())


async def _keep(options: WriteOptions, summary: BatchSummary) -> None:
    async with opened(options.url) as store:
        await keep(store, summary)


async def _end(options: WriteOptions, summary: BatchSummary) -> None:
    """Keeps the summary. Raises `WriteFailed` if there are rows that must not be missing."""
    failed = summary.rejected > 0 and options.on_reject == "fail"
    summary = replace(summary, state="failed" if failed else "written")
    await _keep(options, summary)
    if failed:
        raise failure(summary)


def failure(summary: BatchSummary) -> WriteFailed:
    """What is said of rows that must not be missing."""
    return WriteFailed(
        f"{summary.rejected} of {summary.rows} rows became no job (the others are in; onReject=skip goes on "
        f"without them):\n{summary}"
    )


async def _end_micro_batch(options: WriteOptions, messages: Messages, number: int) -> None:
    async with opened(options.url) as store:
        before = await kept(store, options.batch) or started(options)
        if before.micro_batch is not None and before.micro_batch >= number:
            return  # counted before the query was restarted
        this = summed(started(options), messages)
        if this.rejected and options.on_reject == "fail":
            await keep(store, replace(before, state="failed", examples=this.examples))
            raise failure(this)
        await keep(store, replace(summed(before, messages), state="written", micro_batch=number))
