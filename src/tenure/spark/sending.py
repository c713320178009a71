"""Jobs on their way into the store, many at once; full queues are waited for or not, as told."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pyarrow import RecordBatch
from pyspark.sql.types import StructType

from tenure.domain.calls import Enqueued
from tenure.domain.errors import InvalidValue, QueueFull, StoreFrozen, WriteFailed
from tenure.domain.job import NewJob
from tenure.domain.store import Store
from tenure.engine.bodies import to_enqueue
from tenure.engine.client import FLUSH_BYTES, persist
from tenure.spark.columns import rows_of
from tenure.spark.rows import JobMaker
from tenure.spark.summary import TaskDone
from tenure.spark.write_options import WriteOptions

PAUSE_SECONDS = (0.05, 1.0)
"""Between two looks at a full queue: the first, and the longest."""


class Row(NamedTuple):
    """A row that became a job, with its place in the partition."""

    number: int
    job: NewJob


class Sender:
    """Sends the jobs of one task and counts what becomes of them. `pause` and `clock` are the world's, in seconds."""

    def __init__(
        self,
        store: Store,
        options: WriteOptions,
        partition: int,
        *,
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._options = options
        self._partition = partition
        self._pause = pause
        self._clock = clock
        self.done = TaskDone()

    def reject(self, number: int, key: str | None, reason: object) -> None:
        self.done.reject(self._partition, number, key, reason)

    async def send(self, rows: Sequence[Row]) -> None:
        """Returns once each is in or refused. Raises `WriteFailed` when a full queue gave no room for too long."""
        since, (pause, longest) = self._clock(), PAUSE_SECONDS
        left = await self._try(rows)
        while left:
            if self._options.on_full == "fail" or self._clock() - since >= self._options.wait_seconds:
                raise self._full(left, self._clock() - since)
            await self._pause(pause)
            pause = min(2 * pause, longest)
            before, left = len(left), await self._try(left)
            if len(left) < before:
                since = self._clock()

    async def _try(self, rows: Sequence[Row]) -> list[Row]:
        """Sends once; the rows that found their queue full."""
        left = []
        replies = await persist(self._store, [row.job for row in rows])
        for row, reply in zip(rows, replies, strict=True):
            match reply:
                case Enqueued(created=True):
                    self.done.enqueued += 1
                case Enqueued():
                    self.done.duplicate += 1
                case QueueFull():
                    left.append(row)
                case StoreFrozen():
                    raise reply
                case _:
                    self.reject(row.number, row.job.key, reply)
        return left

    def _full(self, left: Sequence[Row], waited: float) -> WriteFailed:
        job = left[0].job
        how = "onFull=fail" if self._options.on_full == "fail" else f"no room for {waited:.1f} s"
        return WriteFailed(
            f"queue {job.queue!r} of tenant {job.tenant!r} is full ({how}): row {left[0].number} of partition "
            f"{self._partition} and those after it aren't in. What is in stays: write the same again once there is "
            "room, and nothing is enqueued twice"
        )


async def send_all(
    sender: Sender, options: WriteOptions, schema: StructType, batches: Iterable[RecordBatch]
) -> TaskDone:
    """Sends a partition. A row that can't be a job is counted, and the others go on."""
    make = JobMaker(options, schema)
    waiting: list[Row] = []
    number = size = 0
    for batch in batches:
        for row in rows_of(batch):
            try:
                job = make(row)
            except InvalidValue as error:
                sender.reject(number, _key(make, row), error)
            else:
                waiting.append(Row(number, job))
                size += len(job.payload)
            number += 1
            if len(waiting) == options.batch_size or size >= FLUSH_BYTES:
                await _flush(sender, make, waiting)
                waiting, size = [], 0
    if waiting:
        await _flush(sender, make, waiting)
    return sender.done


async def _flush(sender: Sender, make: JobMaker, rows: list[Row]) -> None:
    if make.app is not None and make.app.blob_store is not None:
        jobs = await to_enqueue(make.app, [row.job for row in rows])
        rows = [Row(row.number, job) for row, job in zip(rows, jobs, strict=True)]
    await sender.send(rows)


def _key(make: JobMaker, row: dict[str, Any]) -> str | None:
    try:
        return make.key(row)
    except InvalidValue:
        return None
