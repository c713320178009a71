"""Retry policies (§7): the presets' exact delays, and their bounds."""

import random

import pytest

from tenure.domain.errors import InvalidValue
from tenure.domain.job import NewJob
from tenure.domain.names import DAY, MINUTE, SECOND
from tenure.domain.retry import Curve, RetryPolicy, clamp_delay

ID = "01900000-0000-7000-8000-000000000001"


def low(a: float, b: float) -> float:
    """The least a uniform choice can give."""
    assert a <= b
    return a


def high(a: float, b: float) -> float:
    """The most a uniform choice can give."""
    assert a <= b
    return b


def delays(policy: RetryPolicy, uniform: object = low, attempts: int = 8) -> list[int]:
    choose = high if uniform is high else low
    return [policy.delay(attempt, choose) for attempt in range(1, attempts + 1)]


def test_the_default_is_full_jitter_with_a_floor() -> None:
    policy = RetryPolicy()
    assert (policy.curve, policy.base, policy.cap) == (Curve.JITTERED, 5 * SECOND, 5 * MINUTE)
    assert set(delays(policy, low)) == {2_500}
    assert delays(policy, high) == [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]


def test_exponential_has_no_jitter() -> None:
    policy = RetryPolicy.exponential()
    assert delays(policy, low) == delays(policy, high)
    assert delays(policy) == [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]


def test_decorrelated() -> None:
    policy = RetryPolicy.decorrelated()
    assert set(delays(policy, low)) == {1_000}
    assert delays(policy, high) == [3_000, 9_000, 27_000, 60_000, 60_000, 60_000, 60_000, 60_000]


def test_none() -> None:
    assert set(delays(RetryPolicy.none(), high)) == {0}


def test_the_ladder_repeats_its_last_step() -> None:
    assert delays(RetryPolicy.ladder(), attempts=5) == [MINUTE, 5 * MINUTE, 25 * MINUTE, 25 * MINUTE, 25 * MINUTE]
    assert delays(RetryPolicy.ladder(7, 9), attempts=3) == [7, 9, 9]


def test_durations_are_rounded_up() -> None:
    assert RetryPolicy.jittered(base=5, cap=5).delay(1, low) == 3


@pytest.mark.parametrize("policy", [RetryPolicy(), RetryPolicy.exponential(), RetryPolicy.decorrelated()])
def test_a_huge_attempt_stays_below_the_cap(policy: RetryPolicy) -> None:
    assert policy.delay(1_000, high) == policy.cap


def test_every_delay_lies_within_a_day() -> None:
    rng = random.Random(7)
    for policy in (RetryPolicy(cap=DAY), RetryPolicy.exponential(cap=DAY), RetryPolicy.decorrelated(cap=DAY)):
        assert all(0 <= policy.delay(attempt, rng.uniform) <= DAY for attempt in range(1, 100))


def test_clamp() -> None:
    assert [clamp_delay(delay) for delay in (-1, 0, 5, DAY, DAY + 1)] == [0, 0, 5, DAY, DAY]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"base": -1}, "retry base"),
        ({"base": True}, "retry base"),
        ({"cap": DAY + 1}, "retry cap"),
        ({"base": 10, "cap": 9}, "retry base 10 is above its cap 9"),
        ({"curve": Curve.LADDER, "steps": (-1,)}, "retry step"),
        ({"curve": Curve.LADDER}, "retry steps"),
        ({"curve": Curve.LADDER, "steps": (1,) * 65}, "retry steps"),
        ({"steps": (1,)}, "retry steps"),
    ],
)
def test_a_job_with_a_bad_policy(fields: dict[str, object], named: str) -> None:
    policy = RetryPolicy(**fields)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InvalidValue, match=f"^{named}"):
        NewJob(tenant="acme", id=ID, queue="mail", job_type="send", payload=b"", retry=policy)
