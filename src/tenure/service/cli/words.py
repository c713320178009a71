"""Times, rates and text as people read them."""

import re
from datetime import UTC, datetime

from tenure.domain.job import Failure
from tenure.domain.names import Ms
from tenure.domain.rate import Rate

CLIPPED = 80
"""Characters of a text that a table shows."""

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
_PERIODS = {1_000: "s", 60_000: "min", 3_600_000: "h", 86_400_000: "d"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def clean(text: str) -> str:
    """A text that can't do anything to a terminal or a table: no control characters, no halves of characters."""
    return _CONTROL.sub(" ", text).encode("utf-8", "replace").decode("utf-8")


def clip(text: str, most: int = CLIPPED) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def span(seconds: float) -> str:
    """A duration in its largest unit: `45 s`, `3 min`, `2 h`, `5 d`."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{max(seconds, 0):.0f} s"


def age(since: datetime, now: datetime) -> str:
    return span((now - since).total_seconds())


def moment(at: datetime | Ms) -> str:
    """A time in UTC, to the second."""
    value = datetime.fromtimestamp(at / 1_000, UTC) if isinstance(at, int) else at.astimezone(UTC)
    return value.strftime("%Y-%m-%d %H:%M:%SZ")


def rate_text(rate: Rate) -> str:
    """A rate as it is given: `100/s`, `5/min`, `10/30s`."""
    if rate.period in _PERIODS:
        return f"{rate.count}/{_PERIODS[rate.period]}"
    return f"{rate.count}/{rate.period / 1_000:g}s"


def failure_text(failure: Failure | None) -> str:
    if failure is None:
        return ""
    return f"{failure.family}: {failure.message}" if failure.message else failure.family


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size_text(size: float) -> str:
    """Bytes in a unit that keeps the number short: `12 KiB`, `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1_024:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1_024
    return f"{size:,.1f} TiB"
