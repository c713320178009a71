"""Durations as the lake keeps them for roll-ups: how many fell into each bucket of 2 % width.

Percentiles of hours can't be averaged into those of a week. Buckets can be added, and a percentile is read from the
sum, at most 1 % off the true value either way.
"""

from collections.abc import Iterable, Mapping

from tenure.spark.lake.schemas import BASE


def milliseconds(bucket: int) -> float:
    """The middle of a bucket. Bucket 0 is everything up to a millisecond."""
    return 1.0 if bucket <= 0 else BASE ** (bucket - 0.5)


class Histogram:
    """Counts by bucket."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts = dict(counts or {})

    def add(self, bucket: int, n: int) -> None:
        self.counts[bucket] = self.counts.get(bucket, 0) + n

    def __bool__(self) -> bool:
        return self.n > 0

    @property
    def n(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """The duration that this share of them doesn't exceed, in milliseconds; None where there are none."""
        wanted, seen = share * self.n, 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted and seen > 0:
                return milliseconds(bucket)
        return None

    def mean(self) -> float:
        """In milliseconds; 0 where there are none."""
        return self._moment(1)

    def variability(self) -> float:
        """Variance over squared mean: 0 where all are equal, 1 where they are exponential."""
        mean = self.mean()
        return max(self._moment(2) / mean**2 - 1, 0.0) if mean else 0.0

    def _moment(self, power: int) -> float:
        n = self.n
        return sum(count * milliseconds(bucket) ** power for bucket, count in self.counts.items()) / n if n else 0.0


def merged(parts: Iterable[Histogram]) -> Histogram:
    """All of them together."""
    whole = Histogram()
    for part in parts:
        for bucket, n in part.counts.items():
            whole.add(bucket, n)
    return whole
