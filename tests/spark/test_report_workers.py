"""The slots that a queue needs: against known values of Erlang, and against a queue that is played through."""

import heapq
import math
import random
from collections.abc import Callable

import pytest

from tenure.spark.report.workers import Load, erlang_c, mean_wait, p95_wait, slots_needed


@pytest.mark.parametrize(
    ("slots", "offered", "waiting"),
    [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (3, 2.0, 4 / 9), (5, 4.0, 0.5541), (10, 8.0, 0.4092)],
)
def test_erlang_c_has_its_known_values(slots: int, offered: float, waiting: float) -> None:
    assert erlang_c(slots, offered) == pytest.approx(waiting, abs=5e-5)


def test_erlang_c_is_the_closed_formula() -> None:
    slots, offered = 7, 5.3
    top = offered**slots / math.factorial(slots) * slots / (slots - offered)
    assert erlang_c(slots, offered) == pytest.approx(
        top / (sum(offered**k / math.factorial(k) for k in range(slots)) + top)
    )


def test_one_slot_with_exponential_service() -> None:
    load = Load(per_second=0.8, service_seconds=1.0)
    assert mean_wait(1, load) == pytest.approx(4.0)
    assert p95_wait(1, load) == pytest.approx(math.log(0.8 / 0.05) / 0.2)


def test_equal_service_times_wait_half_as_long() -> None:
    equal, exponential = Load(0.8, 1.0, variability=0.0), Load(0.8, 1.0)
    assert mean_wait(1, equal) == pytest.approx(mean_wait(1, exponential) / 2)


def test_more_work_than_slots_waits_for_ever() -> None:
    assert erlang_c(2, 2.0) == 1.0
    assert p95_wait(2, Load(2.0, 1.0)) == math.inf


@pytest.mark.parametrize("target", [0.0, 0.1, 1.0, 60.0])
@pytest.mark.parametrize("load", [Load(0.01, 2.0), Load(3.0, 1.5, 4.0), Load(40.0, 0.2, 0.3), Load(500.0, 2.0)])
def test_the_answer_is_the_fewest_slots_that_do(load: Load, target: float) -> None:
    found = slots_needed(load, target)
    assert found.utilisation == pytest.approx(load.offered / found.slots)
    assert found.utilisation < 1
    assert found.p95_wait_seconds == pytest.approx(p95_wait(found.slots, load))
    assert found.p95_wait_seconds <= target
    assert found.slots == 1 or p95_wait(found.slots - 1, load) > target


def test_a_queue_without_work_needs_none() -> None:
    assert slots_needed(Load(0.0, 1.0), 1.0).slots == 0


def played(load: Load, slots: int, service: Callable[[random.Random], float], *, jobs: int = 60_000) -> list[float]:
    """The waits of jobs that arrive at random and are served in turn."""
    chance, now = random.Random(11), 0.0
    free = [0.0] * slots
    waits = []
    for _ in range(jobs):
        now += chance.expovariate(load.per_second)
        start = max(now, heapq.heappop(free))
        waits.append(start - now)
        heapq.heappush(free, start + service(chance))
    return sorted(waits)


def exponential(chance: random.Random) -> float:
    return chance.expovariate(0.5)


def equal(chance: random.Random) -> float:
    return 2.0


def heavy(chance: random.Random) -> float:
    """Mean 2, variability e - 1."""
    return chance.lognormvariate(math.log(2) - 0.5, 1.0)


@pytest.mark.parametrize(
    ("service", "variability", "off"), [(exponential, 1.0, 0.1), (equal, 0.0, 0.25), (heavy, math.e - 1, 0.25)]
)
def test_a_queue_that_is_played_through_waits_as_reckoned(
    service: Callable[[random.Random], float], variability: float, off: float
) -> None:
    load = Load(per_second=2.0, service_seconds=2.0, variability=variability)
    found = slots_needed(load, 2.0)
    waits = played(load, found.slots, service)
    assert sum(waits) / len(waits) == pytest.approx(mean_wait(found.slots, load), rel=off)
    assert waits[int(0.95 * len(waits))] == pytest.approx(found.p95_wait_seconds, rel=off)


def test_one_slot_fewer_misses_the_target() -> None:
    load = Load(per_second=2.0, service_seconds=2.0)
    slots = slots_needed(load, 2.0).slots
    enough, short = played(load, slots, exponential), played(load, slots - 1, exponential)
    assert enough[int(0.95 * len(enough))] <= 2.0 < short[int(0.95 * len(short))]
