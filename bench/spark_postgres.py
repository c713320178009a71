"""Spark on PostgreSQL beside Spark's own JDBC: `python -m bench.spark_postgres [--record] [--jobs 200_000] [--small]`.

The same rows in one run, on one server: read from the store and by JDBC from its tables, enqueued and put by JDBC into
a plain table. Then what the difference is made of, in one process without Spark.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from bench import jdbc, markdown, record
from bench.folder import kind_of
from bench.record import RESULTS, Figures
from bench.spark_read import fill
from bench.sqlite import Say
from tenure.domain.calls import Enqueued, JobFilter
from tenure.domain.job import NewJob
from tenure.spark import session
from tenure.spark.columns import rows_of
from tenure.spark.rows import JobMaker
from tenure.spark.tables import JOBS
from tenure.spark.write_options import write_options
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.query import scan_sql
from tenure.stores.sql.snapshot import EVERYTHING
from tenure.testing.postgres import PostgresServer

PLAIN = ("tenant", "id", "queue", "job_type", "state", "priority", "enqueued_at", "run_at", "payload")
"""What the tables have as columns. The rest of a job is MessagePack there, which JDBC can't open."""
STORED = (*PLAIN, "spec", "live")
AT_ONCE = 1_000
SERVER = {"synchronous_commit": "on", "max_wal_size": "4GB"}
SMALL = {"jobs": 2_000, "rows": 2_000, "runs": 1}

Part = Callable[[], object]
Prepare = Callable[[str], None]


def measure(spark: SparkSession, server: PostgresServer, jobs: int, rows: int, runs: int, say: Say = print) -> Figures:
    read = reading(spark, server.url, jobs, runs, say)
    written = writing(spark, server.url, rows, runs, say)
    versions = {name: version(name) for name in ("pyspark", "pyarrow", "psycopg")}
    with psycopg.connect(server.url) as connection:
        versions["PostgreSQL"] = str(connection.info.parameter_status("server_version"))
    return {
        "versions": {**versions, "JDBC driver": jdbc.jar().stem.removeprefix("postgresql-")},
        "filesystem": kind_of(Path(tempfile.gettempdir())),
        "runs": runs,
        "read": read,
        "write": written,
    }


def interleaved(
    parts: dict[str, Part], runs: int, prepare: Callable[[str], None] = lambda name: None
) -> dict[str, float]:
    """The median seconds of each, one after the other again and again, after a run that warms everything up."""
    seconds: dict[str, list[float]] = {name: [] for name in parts}
    for run in range(runs + 1):
        for name, part in parts.items():
            prepare(name)
            started = time.perf_counter()
            part()
            if run:
                seconds[name].append(time.perf_counter() - started)
    return {name: median(times) for name, times in seconds.items()}


# Reading


def reading(spark: SparkSession, url: str, jobs: int, runs: int, say: Say) -> Figures:
    asyncio.run(fill(PostgresStore(url), jobs))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
    seconds = interleaved(readers(spark, url, jobs), runs)
    parts = {"every column": read_parts(url, JOBS.arrow.names), "plain columns": read_parts(url, PLAIN)}
    figures: Figures = {"jobs": jobs, "rates": {name: round(jobs / took) for name, took in seconds.items()}}
    figures["micros"] = {
        name: {part: round(took / jobs * 1e6, 2) for part, took in found.items()} for name, found in parts.items()
    }
    show("jobs read", figures, say)
    return figures


def readers(spark: SparkSession, url: str, jobs: int) -> dict[str, Part]:
    """Into Spark's sink that keeps nothing."""
    plain = StructType([JOBS.spark[name] for name in PLAIN])

    def by_tenure(schema: StructType | None, tasks: int) -> Part:
        reader = spark.read.format("tenure").options(url=url, partitions=str(tasks), snapshotSeconds="30")
        return lambda: nowhere((reader if schema is None else reader.schema(schema)).load())

    def by_jdbc(columns: tuple[str, ...], tasks: int) -> Part:
        table = f"(SELECT seq, {', '.join(columns)} FROM tenure.record) AS jobs"
        reader = spark.read.format("jdbc").options(url=jdbc.address(url), dbtable=table, fetchsize=str(AT_ONCE))
        if tasks > 1:
            reader = reader.options(
                partitionColumn="seq", lowerBound="1", upperBound=str(jobs), numPartitions=str(tasks)
            )
        return lambda: nowhere(reader.load().drop("seq"))

    return {
        "tenure, every column, one task": by_tenure(None, 1),
        "tenure, every column, two tasks of one snapshot": by_tenure(None, 2),
        "JDBC, records as they lie, two tasks": by_jdbc(STORED, 2),
        "tenure, plain columns, one task": by_tenure(plain, 1),
        "tenure, plain columns, two tasks of one snapshot": by_tenure(plain, 2),
        "JDBC, plain columns, one task": by_jdbc(PLAIN, 1),
        "JDBC, plain columns, two tasks": by_jdbc(PLAIN, 2),
    }


def nowhere(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def read_parts(url: str, names: Any) -> dict[str, float]:
    """Where the time of one task goes, in seconds: each step does what those before it do, and more."""
    store, fields = PostgresStore(url), JOBS.fields(names)
    columns = list(STORED if len(names) > len(PLAIN) else PLAIN)
    with store.snapshot() as view:
        sql, values = scan_sql(columns, JobFilter(), EVERYTHING, view._tables.records(EVERYTHING))

        def scan(make: Callable[[Any], object]) -> None:
            for page in view.scan(JobFilter(), fields, limit=AT_ONCE):
                make(page)

        server = seconds_of(lambda: list(view._tables.stream(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}", values)))
        rows = seconds_of(lambda: sum(len(page) for page in view._tables.pages(sql, values, AT_ONCE)))
        decoded = seconds_of(lambda: scan(len))
        arrow = seconds_of(lambda: scan(lambda page: JOBS.batch(page, names)))
    return {
        "server: finding the rows": server,
        "transfer, into Python's values": max(0.0, rows - server),
        "opening records, results": max(0.0, decoded - rows),
        "into Arrow": max(0.0, arrow - decoded),
    }


def seconds_of(part: Callable[[], object], times: int = 3) -> float:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        part()
        found.append(time.perf_counter() - started)
    return median(found)


# Writing


class Target:
    """Where one write goes: a schema or a table of its own, made before the clock runs."""

    def __init__(self, url: str) -> None:
        self._server = url
        self.name = ""

    def prepare(self, what: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            if self.name:
                connection.execute(f"DROP SCHEMA {self.name} CASCADE".encode())
            self.name = f"b{uuid4().hex}"
            connection.execute(f"CREATE SCHEMA {self.name}".encode())
            key = " PRIMARY KEY" if "primary key" in what else ""
            connection.execute(f"CREATE TABLE {self.name}.plain (n bigint{key}, name text)".encode())
        if what.startswith("tenure"):
            asyncio.run(self.migrated())

    async def migrated(self) -> None:
        store = PostgresStore(self.url)
        await store.migrate()
        await store.close()

    @property
    def url(self) -> str:
        return f"{self._server}?schema={self.name}"

    def wal(self) -> int:
        """Bytes that the server has logged so far."""
        with psycopg.connect(self._server, autocommit=True) as connection:
            row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").fetchone()
        if row is None:
            raise AssertionError("a server without a log")
        return int(row[0])

    def count(self, table: str) -> int:
        with psycopg.connect(self._server, autocommit=True) as connection:
            row = connection.execute(f"SELECT count(*) FROM {self.name}.{table}".encode()).fetchone()
        return int(row[0]) if row else 0


def writing(spark: SparkSession, url: str, rows: int, runs: int, say: Say) -> Figures:
    frame = spark.range(rows).selectExpr("id as n", "concat('customer-', id) as name").repartition(2).cache()
    frame.count()
    target = Target(url)
    parts = writers(frame, url, target)
    logged: dict[str, int] = {}

    def counted(name: str, part: Part, table: str) -> Part:
        def run() -> None:
            before = target.wal()
            part()
            logged[name] = target.wal() - before
            if target.count(table) != rows:
                raise AssertionError(f"{name}: {target.count(table):,} of {rows:,} rows")

        return run

    run = {name: counted(name, part, "job" if "tenure" in name else "plain") for name, part in parts.items()}
    seconds = interleaved(run, runs, target.prepare)
    target.prepare("tenure")
    found = write_parts(target, rows)
    figures: Figures = {
        "rows": rows,
        "rates": {name: round(rows / took) for name, took in seconds.items()},
        "wal_bytes": {name: round(size / rows) for name, size in logged.items()},
        "micros": {part: round(took / rows * 1e6, 2) for part, took in found.items()},
    }
    show("rows enqueued", figures, say)
    return figures


def writers(frame: DataFrame, url: str, target: Target) -> dict[str, Part]:
    def by_tenure() -> None:
        options = {"url": target.url, "jobType": "greet", "queue": "mail", "keyColumns": "n"}
        frame.write.format("tenure").options(**options).mode("append").save()

    def by_jdbc() -> None:
        options = {"url": jdbc.address(url), "dbtable": f"{target.name}.plain", "batchsize": str(AT_ONCE)}
        frame.write.format("jdbc").options(**options).mode("append").save()

    return {
        "tenure, keys enforced": by_tenure,
        "JDBC, a table with a primary key": by_jdbc,
        "JDBC, a table without one": by_jdbc,
    }


def write_parts(target: Target, rows: int) -> dict[str, float]:
    """Where the time of one task goes, in seconds, without Spark."""
    given = {"url": target.url, "jobtype": "greet", "queue": "mail", "keycolumns": "n"}
    schema = StructType().add("n", "long").add("name", "string")
    make = JobMaker(replace(write_options(given), queue="mail", codec="json"), schema)
    table = pa.table({"n": range(rows), "name": [f"customer-{n}" for n in range(rows)]})
    started = time.perf_counter()
    jobs = [make(row) for batch in table.to_batches(AT_ONCE) for row in rows_of(batch)]
    made = time.perf_counter() - started
    started, busy = time.perf_counter(), time.process_time()
    asyncio.run(enqueue(target.url, jobs))
    took, busy = time.perf_counter() - started, time.process_time() - busy
    return {
        "row to job: types, key, payload, limits": made,
        "job to statement: record, event, arrays": busy,
        "waiting for the server: tables, keys, indexes, log": max(0.0, took - busy),
    }


async def enqueue(url: str, jobs: list[NewJob]) -> None:
    store = PostgresStore(url)
    for start in range(0, len(jobs), AT_ONCE):
        replies = await store.enqueue(jobs[start : start + AT_ONCE])
        if not all(isinstance(reply, Enqueued) and reply.created for reply in replies):
            raise AssertionError("a job was refused")
    await store.close()


def show(title: str, figures: Figures, say: Say) -> None:
    say(f"\n  {title}")
    for name, rate in figures["rates"].items():
        say(f"  {name:<52}{rate:>10,} rows/s")
    parts = figures["micros"]
    for name, found in (parts if isinstance(next(iter(parts.values())), dict) else {"": parts}).items():
        say(f"  µs a row, one process {name}: " + ", ".join(f"{part} {micros}" for part, micros in found.items()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_postgres", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--record", type=Path, nargs="?", const=RESULTS, help="keep the figures there (bench/results/)")
    parser.add_argument("--small", action="store_true", help="only to see that it runs: the figures mean nothing")
    options = parser.parse_args()
    sizes = SMALL if options.small else {"jobs": options.jobs, "rows": options.rows, "runs": options.runs}
    spark = session(
        master="local[2]", config={"spark.log.level": "OFF", "spark.driver.extraClassPath": str(jdbc.jar())}
    )
    server = PostgresServer(settings=SERVER)
    try:
        figures = measure(spark, server, **sizes)
    finally:
        spark.stop()
        server.remove()
    if options.record is not None:
        record.write(options.record / "spark_postgres.json", "python -m bench.spark_postgres --record", figures)
        page = markdown.PAGE if options.record == RESULTS else options.record / markdown.PAGE.name
        markdown.write(options.record, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
