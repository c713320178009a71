"""A report on a lake: one HTML file for whoever runs the queues.

    write_report("/var/lib/shop/lake", "report.html")

Reads the gold tables with `deltalake`: no Spark session, no Java. Needs the extra `spark`.
"""

import os
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tenure.domain.errors import InvalidValue
from tenure.domain.extras import Extra, needs

if find_spec("deltalake") is None:
    raise ImportError(needs("tenure.spark.report", Extra.SPARK))

from tenure.spark.report.drawing import echarts
from tenure.spark.report.page import Asked, Page
from tenure.spark.report.read import HOUR, Period, read

__all__ = ["write_report"]

DAYS = 7
LONGEST_DAYS = 366
TARGET_WAIT = 1.0


def write_report(
    lake: str | Path,
    out: str | Path,
    *,
    tenant: str | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    days: int | None = None,
    target_wait: float = TARGET_WAIT,
    tz: str = "UTC",
    now: datetime | None = None,
) -> Path:
    """Writes the report of a period beside the one before, and answers where it is.

    Without `since` and `until` it is the newest `days` that the lake has (7). Times without an offset are in `tz`, and
    the period is widened to whole UTC hours. `target_wait` is in seconds. The file is put in place whole or not at all.
    """
    zone = _zone(tz)
    if not 0 <= target_wait < float("inf"):
        raise InvalidValue(f"target wait {target_wait}: give a number of seconds")
    period = _period(_time("since", since, zone), _time("until", until, zone), days)
    program = echarts()
    gold = read(Path(lake), period, days or DAYS, tenant)
    asked = Asked(str(lake), zone, tz, target_wait, now or datetime.now(UTC), tenant)
    return _put(Path(out), Page(gold, asked).html(program))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidValue(f"time zone {name!r:.80}: give a name such as Europe/Berlin") from None


def _time(name: str, value: str | datetime | None, zone: ZoneInfo) -> datetime | None:
    """A time in UTC."""
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
        return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidValue(
            f"{name} {value!r:.80}: give a day or a time, as in 2026-11-02 or 2026-11-02T08:00"
        ) from None


def _period(since: datetime | None, until: datetime | None, days: int | None) -> Period | None:
    """What was asked for, in whole hours; None for the newest days."""
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise InvalidValue(f"days {days}: give a number from 1 to {LONGEST_DAYS}")
    if since is None and until is None:
        return None
    if since is not None and until is not None and days is not None:
        raise InvalidValue("since, until and days: give two of them at most")
    length = timedelta(days=days or DAYS)
    if since is None:
        assert until is not None
        start, end = until - length, until
    else:
        start, end = since, until or since + length
    if not timedelta(0) < end - start <= timedelta(days=LONGEST_DAYS):
        raise InvalidValue(
            f"from {start:%Y-%m-%d %H:%M} until {end:%Y-%m-%d %H:%M}: give an hour to {LONGEST_DAYS} days"
        )
    whole = _floor(end)
    return Period(_floor(start), whole if whole == end else whole + HOUR)


def _floor(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _put(out: Path, text: str) -> Path:
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(out)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InvalidValue(f"{out} can't be written: {error.strerror or error}") from None
    return out
