"""Rates by GCRA, in integer microseconds. All a bucket stores is one number, its theoretical arrival time (TAT)."""

import msgspec

from tenure.domain import names
from tenure.domain.names import DAY, Ms


class Rate(msgspec.Struct, frozen=True, array_like=True):
    """At most `count` jobs per `period` milliseconds, evenly spaced."""

    count: int
    period: Ms

    def __post_init__(self) -> None:
        names.integer("rate count", self.count, 1, 1_000_000)
        names.integer("rate period", self.period, 1, DAY)


class Bucket(msgspec.Struct, frozen=True):
    """A rate that lets `burst` jobs through at once."""

    rate: Rate
    burst: int = 1

    @property
    def interval(self) -> int:
        """Microseconds between two jobs at the full rate."""
        return -(-self.rate.period * 1_000 // self.rate.count)

    def conforms_at(self, tat: int) -> int:
        """The first microsecond at which one more job conforms."""
        return tat - (self.burst - 1) * self.interval

    def conforms(self, tat: int, now: Ms) -> bool:
        return now * 1_000 >= self.conforms_at(tat)

    def spend(self, tat: int, now: Ms) -> int:
        """The TAT after one more job."""
        return max(tat, now * 1_000) + self.interval

    def wait(self, tat: int, now: Ms) -> Ms:
        """Milliseconds, rounded up, until one more job conforms."""
        return max(0, -(-(self.conforms_at(tat) - now * 1_000) // 1_000))
