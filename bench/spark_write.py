"""Enqueueing from a DataFrame by Arrow and by rows, keys enforced, beside plain Python into the same kind of store."""

import asyncio
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bench.folder import on_disk
from bench.record import Figures
from bench.sqlite import Say
from tenure import Tenure
from tenure.domain.calls import JobFilter
from tenure.engine.definition import Call
from tenure.spark.sink import TenureWriter
from tenure.spark.source import TenureSource
from tenure.stores.sql.sqlite import SqliteStore

AT_ONCE = 1_000

Part = Callable[[Path], None]


class RowWriter(DataSourceWriter):
    """The same of Spark's rows, as a sink without Arrow gets them."""

    def __init__(self, writer: TenureWriter, schema: StructType) -> None:
        self._writer = writer
        self._schema = to_arrow_schema(schema)

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self._writer.write(self._batches(iterator))

    def _batches(self, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
        while some := list(islice(rows, AT_ONCE)):
            yield pa.RecordBatch.from_pylist([row.asDict() for row in some], schema=self._schema)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages)


class RowSink(TenureSource):
    """`format("tenure_rows")`, for this measurement only."""

    @classmethod
    def name(cls) -> str:
        return "tenure_rows"

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return RowWriter(super().writer(schema, overwrite), schema)


def measure(rows: int, spark: SparkSession, *, parent: Path | None = None, runs: int = 3, say: Say = print) -> Figures:
    """Medians of interleaved runs, each into a store of its own; rows a second."""
    frame = spark.range(rows).selectExpr("id as n", "concat('customer-', id) as name").repartition(2).cache()
    frame.count()
    spark.dataSource.register(RowSink)
    parts: dict[str, Part] = {
        "Spark, Arrow, keys": lambda path: _by_spark(frame, path, "tenure"),
        "Spark, rows, keys": lambda path: _by_spark(frame, path, "tenure_rows"),
        "Python, enqueue_many, keys": lambda path: asyncio.run(_by_app(path, rows, keyed=True)),
        "Python, enqueue_many, no keys": lambda path: asyncio.run(_by_app(path, rows, keyed=False)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in parts}
    for run in range(runs + 1):
        for name, part in parts.items():
            with on_disk(parent) as folder:
                started = time.perf_counter()
                part(folder / "jobs.db")
                if run:  # the first one warms everything up
                    seconds[name].append(time.perf_counter() - started)
                _check(folder / "jobs.db", rows)
    rates = {name: round(rows / median(times)) for name, times in seconds.items()}
    for name, rate in rates.items():
        say(f"  {name:<32} {rate:>9,} rows/s")
    versions = {name: version(name) for name in ("pyspark", "pyarrow")}
    return {"rows": rows, "runs": runs, "versions": versions, "rates": rates}


def _by_spark(frame: DataFrame, path: Path, format: str) -> None:
    options = {"url": f"sqlite:///{path}", "jobType": "greet", "queue": "mail", "keyColumns": "n"}
    frame.write.format(format).options(**options).mode("append").save()


async def _by_app(path: Path, rows: int, *, keyed: bool) -> None:
    app = Tenure(f"sqlite:///{path}")

    @app.job(queue="mail")
    async def greet(n: int, name: str) -> None: ...

    def call(n: int) -> Call[Any]:
        kind = greet.options(key=str(n), unique="retained") if keyed else greet
        return kind.build(n, f"customer-{n}")

    async with app:
        for start in range(0, rows, AT_ONCE):
            await app.enqueue_many([call(n) for n in range(start, min(start + AT_ONCE, rows))])


def _check(path: Path, rows: int) -> None:
    with SqliteStore(path).snapshot() as snapshot:
        found = sum(len(page["id"]) for page in snapshot.scan(JobFilter(), ("id",), limit=AT_ONCE))
    if found != rows:
        raise AssertionError(f"{found:,} jobs of {rows:,} rows")
