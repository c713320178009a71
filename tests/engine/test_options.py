"""Durations, rates and retry policies as users write them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import Backoff, InvalidValue, Priority, Tenure
from tenure.domain.rate import Rate
from tenure.domain.retry import Curve, RetryPolicy
from tenure.engine.durations import instant, milliseconds, rate


@pytest.mark.parametrize(
    ("given", "ms"),
    [(0, 0), (1, 1_000), (0.0001, 1), (0.1 + 0.2, 300), (1.0005, 1_001), (timedelta(seconds=1, microseconds=1), 1_001)],
)
def test_seconds_become_milliseconds_rounded_up(given: Any, ms: int) -> None:
    assert milliseconds("delay", given) == ms


@pytest.mark.parametrize(
    "given", [-0.001, timedelta(seconds=-1), float("nan"), float("inf"), True, "5", None, 1e300, timedelta.max]
)
def test_what_is_no_duration_is_refused(given: Any) -> None:
    with pytest.raises(InvalidValue, match="delay "):
        milliseconds("delay", given)


def test_a_time_needs_its_zone() -> None:
    assert instant("run_at", datetime(1970, 1, 2, tzinfo=UTC)) == 86_400_000
    for given in (datetime(2027, 1, 1), "2027-01-01", 5, datetime.max.replace(tzinfo=UTC).date()):  # noqa: DTZ001
        with pytest.raises(InvalidValue, match="run_at"):
            instant("run_at", given)  # type: ignore[arg-type]  # the subject of the test


@pytest.mark.parametrize(
    ("text", "count", "period"),
    [
        ("100/s", 100, 1_000),
        ("5/min", 5, 60_000),
        ("5/m", 5, 60_000),
        ("10/30s", 10, 30_000),
        (" 1 / 2 h ", 1, 7_200_000),
    ],
)
def test_a_rate_is_so_many_in_such_a_time(text: str, count: int, period: int) -> None:
    assert rate("rate", text) == Rate(count, period)


@pytest.mark.parametrize("given", ["", "5", "5/", "/s", "5/y", "-5/s", "0/s", "1.5/s", 5, None, "5/0s"])
def test_what_is_no_rate_is_refused(given: Any) -> None:
    with pytest.raises(InvalidValue, match="rate"):
        rate("rate", given)


def test_policies_are_in_seconds() -> None:
    assert Backoff.exponential(base=2, cap=60) == RetryPolicy(Curve.EXPONENTIAL, 2_000, 60_000)
    assert Backoff.jittered() == RetryPolicy()
    assert Backoff.decorrelated() == RetryPolicy(Curve.DECORRELATED, 1_000, 60_000)
    assert Backoff.ladder(1, timedelta(minutes=1)).steps == (1_000, 60_000)
    assert Backoff.ladder().steps == (60_000, 300_000, 1_500_000)
    assert Backoff.none().delay(1, lambda low, high: high) == 0


def test_a_policy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidValue, match="retry base 10000 is above its cap 5000"):
        Backoff.exponential(base=10, cap=5)
    with pytest.raises(InvalidValue, match="base -1"):
        Backoff.jittered(base=-1)
    with pytest.raises(InvalidValue, match="retry step"):
        Backoff.ladder(timedelta(days=2))
    with pytest.raises(InvalidValue, match="retry steps"):
        Backoff.ladder(*range(65))


async def test_a_named_priority_is_its_number(app: Tenure) -> None:
    @app.job(priority=Priority.HIGH)
    async def work() -> None: ...

    assert (await (await work.enqueue()).get()).priority == 50
    assert (await (await work.options(priority=lambda: Priority.LOWEST).enqueue()).get()).priority == -100
