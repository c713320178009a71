"""Retry policies: data on the job, computed by the worker, sent to the store as a duration."""

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Self

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.names import DAY, MINUTE, SECOND, Ms


class Curve(StrEnum):
    """How the delay grows with the attempt."""

    JITTERED = "jittered"
    """Full jitter under base·2^(attempt-1), never below base/2."""
    EXPONENTIAL = "exponential"
    """Exactly base·2^(attempt-1)."""
    DECORRELATED = "decorrelated"
    """Uniform between base and base·3^attempt."""
    LADDER = "ladder"
    """The steps as given, the last one repeated."""
    NONE = "none"
    """No delay."""


class RetryPolicy(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When an errored job may be claimed again. Times in milliseconds; `delay` clamps to 0..24 h.

    Checked when a job is made with it, not whenever one is read.
    """

    curve: Curve = Curve.JITTERED
    base: Ms = 5 * SECOND
    cap: Ms = 5 * MINUTE
    steps: tuple[Ms, ...] = ()

    def check(self) -> None:
        """Raises `InvalidValue` for a policy that makes no sense."""
        names.integer("retry base", self.base, 0, DAY)
        names.integer("retry cap", self.cap, 0, DAY)
        for step in self.steps:
            names.integer("retry step", step, 0, DAY)
        if self.base > self.cap:
            raise InvalidValue(f"retry base {self.base} is above its cap {self.cap}")
        if len(self.steps) > 64 or (self.curve is Curve.LADDER) != bool(self.steps):
            raise InvalidValue("retry steps: give 1 to 64 of them for a ladder, none otherwise")

    @classmethod
    def exponential(cls, *, base: Ms = 5 * SECOND, cap: Ms = 5 * MINUTE) -> Self:
        return cls(Curve.EXPONENTIAL, base, cap)

    @classmethod
    def jittered(cls, *, base: Ms = 5 * SECOND, cap: Ms = 5 * MINUTE) -> Self:
        return cls(Curve.JITTERED, base, cap)

    @classmethod
    def decorrelated(cls, *, base: Ms = SECOND, cap: Ms = MINUTE) -> Self:
        return cls(Curve.DECORRELATED, base, cap)

    @classmethod
    def ladder(cls, *steps: Ms) -> Self:
        return cls(Curve.LADDER, 0, DAY, steps or (MINUTE, 5 * MINUTE, 25 * MINUTE))

    @classmethod
    def none(cls) -> Self:
        return cls(Curve.NONE, 0, 0)

    def delay(self, attempt: int, uniform: Callable[[float, float], float]) -> Ms:
        """Milliseconds until attempt + 1, after `attempt` (counted from 1) failed. `uniform` is the only randomness."""
        return clamp_delay(math.ceil(self._wait(attempt, uniform)))

    def _wait(self, attempt: int, uniform: Callable[[float, float], float]) -> float:
        match self.curve:
            case Curve.NONE:
                return 0
            case Curve.LADDER:
                return self.steps[min(attempt, len(self.steps)) - 1]
            case Curve.EXPONENTIAL:
                return self._grown(2, attempt - 1)
            case Curve.JITTERED:
                return uniform(self.base / 2, max(self.base / 2, self._grown(2, attempt - 1)))
            case Curve.DECORRELATED:
                return uniform(self.base, max(self.base, self._grown(3, attempt)))

    def _grown(self, factor: int, times: int) -> Ms:
        # 64 doublings are past any cap; a larger exponent would only make a huge integer.
        return min(self.cap, self.base * int(factor ** min(times, 64)))


def clamp_delay(delay: Ms) -> Ms:
    """A retry's delay, within 0..24 h."""
    return max(0, min(DAY, delay))
