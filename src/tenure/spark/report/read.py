"""The gold tables of a lake, for a stretch of time: read with `deltalake` into Arrow, without Spark.

What the report counts is summed here by the keys that it asks for, so it makes no difference in how many rows the lake
keeps one key.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tenure.domain.errors import InvalidValue, StoreCorrupt
from tenure.spark.lake.schemas import (
    COUNTS,
    FAILURES_TABLE,
    HOURLY_TABLE,
    LATENCY_TABLE,
    SLO,
    SLO_MS,
    USAGE_TABLE,
)
from tenure.spark.report.histogram import Histogram
from tenure.spark.tables import TIME

HOUR = timedelta(hours=1)

COUNTED = (*COUNTS, "slo_n", "slo_ok")

TABLES = {
    "hourly": pa.schema([HOURLY_TABLE.columns.field(name) for name in (*HOURLY_TABLE.key, *COUNTED)]),
    "latency": LATENCY_TABLE.columns,
    "failures": FAILURES_TABLE.columns,
    "usage": USAGE_TABLE.columns,
}
"""The columns that are read of each table."""


class Period(msgspec.Struct, frozen=True):
    """A stretch of whole UTC hours: `since` is in it, `until` is not."""

    since: datetime
    until: datetime

    @property
    def length(self) -> timedelta:
        return self.until - self.since

    @property
    def before(self) -> "Period":
        """As long, and just before."""
        return Period(self.since - self.length, self.since)

    def hours(self) -> list[datetime]:
        return [self.since + HOUR * index for index in range(self.length // HOUR)]

    def __contains__(self, at: datetime) -> bool:
        return self.since <= at < self.until


class Totals(msgspec.Struct, frozen=True):
    """What `gold.hourly` counts, summed over something."""

    enqueued: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    retries: int = 0
    released: int = 0
    lease_losses: int = 0
    busy_ms: int = 0
    slo_n: int = 0
    slo_ok: int = 0

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed

    @property
    def success(self) -> float | None:
        """The share of ended jobs that succeeded."""
        return self.succeeded / self.ended if self.ended else None

    @property
    def attained(self) -> float | None:
        """The share of jobs that succeeded within the target."""
        return self.slo_ok / self.slo_n if self.slo_n else None

    @property
    def arrivals(self) -> int:
        """Claims that were asked for: of new jobs, and of those that came back."""
        return self.enqueued + self.retries + self.released + self.lease_losses


class Slice(msgspec.Struct, frozen=True):
    """The gold tables over one period."""

    period: Period
    hourly: pa.Table
    latency: pa.Table
    failures: pa.Table
    usage: pa.Table

    def totals(self) -> Totals:
        return Totals(**{name: _sum(self.hourly[name]) for name in COUNTED})

    def totals_by(self, *columns: str) -> dict[Any, Totals]:
        """By one column, or by several as a tuple."""
        return {key: Totals(*sums) for key, sums in summed(self.hourly, columns, COUNTED)}

    def histograms(self, measure: str, *columns: str) -> dict[Any, Histogram]:
        """Durations of a measure by one column, or by several as a tuple."""
        found: dict[Any, Histogram] = {}
        for key, (n,) in summed(self._durations(measure), (*columns, "bucket"), ("n",)):
            *place, bucket = key
            found.setdefault(_single(tuple(place)), Histogram()).add(bucket, n)
        return found

    def histogram(self, measure: str) -> Histogram:
        return Histogram({key: n for key, (n,) in summed(self._durations(measure), ("bucket",), ("n",))})

    def usage_by(self, *columns: str) -> dict[Any, tuple[int, int]]:
        """Busy milliseconds and attempts."""
        return {key: (busy, attempts) for key, (busy, attempts) in summed(self.usage, columns, ("busy_ms", "attempts"))}

    def _durations(self, measure: str) -> pa.Table:
        return self.latency.filter(pc.equal(self.latency["measure"], measure))


class Gold(msgspec.Struct, frozen=True):
    """What a report is made from: a period, the one before, and what the lake says about itself."""

    now: Slice
    before: Slice
    first: datetime | None
    last: datetime | None
    version: int | None
    slo_ms: int


def read(lake: Path, period: Period | None, days: int, tenant: str | None) -> Gold:
    """The period asked for, else the newest `days` that the lake has, or all of a younger one."""
    tables = _tables(lake)
    hourly = tables["hourly"]
    first, last = (None, None) if hourly is None else _reach(hourly)
    asked = period or _newest(first, last, days)
    now, before = (
        Slice(part, **{name: _read(name, table, part, tenant) for name, table in tables.items()})
        for part in (asked, asked.before)
    )
    return Gold(now, before, first, last, None if hourly is None else hourly.version(), _slo_ms(hourly))


def _slo_ms(hourly: DeltaTable | None) -> int:
    """The objective that the lake was made with."""
    return int((hourly.metadata().configuration if hourly else {}).get(SLO, SLO_MS))


def summed(table: pa.Table, by: tuple[str, ...], columns: tuple[str, ...]) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Sums of some columns by others: the key, which is a tuple if there are several, and the sums in order."""
    found = table.group_by(list(by)).aggregate([(column, "sum") for column in columns])
    keys = zip(*(found[column].to_pylist() for column in by), strict=True)
    sums = zip(*(found[f"{column}_sum"].fill_null(0).to_pylist() for column in columns), strict=True)
    for key, one in zip(keys, sums, strict=True):
        yield _single(key), one


def _single(key: tuple[Any, ...]) -> Any:
    return key[0] if len(key) == 1 else key


def _sum(column: pa.ChunkedArray) -> int:
    return pc.sum(column).as_py() or 0


# The files


def _tables(lake: Path) -> dict[str, DeltaTable | None]:
    """The gold tables; None for one that has nothing yet."""
    try:
        known = {name: _opened(lake / "gold" / name) for name in TABLES}
        if not any(known.values()) and _opened(lake / "bronze" / "events") is None:
            raise InvalidValue(f"lake {str(lake)!r}: there is no lake; make one with `tenure lake sync --to {lake}`")
    except DeltaError as error:
        raise StoreCorrupt(f"the lake {lake} can't be read: {error}") from error
    return known


def _opened(folder: Path) -> DeltaTable | None:
    return DeltaTable(folder) if DeltaTable.is_deltatable(str(folder)) else None


def _reach(hourly: DeltaTable) -> tuple[datetime | None, datetime | None]:
    """The first and the last hour that there is, from the oldest and the newest day alone."""
    days = sorted({partition["day"] for partition in hourly.partitions()})
    if not days:
        return None, None
    ends = hourly.to_pyarrow_dataset().to_table(columns=["hour"], filter=pc.field("day").isin([days[0], days[-1]]))
    return pc.min(ends["hour"]).as_py(), pc.max(ends["hour"]).as_py()


def _newest(first: datetime | None, last: datetime | None, days: int) -> Period:
    """Up to the end of the newest hour, and not from before the first; a lake without one ends now."""
    end = (last or datetime.now(UTC).replace(minute=0, second=0, microsecond=0)) + HOUR
    since = end - timedelta(days=days)
    return Period(since if first is None else max(since, first), end)


def _read(name: str, table: DeltaTable | None, period: Period, tenant: str | None) -> pa.Table:
    schema = TABLES[name]
    if table is None:
        return schema.empty_table()
    data = table.to_pyarrow_dataset()
    missing = [column for column in ("day", *schema.names) if column not in data.schema.names]
    if missing:
        raise InvalidValue(f"gold.{name} has no column {missing[0]!r}: the lake was made by another version of Tenure")
    day, hour = pc.field("day"), pc.field("hour")
    wanted = (day >= f"{period.since:%Y-%m-%d}") & (day <= f"{period.until:%Y-%m-%d}")
    wanted &= (hour >= pa.scalar(period.since, TIME)) & (hour < pa.scalar(period.until, TIME))
    if tenant is not None:
        wanted &= pc.field("tenant") == tenant
    return data.to_table(columns=schema.names, filter=wanted).cast(schema)
