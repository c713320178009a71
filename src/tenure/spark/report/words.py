"""Numbers, durations, times and changes as a report says them."""

from datetime import datetime, timedelta, tzinfo

import msgspec

NOTHING = "–"

_UNITS = ((1_000, "ms"), (60_000, "s"), (3_600_000, "min"), (86_400_000, "h"))
_SIZES = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Span(msgspec.Struct, frozen=True):
    """How the period is called: `this week`, `the week before`."""

    this: str
    before: str


def span(length: timedelta) -> Span:
    hours = length // timedelta(hours=1)
    if hours == 168:
        return Span("this week", "the week before")
    if hours == 1:
        return Span("this hour", "the hour before")
    long = f"{hours // 24} days" if hours % 24 == 0 and hours > 24 else f"{hours} hours"
    return Span(f"these {long}", f"the {long} before")


def count(value: float) -> str:
    """`1,234`, and from a million on `1.23 M`."""
    if value >= 1_000_000_000:
        return f"{value / 1_000_000_000:.2f} G"
    return f"{value / 1_000_000:.2f} M" if value >= 1_000_000 else f"{value:,.0f}"


def number(value: float) -> str:
    """A measured quantity, to about three digits."""
    if value >= 99.95:
        return f"{value:,.0f}"
    if 0 < value < 0.01:
        return "< 0.01"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value else "0"


def duration(milliseconds: float | None) -> str:
    """In its largest unit: `12 ms`, `1.4 s`, `3.2 min`."""
    if milliseconds is None:
        return NOTHING
    unit = next((unit for limit, unit in _UNITS if milliseconds < limit), "d")
    value = milliseconds / _SIZES[unit]
    return f"{value:.0f} {unit}" if unit == "ms" or value >= 99.5 else f"{value:.3g} {unit}"


def hours(milliseconds: float) -> str:
    return f"{number(milliseconds / 3_600_000)} h"


def seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1_000:,.0f}"


def percent(share: float | None) -> str:
    """With more digits near the ends, where they matter; never rounded to all or nothing that it isn't."""
    if share is None:
        return NOTHING
    if share in (0, 1):
        return f"{share:.0%}".replace("%", " %")
    digits = 0 if 0.1 <= share <= 0.9 else 1 if 0.01 <= share <= 0.99 else 2
    value = min(max(share * 100, 0.01), 99.99)
    return f"{value:.{digits}f} %"


def moment(at: datetime, zone: tzinfo) -> str:
    """`Mon 3 Nov 14:00`."""
    local = at.astimezone(zone)
    return f"{local:%a} {local.day} {local:%b %H:%M}"


def dated(at: datetime, zone: tzinfo) -> str:
    """`Mon 3 Nov 2026, 14:00`."""
    return f"{day(at, zone)}, {at.astimezone(zone):%H:%M}"


def day(at: datetime, zone: tzinfo) -> str:
    """`Mon 3 Nov 2026`."""
    local = at.astimezone(zone)
    return f"{local:%a} {local.day} {local:%b %Y}"


def change(now: float | None, before: float | None) -> str:
    """`+12 %`, `×3.4`, `new`, `gone`; what is the same to the per cent is `±0 %`."""
    if now is None or before is None or now == before == 0:
        return NOTHING
    if before == 0 or now == 0:
        return "new" if before == 0 else "gone"
    ratio = now / before
    if ratio >= 2:
        return f"×{ratio:.3g}" if ratio < 1_000 else f"×{ratio:,.0f}"
    return f"{ratio - 1:+.0%}".replace("%", " %").replace("+0 ", "±0 ").replace("-0 ", "±0 ").replace("-", "−")


def points(now: float | None, before: float | None) -> str:
    """The difference of two shares: `−0.4 points`."""
    if now is None or before is None:
        return NOTHING
    difference = (now - before) * 100
    shown = f"{difference:+.1f}" if abs(difference) >= 0.05 or difference == 0 else f"{difference:+.2f}"
    return "±0 points" if float(shown) == 0 else f"{shown} points".replace("-", "−")
