"""GCRA (§11): intervals, bursts and waits, in integer microseconds."""

import pytest

from tenure.domain.errors import InvalidValue
from tenure.domain.names import DAY, MINUTE, SECOND
from tenure.domain.rate import Bucket, Rate


@pytest.mark.parametrize(
    ("count", "period", "interval"),
    [(1, SECOND, 1_000_000), (10, SECOND, 100_000), (3, SECOND, 333_334), (7, 1, 143), (1_000_000, 1, 1)],
)
def test_the_interval_is_rounded_up(count: int, period: int, interval: int) -> None:
    assert Bucket(Rate(count, period)).interval == interval


def test_without_burst_jobs_are_spaced() -> None:
    bucket = Bucket(Rate(10, SECOND))
    tat = bucket.spend(0, 1_000)
    assert tat == 1_100_000
    assert not bucket.conforms(tat, 1_099)
    assert bucket.conforms(tat, 1_100)
    assert (bucket.wait(tat, 1_000), bucket.wait(tat, 1_099), bucket.wait(tat, 1_100)) == (100, 1, 0)


def test_a_burst_conforms_at_once() -> None:
    bucket = Bucket(Rate(10, SECOND), burst=3)
    tat = 0
    for _ in range(3):
        assert bucket.conforms(tat, 1_000)
        tat = bucket.spend(tat, 1_000)
    assert not bucket.conforms(tat, 1_099)
    assert bucket.conforms(tat, 1_100)


def test_time_unused_isnt_saved_beyond_the_burst() -> None:
    bucket = Bucket(Rate(1, MINUTE), burst=2)
    tat = bucket.spend(0, DAY)
    assert tat == (DAY + MINUTE) * 1_000


def test_an_unused_bucket_conforms() -> None:
    assert Bucket(Rate(1, DAY)).conforms(0, 0)


def test_waits_are_rounded_up() -> None:
    bucket = Bucket(Rate(3, SECOND))
    assert bucket.wait(bucket.spend(0, 0), 0) == 334


@pytest.mark.parametrize("seconds", [1, 10])
def test_over_time_the_rate_holds(seconds: int) -> None:
    bucket, tat, given = Bucket(Rate(7, SECOND), burst=2), 0, 0
    for now in range(seconds * SECOND):
        while bucket.conforms(tat, now):
            tat, given = bucket.spend(tat, now), given + 1
    assert 7 * seconds <= given <= 7 * seconds + 2


@pytest.mark.parametrize(
    ("count", "period", "named"),
    [(0, SECOND, "rate count"), (-1, SECOND, "rate count"), (True, SECOND, "rate count"), (1, 0, "rate period")],
)
def test_bad_rates(count: int, period: int, named: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{named}"):
        Rate(count, period)


def test_a_period_is_at_most_a_day() -> None:
    with pytest.raises(InvalidValue, match=r"^rate period"):
        Rate(1, DAY + 1)
