"""Bronze: events as they came. Tasks read their part of the feed and write Parquet themselves.

Handing the columns to Spark's writer instead was measured at 278,000 events a second against 432,000.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tenure.spark.feed import batches
from tenure.spark.lake.log import File
from tenure.spark.opening import snapshot_store
from tenure.spark.stream import split
from tenure.spark.tables import EVENTS, TEXT, TIME, WHOLE

_WRITTEN = pa.schema(
    [
        ("path", TEXT),
        ("size", WHOLE),
        ("day", TEXT),
        ("rows", WHOLE),
        ("first_pos", WHOLE),
        ("last_pos", WHOLE),
        ("first_at", TIME),
        ("last_at", TIME),
    ]
)
_DDL = (
    "path string, size bigint, day string, rows bigint, "
    "first_pos bigint, last_pos bigint, first_at timestamp, last_at timestamp"
)
_REPEATED = ["tenant", "kind", "queue", "job_type", "worker", "reason", "error_family", "message"]
"""Columns in which the same few values come again and again."""


def take(spark: SparkSession, url: str, root: Path, after: int, until: int, tasks: int) -> list[File]:
    """Writes the events of a range of the feed into files that no log knows yet."""
    ranges = [(part.after, part.until) for part in split(after, until, tasks)]
    run = f"run={uuid4().hex}"

    def write(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                files = _write(url, root, run, *ranges[number])
                yield pa.RecordBatch.from_pylist(files, schema=_WRITTEN)

    rows = spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(write, _DDL).collect()
    return [
        File(
            row["path"],
            row["size"],
            row["day"],
            row["rows"],
            {"pos": row["first_pos"], "at": row["first_at"].replace(tzinfo=UTC)},
            {"pos": row["last_pos"], "at": row["last_at"].replace(tzinfo=UTC)},
        )
        for row in rows
    ]


class _DayFile:
    """One task's events of one day. A name is never used again: the files of a task that died are nobody's."""

    def __init__(self, root: Path, run: str, day: str) -> None:
        self.day = day
        self.path = f"{run}/date={day}/{uuid4().hex}.parquet"
        place = root / self.path
        place.parent.mkdir(parents=True, exist_ok=True)
        self._place = place
        self._writer = pq.ParquetWriter(place, EVENTS.arrow, compression="zstd", use_dictionary=_REPEATED)
        self._rows = 0
        self._spans: dict[str, list[int | datetime]] = {"pos": [], "at": []}

    def write(self, events: pa.RecordBatch) -> None:
        self._writer.write_batch(events)
        self._rows += events.num_rows
        for name, edges in self._spans.items():
            found = pc.min_max(events[name]).as_py()
            edges += (found["min"], found["max"])

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> "_DayFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def row(self) -> dict[str, object]:
        positions, times = self._spans["pos"], self._spans["at"]
        return {
            "path": self.path,
            "size": self._place.stat().st_size,
            "day": self.day,
            "rows": self._rows,
            "first_pos": min(positions),
            "last_pos": max(positions),
            "first_at": min(times),
            "last_at": max(times),
        }


def _write(url: str, root: Path, run: str, after: int, until: int) -> list[dict[str, object]]:
    """One task: a file a day."""
    files: dict[str, _DayFile] = {}
    with ExitStack() as open_files, snapshot_store(url).snapshot() as snapshot:
        for batch in batches(snapshot.chunks(after, until)):
            days = batch["at"].cast(pa.date32())
            for day in pc.unique(days):
                name = day.as_py().isoformat()
                if name not in files:
                    files[name] = open_files.enter_context(_DayFile(root, run, name))
                files[name].write(batch.filter(pc.equal(days, day)))
    return [file.row for file in files.values()]
