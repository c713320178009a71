"""Bringing a lake up to its store: bronze takes the next range of the feed, and the other tables follow.

Each table has a position of its own. A sync first brings every table up to bronze's position and only then takes the
next range, so whatever was cut short, the next sync goes on from there, and there is nothing to repair.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from tenure.domain.errors import EventsLost, InvalidValue
from tenure.spark.lake import bronze, gold, silver
from tenure.spark.lake.lock import locked
from tenure.spark.lake.log import File, Log, Value, written
from tenure.spark.lake.schemas import (
    ATTEMPTS_TABLE,
    DISPOSITIONS_TABLE,
    EVENTS_TABLE,
    FAILURES_TABLE,
    HOURLY_TABLE,
    JOBS_TABLE,
    LATENCY_TABLE,
    OPEN,
    QUIET,
    SLO,
    SLO_MS,
    STORE,
    TABLES,
    USAGE_TABLE,
    LakeTable,
)
from tenure.spark.lake.upkeep import compact_crowded
from tenure.spark.opening import snapshot_store

BATCH_BYTES = 512 * 1024 * 1024
"""Of the feed, at once: about two million events. Half of it: 10 M in 237 s instead of 224. A heap of 1 GiB will do."""
FEW_OPEN = 50_000
"""Open jobs that are simply all folded anew; of more, only those that new events touch."""
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",  # of 128 groups: gold.hourly a tenth slower
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
HOUR = timedelta(hours=1)


class Synced(msgspec.Struct, frozen=True):
    """What one step did: bronze stands at `position`, of `head` in the feed."""

    events: int
    position: int
    head: int


class Sync:
    """One lake and its store. On one machine only one syncs at a time; elsewhere the log refuses the second."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        lake: Path,
        *,
        slo_ms: int | None = None,
        accept_gap: bool = False,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._spark = spark
        self._url = url
        self._lake = lake
        self._accept_gap = accept_gap
        self._batch_bytes = batch_bytes
        with snapshot_store(url).snapshot() as snapshot:
            store = snapshot.identity()
        if slo_ms is not None and slo_ms < 1:
            raise InvalidValue(f"slo of {slo_ms} ms: an objective takes some time")
        if lake.exists() and not lake.is_dir():
            raise InvalidValue(f"{lake} is a file: give the folder of a lake")
        for table in TABLES.values():
            log = Log.create(lake, table, {STORE: store, SLO: str(slo_ms or SLO_MS)})
            if log.store != store:
                raise InvalidValue(f"{lake} holds the history of another store ({log.store}): give each store its own")
        self._slo_ms = int(self._log(HOURLY_TABLE).configuration.get(SLO, SLO_MS))
        if slo_ms is not None and slo_ms != self._slo_ms:
            raise InvalidValue(
                f"{lake} was made for an objective of {self._slo_ms / 1_000:g} s, not {slo_ms / 1_000:g} s: "
                "leave --slo out, or make another lake"
            )

    # Steps

    def run(self, told: Callable[[Synced], None] = lambda _: None) -> int:
        """Brings the lake up to what the feed holds now, and answers how many events came."""
        with snapshot_store(self._url).snapshot() as snapshot:
            head = snapshot.feed().head
        with locked(self._lake), self._settings():
            total = 0
            self._follow()
            while (step := self._take(head)) is not None:
                self._follow()
                total += step.events
                told(step)
            if total:
                compact_crowded(self._lake)
            return total

    def _take(self, head: int) -> Synced | None:
        """Bronze, one batch on."""
        log = self._log(EVENTS_TABLE)
        after, until = self._range(log, head)
        if after >= until:
            return None
        files = bronze.take(self._spark, self._url, log.root, after, until, self._tasks)
        log.commit(until, add=files)
        return Synced(sum(file.rows for file in files), until, head)

    def _range(self, log: Log, head: int) -> tuple[int, int]:
        with snapshot_store(self._url).snapshot() as snapshot:
            span = snapshot.feed()
            position = log.position
            after = span.floor if position is None else position
            if after > span.head:
                raise InvalidValue(
                    f"{self._lake} stands at position {after} of a feed that ends at {span.head}: "
                    "the store is older than the lake, perhaps restored from a backup; make another lake"
                )
            if after < span.floor:
                if not self._accept_gap:
                    raise EventsLost(
                        f"{self._lake} stands at position {after} of the feed, and retention has taken everything "
                        f"up to {span.floor}: accept the gap (--accept-gap), or make another lake"
                    )
                after = span.floor
            return after, min(head, self._cut(snapshot.chunk_sizes(after), after))

    def _cut(self, sizes: Iterator[tuple[int, int]], after: int) -> int:
        taken, last = 0, after
        for position, size in sizes:
            taken, last = taken + size, position
            if taken >= self._batch_bytes:
                break
        return last

    def _follow(self) -> None:
        """Every other table, up to bronze."""
        events = self._log(EVENTS_TABLE)
        position = events.position
        if position is None:
            return
        for table, bring in (
            (ATTEMPTS_TABLE, self._attempts),
            (JOBS_TABLE, self._jobs),
            (DISPOSITIONS_TABLE, self._dispositions),
            (HOURLY_TABLE, self._hourly),
            (LATENCY_TABLE, self._latency),
            (FAILURES_TABLE, self._failures),
            (USAGE_TABLE, self._usage),
        ):
            log = self._log(table)
            after = log.position or 0
            if after < position:
                bring(log, events, after, position)

    # Tables

    def _attempts(self, log: Log, events: Log, after: int, until: int) -> None:
        open_files = [file for file in log.files if file.partition == OPEN]
        rows = silver.attempts(self._new(events, after, until), self._rows(log, open_files))
        log.commit(until, add=self._write(log, rows), remove=open_files)

    def _jobs(self, log: Log, events: Log, after: int, until: int) -> None:
        """Jobs that go on waiting are put apart, so that the next sync can leave their files alone.

        Of many open jobs those with nothing new are copied as they are: with a million of them, and 5,000 touched,
        this took 5.6 s where folding all of them took 10.5.
        """
        new = self._new(events, after, until)
        open_files = [file for file in log.files if file.partition in (OPEN, QUIET)]
        copied: list[File] = []
        if sum(file.rows for file in open_files) <= FEW_OPEN:
            rows = silver.jobs(new, self._rows(log, open_files))
        else:
            keys = self._keys(new)
            open_files = self._touched(log, open_files, keys)
            known = self._rows(log, open_files)
            rows = silver.jobs(new, known.join(keys, list(JOBS_TABLE.key), "leftsemi"))
            copied = self._write_to(log, known.join(keys, list(JOBS_TABLE.key), "leftanti"), QUIET)
        part = f"if(finished_at is null and not touched, '{QUIET}', {log.table.value})"
        log.commit(until, add=[*self._write(log, rows, part), *copied], remove=open_files)

    def _keys(self, new: DataFrame) -> DataFrame:
        """The jobs that events touch. Of a batch as large as ours at most, they fit into the memory of each task."""
        keys = new.where("job_id is not null").select(*JOBS_TABLE.key).distinct()
        return F.broadcast(keys) if self._batch_bytes <= BATCH_BYTES else keys

    def _touched(self, log: Log, files: Sequence[File], keys: DataFrame) -> list[File]:
        """The files that hold an open job of which something is new, and those that are too small to be left alone."""
        known = self._rows(log, files).select(*JOBS_TABLE.key, "_metadata.file_name")
        names = {
            row[0]
            for row in known.join(keys, list(JOBS_TABLE.key), "leftsemi").select("file_name").distinct().collect()
        }
        return [file for file in files if Path(file.path).name in names or file.rows < FEW_OPEN // 10]

    def _dispositions(self, log: Log, events: Log, after: int, until: int) -> None:
        rows = silver.dispositions(self._new(events, after, until)).coalesce(1)
        log.commit(until, add=self._write(log, rows))

    def _hourly(self, log: Log, events: Log, after: int, until: int) -> None:
        """Hours that new events touch are computed anew; others of the same days are carried over."""
        first, last = self._hours(events, after, until)
        end = last + HOUR - timedelta(microseconds=1)
        found = gold.hourly(
            self._between(events, events.files, "at", first, end),
            self._ended("finished_at", first, end),
            self._slo_ms,
        )
        days = {(first + day * timedelta(days=1)).date().isoformat() for day in range((end - first).days + 2)}
        old = [file for file in log.files if file.partition in days]
        kept = self._rows(log, old).where(f"not ({_within('hour', first, end)})")
        log.commit(until, add=self._write(log, found.unionByName(kept).coalesce(1)), remove=old)

    def _hours(self, events: Log, after: int, until: int) -> tuple[datetime, datetime]:
        """From the first to the last hour of the new events."""
        files = [file for file in events.files if file.overlaps("pos", after + 1, until)]
        times = [[side["at"] for side in (file.least, file.most)] for file in files]
        flat = [at for pair in times for at in pair if isinstance(at, datetime)]
        return _hour(min(flat)), _hour(max(flat))

    def _latency(self, log: Log, events: Log, after: int, until: int) -> None:
        rows = gold.latency(self._new(events, after, until), self._ended("pos", after + 1, until))
        log.commit(until, add=self._write(log, rows.coalesce(1)))

    def _failures(self, log: Log, events: Log, after: int, until: int) -> None:
        rows = gold.failures(self._new(events, after, until)).coalesce(1)
        log.commit(until, add=self._write(log, rows))

    def _usage(self, log: Log, events: Log, after: int, until: int) -> None:
        rows = gold.usage(self._new(events, after, until)).coalesce(1)
        log.commit(until, add=self._write(log, rows))

    # Files

    def _log(self, table: LakeTable) -> Log:
        return Log.open(self._lake, table)

    def _new(self, events: Log, after: int, until: int) -> DataFrame:
        return self._between(events, events.files, "pos", after + 1, until)

    def _ended(self, column: str, first: Value, last: Value) -> DataFrame:
        """Jobs that have ended."""
        jobs = self._log(JOBS_TABLE)
        closed = [file for file in jobs.files if file.partition not in (OPEN, QUIET)]
        return self._between(jobs, closed, column, first, last)

    def _between(self, log: Log, files: Sequence[File], column: str, first: Value, last: Value) -> DataFrame:
        """The rows of some files with the column between two values.

        Where whole files are meant, as for a batch just taken, the plan has no numbers in it: Spark compiles a plan
        anew for other numbers, and Java warms up to it anew. Of a million events silver.jobs took 4.0 s instead of
        6.2, gold.latency 0.7 instead of 1.1.
        """
        overlapping = [file for file in files if file.overlaps(column, first, last)]
        inside = [file for file in overlapping if file.within(column, first, last)]
        across = [file for file in overlapping if not file.within(column, first, last)]
        rows = self._rows(log, inside)
        return rows.union(self._rows(log, across).where(_within(column, first, last))) if across else rows

    def _rows(self, log: Log, files: Sequence[File]) -> DataFrame:
        return rows_of(self._spark, log, files)

    def _write(self, log: Log, rows: DataFrame, part: str | None = None) -> list[File]:
        """Puts rows into files that the log doesn't know yet, each into its partition."""
        partition = f"{part or log.table.value} as {log.table.partition}"
        writer = rows.selectExpr(*_columns(log), partition).write.partitionBy(log.table.partition)
        return self._written(log, writer)

    def _write_to(self, log: Log, rows: DataFrame, partition: str) -> list[File]:
        """The same for rows of one partition, which Spark then needn't sort by it."""
        return self._written(log, rows.selectExpr(*_columns(log)).write, f"{log.table.partition}={partition}")

    def _written(self, log: Log, writer: DataFrameWriter, folder: str = "") -> list[File]:
        run = log.root / f"run={uuid4().hex}"
        writer.parquet(str(run / folder))
        files = list(written(log.root, run, log.table))
        if not files:
            shutil.rmtree(run, ignore_errors=True)
        return files

    @property
    def _tasks(self) -> int:
        return max(2, self._spark.sparkContext.defaultParallelism)

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """What a session of one's own may have otherwise."""
        wanted = {**SETTINGS, "spark.sql.shuffle.partitions": str(2 * self._tasks)}
        before = {key: self._spark.conf.get(key) for key in wanted}
        try:
            for key, value in wanted.items():
                self._spark.conf.set(key, value)
            yield
        finally:
            for key, kept in before.items():
                if kept is not None:
                    self._spark.conf.set(key, kept)


def rows_of(spark: SparkSession, log: Log, files: Sequence[File]) -> DataFrame:
    """The rows of some files. Columns that came later than a file are null in it."""
    schema = log.table.spark
    return spark.read.schema(schema).parquet(*log.paths(files)) if files else spark.createDataFrame([], schema)


def _columns(log: Log) -> list[str]:
    return [f"`{name}`" for name in log.table.columns.names]


def _within(column: str, first: Value, last: Value) -> str:
    return f"{column} between {_literal(first)} and {_literal(last)}"


def _literal(value: Value) -> str:
    return f"timestamp '{value.isoformat()}'" if isinstance(value, datetime) else str(value)


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
