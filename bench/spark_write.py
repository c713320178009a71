"""Enqueueing from a DataFrame, keys enforced, beside plain Python into the same kind of store."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.folder import on_disk
from bench.record import Figures
from bench.sqlite import Say
from tenure import Tenure
from tenure.engine.definition import Call
from tenure.spark import enqueue

AT_ONCE = 1_000

Part = Callable[[Path], None]


def measure(rows: int, spark: SparkSession, *, parent: Path | None = None, runs: int = 3, say: Say = print) -> Figures:
    """Medians of interleaved runs, each into a store of its own; rows a second."""
    frame = spark.range(rows).selectExpr("id as n", "concat('customer-', id) as name").repartition(2).cache()
    frame.count()
    parts: dict[str, Part] = {
        "Spark, Arrow, keys": lambda path: _by_spark(frame, path),
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
    rates = {name: round(rows / median(times)) for name, times in seconds.items()}
    for name, rate in rates.items():
        say(f"  {name:<32} {rate:>9,} rows/s")
    return {"rows": rows, "runs": runs, "rates": rates}


def _by_spark(frame: DataFrame, path: Path) -> None:
    summary = enqueue(frame, url=f"sqlite:///{path}", job_type="greet", queue="mail", key_columns=["n"])
    if summary.enqueued != frame.count():
        raise AssertionError(f"only {summary.enqueued} rows went in")


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
