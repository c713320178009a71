"""Reading a store by Spark: by Arrow and by rows, in one task and in two, beside plain Python over the same store."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench.folder import on_disk
from bench.ids import uuid7
from bench.record import Figures
from bench.sqlite import Say
from bench.subject import MAIL, PAYLOAD, RESULT
from tenure import Tenure
from tenure.domain.calls import Claim, Claimed, Cursor, Enqueued, JobFilter, Settle, Succeed
from tenure.domain.job import NewJob
from tenure.domain.names import MINUTE
from tenure.domain.store import Store
from tenure.spark import session
from tenure.spark.options import read_options
from tenure.spark.source import TableReader, TenureSource
from tenure.spark.tables import JOBS
from tenure.stores.sql.sqlite import SqliteStore

AT_ONCE = 500
ENDED = 0.8
"""Of the jobs; the others wait."""
PAGE = 1_000

Part = Callable[[], int]
"""Reads everything once, and says how many rows that were."""


class RowReader(TableReader):
    """The same rows as tuples of Python's values, as a source without Arrow gives them."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield from zip(*(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True)


class RowSource(TenureSource):
    """`format("tenure_rows")`, for this measurement only."""

    @classmethod
    def name(cls) -> str:
        return "tenure_rows"

    def reader(self, schema: StructType) -> DataSourceReader:
        return RowReader(read_options(self.options), schema)


def measure(
    jobs: int, *, parent: Path | None = None, runs: int = 3, say: Say = print, spark: SparkSession | None = None
) -> Figures:
    """Medians of interleaved runs, after one that warms everything up; rows a second."""
    with on_disk(parent) as folder:
        path = folder / "jobs.db"
        asyncio.run(fill(SqliteStore(path), jobs))
        made = spark or session(master="local[2]", config={"spark.log.level": "OFF"})
        try:
            rates = _measure(_parts(made, path), jobs, runs)
        finally:
            if spark is None:
                made.stop()
    versions = {name: version(name) for name in ("pyspark", "pyarrow")}
    figures: Figures = {"jobs": jobs, "runs": runs, "versions": versions, "rates": rates}
    show(figures, say)
    return figures


async def fill(store: Store, jobs: int) -> None:
    """Makes a store of jobs most of which have ended, and closes it."""
    await store.migrate()
    for start in range(0, jobs, AT_ONCE):
        replies = await store.enqueue([_job() for _ in range(min(AT_ONCE, jobs - start))])
        if not all(isinstance(reply, Enqueued) and reply.created for reply in replies):
            raise AssertionError("a job was refused")
    ended, cursor = 0, Cursor()
    while ended < ENDED * jobs:
        request = Claim(
            claim_id=os.urandom(16), worker="bench", queues=((MAIL, None),), n=AT_ONCE, ttl=10 * MINUTE, cursor=cursor
        )
        claimed = await store.claim(request)
        if not isinstance(claimed, Claimed) or not claimed.jobs:
            raise AssertionError("nothing to claim")
        await store.settle([Settle(job.token, Succeed(RESULT)) for job in claimed.jobs])
        ended, cursor = ended + len(claimed.jobs), claimed.cursor
    await store.close()


def _job() -> NewJob:
    return NewJob(
        tenant="default",
        id=uuid7(),
        queue=MAIL,
        job_type="send",
        payload=PAYLOAD,
        labels={"team": "crm", "region": "eu"},
    )


def _parts(spark: SparkSession, path: Path) -> dict[str, Part]:
    """What is measured, by name. Spark's rows go into its sink that keeps nothing."""
    spark.dataSource.register(RowSource)
    url = f"sqlite:///{path}"
    slim = StructType([field for field in JOBS.spark if field.name != "payload"])

    def by_spark(format: str, schema: StructType | str | None, **options: str) -> Part:
        def read() -> int:
            reader = spark.read.format(format).options(url=url, **options)
            rows = (reader if schema is None else reader.schema(schema)).load()
            rows.write.format("noop").mode("overwrite").save()
            return 0

        return read

    return {
        "Spark, Arrow": by_spark("tenure", None),
        "Spark, Arrow, no payload": by_spark("tenure", slim),
        "Spark, Arrow, id and state": by_spark("tenure", "id string, state string"),
        "Spark, Arrow, two tasks of a copy": by_spark("tenure", None, partitions="2"),
        "Spark, rows": by_spark("tenure_rows", None),
        "Python, Arrow batches": lambda: _batches(path, JOBS.arrow.names),
        "Python, Arrow batches, no payload": lambda: _batches(path, [n for n in JOBS.arrow.names if n != "payload"]),
        "Python, store.query": lambda: asyncio.run(_query(path)),
        "Python, app.sync.fleet.jobs()": lambda: _listing(url),
    }


def _batches(path: Path, names: list[str]) -> int:
    """What a task does, without Spark around it."""
    with SqliteStore(path).snapshot() as snapshot:
        pages = snapshot.scan(JobFilter(), JOBS.fields(names), limit=PAGE)
        return sum(JOBS.batch(page, names).num_rows for page in pages)


async def _query(path: Path) -> int:
    store, after, found = SqliteStore(path), None, 0
    while True:
        page = await store.query(JobFilter(), after=after, limit=PAGE)
        found, after = found + len(page.jobs), page.cursor
        if after is None:
            await store.close()
            return found


def _listing(url: str) -> int:
    app = Tenure(url)
    try:
        return sum(1 for _ in app.sync.fleet.jobs())
    finally:
        app.sync.close()


def _measure(parts: dict[str, Part], jobs: int, runs: int) -> dict[str, int]:
    seconds: dict[str, list[float]] = {name: [] for name in parts}
    for number in range(runs + 1):
        for name, part in parts.items():
            started = time.perf_counter()
            if part() not in (0, jobs):
                raise AssertionError(f"{name}: not every job was read")
            if number:
                seconds[name].append(time.perf_counter() - started)
    return {name: round(jobs / median(times)) for name, times in seconds.items()}


def show(figures: Figures, say: Say) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in figures["versions"].items())
    say(f"\n  {figures['jobs']:,} jobs in SQLite, medians of {figures['runs']}; {versions}")
    slowest = min(figures["rates"].values())
    for name, rate in figures["rates"].items():
        say(f"  {name:<36}{rate:>10,} rows/s{rate / slowest:>7.1f}×")
