"""Random numbers by the block: as good as one call each, at a tenth of its price."""

import math
from collections.abc import Callable
from itertools import chain
from typing import TypeVar

import numpy as np

from tenure.domain.names import Ms

T = TypeVar("T")

_BLOCK = 1 << 16


class Chance:
    """Draws from one seeded generator; the order of the draws is the order of the calls."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.uniform: Callable[[], float] = _endless(lambda: rng.random(_BLOCK).tolist())
        """From 0 to 1."""
        self.normal: Callable[[], float] = _endless(lambda: rng.standard_normal(_BLOCK).tolist())
        self.bits: Callable[[], int] = _endless(lambda: rng.integers(0, 1 << 62, _BLOCK).tolist())
        """62 of them."""

    def below(self, limit: int) -> int:
        return int(self.uniform() * limit)

    def lognormal(self, median: float, sigma: float) -> float:
        return median * math.exp(sigma * self.normal())

    def uuid7(self, at: Ms, count: int) -> str:
        """A job id as Tenure makes them: milliseconds, twelve bits that count inside one, and chance."""
        stamp, tail = f"{at:012x}", f"{2 << 62 | self.bits():016x}"
        return f"{stamp[:8]}-{stamp[8:]}-7{count & 0xFFF:03x}-{tail[:4]}-{tail[4:]}"


def _endless(block: Callable[[], list[T]]) -> Callable[[], T]:
    return chain.from_iterable(iter(block, [])).__next__
