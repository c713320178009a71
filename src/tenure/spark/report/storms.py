"""Retry storms: hours in which a job type was retried far more than it usually is."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from statistics import median

import msgspec
import pyarrow.compute as pc

from tenure.spark.report.read import HOUR, Slice, Totals

ENOUGH = 20
"""Attempts started, and retries, that an hour must have to be judged."""

SHARE = 0.2
TIMES = 3.0
"""A storm has this many retries for each attempt started, and this many times what is usual for the type."""


class Storm(msgspec.Struct, frozen=True):
    """Hours on end. `usual` and `share` are retries for each attempt started."""

    job_type: str
    since: datetime
    until: datetime
    started: int
    retries: int
    usual: float
    families: tuple[str, ...]

    @property
    def share(self) -> float:
        return self.retries / self.started


def storms(now: Slice, before: Slice) -> list[Storm]:
    """Those of the period, the worst first. What is usual is the median hour of both periods."""
    earlier = before.totals_by("job_type", "hour")
    hours = now.totals_by("job_type", "hour")
    found = []
    for name in sorted({name for name, _ in hours}):
        mine = {hour: row for (owner, hour), row in hours.items() if owner == name}
        usual = _usual([*mine.values(), *(row for (owner, _), row in earlier.items() if owner == name)])
        stormy = sorted(hour for hour, row in mine.items() if _is_storm(row, usual))
        found += [_storm(name, stretch, mine, usual, now) for stretch in _stretches(stormy)]
    return sorted(found, key=lambda storm: (-storm.retries, storm.since, storm.job_type))


def _usual(rows: Iterable[Totals]) -> float:
    return median([row.retries / row.started for row in rows if row.started >= ENOUGH] or [0.0])


def _is_storm(row: Totals, usual: float) -> bool:
    if min(row.started, row.retries) < ENOUGH:
        return False
    return row.retries / row.started >= max(SHARE, TIMES * usual)


def _stretches(hours: list[datetime]) -> list[list[datetime]]:
    """Hours on end; one quiet hour between doesn't part them."""
    found: list[list[datetime]] = []
    for hour in hours:
        if found and hour - found[-1][-1] <= 2 * HOUR:
            found[-1].append(hour)
        else:
            found.append([hour])
    return found


def _storm(name: str, stretch: list[datetime], rows: dict[datetime, Totals], usual: float, now: Slice) -> Storm:
    since, until = stretch[0], stretch[-1] + HOUR
    families: Counter[str] = Counter()
    for row in now.failures.filter(pc.equal(now.failures["job_type"], name)).to_pylist():
        if since <= row["hour"] < until:
            families[row["error_family"]] += row["n"]
    return Storm(
        job_type=name,
        since=since,
        until=until,
        started=sum(rows[hour].started for hour in stretch),
        retries=sum(rows[hour].retries for hour in stretch),
        usual=usual,
        families=tuple(family for family, _ in families.most_common(3)),
    )
