"""Durations as users give them, in seconds, and as everything below keeps them, in milliseconds."""

import math
import re
from datetime import datetime, timedelta

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.names import Ms
from tenure.domain.rate import Rate
from tenure.domain.retry import RetryPolicy

Seconds = float | timedelta
"""A duration: a number of seconds, or a timedelta."""

_PERIODS = {"s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RATE = re.compile(r"(\d+)\s*/\s*(\d*)\s*(s|min|m|h|d)")


def milliseconds(field: str, value: Seconds) -> Ms:
    """Rounded up: a shorter wait than asked for would break a promise."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidValue(f"{field} {value!r:.80}: give a number of seconds or a timedelta")
    if not 0 <= seconds * 1_000 <= names.MAX_DURATION:
        raise InvalidValue(f"{field} {value!r:.80}: give 0 to {names.MAX_DURATION // 1_000} seconds")
    return math.ceil(round(seconds * 1_000, 6))


def optional_ms(field: str, value: Seconds | None) -> Ms | None:
    return None if value is None else milliseconds(field, value)


def instant(field: str, value: datetime) -> Ms:
    """A time, in milliseconds since the Unix epoch. A naive datetime is refused: nobody knows where it was meant."""
    if not isinstance(value, datetime):
        raise InvalidValue(f"{field} {value!r:.80}: give a datetime")
    if value.tzinfo is None:
        raise InvalidValue(f"{field} {value}: it has no time zone; give datetime(..., tzinfo=...)")
    return names.instant(field, math.floor(value.timestamp() * 1_000))


def rate(field: str, value: str) -> Rate:
    """`"100/s"`, `"5/min"`, `"10/30s"`: so many jobs in such a period."""
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise InvalidValue(f"{field} {value!r:.80}: give a rate such as '100/s', '5/min' or '10/30s'")
    count, number, unit = found.groups()
    return Rate(int(count), int(number or 1) * _PERIODS[unit])


class Backoff:
    """Retry policies, in seconds. The default is `Backoff.jittered(base=5, cap=300)`."""

    @staticmethod
    def jittered(base: Seconds = 5, cap: Seconds = 300) -> RetryPolicy:
        """Anywhere from base/2 up to base·2^(attempt-1): many jobs that failed together don't come back together."""
        return _checked(RetryPolicy.jittered(base=milliseconds("base", base), cap=milliseconds("cap", cap)))

    @staticmethod
    def exponential(base: Seconds = 5, cap: Seconds = 300) -> RetryPolicy:
        """base·2^(attempt-1), without jitter."""
        return _checked(RetryPolicy.exponential(base=milliseconds("base", base), cap=milliseconds("cap", cap)))

    @staticmethod
    def decorrelated(base: Seconds = 1, cap: Seconds = 60) -> RetryPolicy:
        """Anywhere from base up to base·3^attempt."""
        return _checked(RetryPolicy.decorrelated(base=milliseconds("base", base), cap=milliseconds("cap", cap)))

    @staticmethod
    def ladder(*steps: Seconds) -> RetryPolicy:
        """These delays one after the other, the last one repeated; without any: 1, 5, 25 minutes."""
        return _checked(RetryPolicy.ladder(*(milliseconds("step", step) for step in steps)))

    @staticmethod
    def none() -> RetryPolicy:
        """At once."""
        return RetryPolicy.none()


def _checked(policy: RetryPolicy) -> RetryPolicy:
    policy.check()
    return policy
