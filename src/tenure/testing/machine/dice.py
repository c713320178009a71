"""Choices from one drawn number.

Hypothesis draws one small integer a step (each further draw would cost more than a memory store's whole call); every
choice of the step is made from it here, so a step is replayed from its name and its number.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SPAN = 2**24
"""How many different numbers a step can be given; Hypothesis draws evenly up to here, unevenly above."""


class Dice:
    """A seeded source of choices, rolled anew for each step."""

    def __init__(self) -> None:
        self._random = random.Random(0)

    def roll(self, number: int) -> "Dice":
        """Makes every later choice follow from `number`."""
        self._random.seed(number)
        return self

    def chance(self, percent: float) -> bool:
        return self._random.random() * 100 < percent

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """One of [(weight, option)]."""
        point = self._random.random() * sum(weight for weight, _ in options)
        for weight, option in options:
            point -= weight
            if point < 0:
                return option
        return options[-1][1]

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Up to `most` different options, in random order."""
        return self._random.sample(options, min(most, len(options)))

    def recent(self, options: Sequence[T]) -> T:
        """One of `options`, the last ones more often."""
        return options[int(len(options) * self._random.random() ** 0.5)]
