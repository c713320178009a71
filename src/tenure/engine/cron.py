"""Times by cron expression, in a time zone.

Expressions are those of Debian's cron: five fields, or six with seconds first. Where the clocks change, a job at a
fixed time runs once: at the first instant after a gap that swallowed its time, and at the first of two equal times. One
that runs every hour, or every few minutes, follows the time that really passes.
"""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from tenure.domain.errors import InvalidValue
from tenure.domain.names import MINUTE, SECOND, Ms

FIRST_SPAN: Ms = 2 * MINUTE
"""How far back the newest ticks are looked for first; four times further each time they aren't all there."""


class Cron:
    """A cron expression in a time zone. Raises `InvalidValue` for one that can't be understood or never comes."""

    def __init__(self, expression: str, tz: str) -> None:
        self._expression = expression
        self._zone = zone(tz)
        try:
            first = self.following(0)
        except (CronSimError, ValueError) as error:
            raise InvalidValue(
                f"cron {expression!r:.80}: {error}; give minute hour day month weekday, such as '0 3 * * *'"
            ) from None
        if first is None:
            raise InvalidValue(f"cron {expression!r:.80}: no such time ever comes; check its day and month")

    def after(self, instant: Ms) -> Iterator[Ms]:
        """Every tick after an instant, each later than the one before."""
        start = datetime.fromtimestamp(instant // SECOND, self._zone)
        last = instant
        try:
            for moment in CronSim(self._expression, start):
                tick = int(moment.timestamp()) * SECOND
                if tick > last:  # cronsim gives the first of two equal times again to who starts in between
                    last = tick
                    yield tick
        except OverflowError:
            return  # past the year 9999

    def following(self, instant: Ms) -> Ms | None:
        """The first tick after an instant."""
        return next(self.after(instant), None)

    def newest(self, after: Ms, until: Ms, most: int) -> list[Ms]:
        """The last ticks, `most` at most, after `after` and up to `until`; oldest first."""
        span = FIRST_SPAN
        while True:
            start = max(after, until - span)
            found = deque(takewhile(lambda tick: tick <= until, self.after(start)), most)
            if start == after or len(found) == most:
                return list(found)
            span *= 4


@lru_cache(maxsize=1_024)
def cron(expression: str, tz: str) -> Cron:
    """The same one for the same expression: to make one costs more than to ask it."""
    return Cron(expression, tz)


def zone(tz: str) -> tzinfo:
    """A time zone by name."""
    if tz == "UTC":
        return UTC
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise InvalidValue(
            f"tz {tz!r:.80}: not known here; give a name such as 'Europe/Rome', and install tzdata if it is one"
        ) from None
