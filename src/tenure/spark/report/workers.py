"""How many slots a queue needs so that its jobs wait no longer than is wanted.

The queue is taken for an M/G/c: jobs arrive at random (Poisson) at λ a second, c slots serve them in turn, and how long
they take is measured: its mean S and its squared coefficient of variation v. With the offered load a = λ·S:

    B(0) = 1,  B(c) = a·B(c-1) / (c + a·B(c-1))           Erlang B, by recursion
    C(c) = B(c) / (1 - (a/c)·(1 - B(c)))                  Erlang C: the share of jobs that wait at all
    w(c) = S / (c - a) · (1 + v) / 2                      mean wait of those that wait, after Allen and Cunneen
    P(W > t) = C(c)·exp(-t / w(c))                        so the p95 is w·ln(C / 0.05), and 0 where C ≤ 0.05

For exponential service times (v = 1) all of it is exact; otherwise the mean is Allen and Cunneen's approximation for
arrivals of variability 1, and the tail is taken to be exponential. The answer is the smallest c above a whose p95 is
within the target.
"""

import math
from itertools import count

import msgspec

LATE = 0.05
"""The share of jobs that may wait longer than the target."""


class Load(msgspec.Struct, frozen=True):
    """What arrives in a queue, and how long it takes."""

    per_second: float
    service_seconds: float
    variability: float = 1.0

    @property
    def offered(self) -> float:
        """Slots that would be busy on average, if there were enough of them."""
        return self.per_second * self.service_seconds


class Staffing(msgspec.Struct, frozen=True):
    """An answer: so many slots, how busy they would be, and how long jobs would wait."""

    slots: int
    utilisation: float
    p95_wait_seconds: float


def erlang_c(slots: int, offered: float) -> float:
    """The share of jobs that find all slots busy. 1 where the load is more than the slots can do."""
    if offered >= slots:
        return 1.0
    blocked = 1.0
    for c in range(1, slots + 1):
        blocked = offered * blocked / (c + offered * blocked)
    return _waiting(slots, offered, blocked)


def p95_wait(slots: int, load: Load) -> float:
    """In seconds; infinite where the load is more than the slots can do."""
    return _p95(slots, load, erlang_c(slots, load.offered))


def mean_wait(slots: int, load: Load) -> float:
    """Over all jobs, in seconds; infinite where the load is more than the slots can do."""
    waiting = erlang_c(slots, load.offered)
    return waiting * _mean_of_waiting(slots, load)


def slots_needed(load: Load, target_seconds: float) -> Staffing:
    """The fewest slots whose p95 wait is within the target."""
    if load.offered <= 0:
        return Staffing(0, 0.0, 0.0)
    blocked = 1.0
    for slots in count(1):
        blocked = load.offered * blocked / (slots + load.offered * blocked)
        if slots <= load.offered:
            continue
        wait = _p95(slots, load, _waiting(slots, load.offered, blocked))
        if wait <= target_seconds:
            return Staffing(slots, load.offered / slots, wait)
    raise AssertionError("unreachable: enough slots leave nobody waiting")


def _waiting(slots: int, offered: float, blocked: float) -> float:
    return blocked / (1 - offered / slots * (1 - blocked))


def _mean_of_waiting(slots: int, load: Load) -> float:
    if load.offered >= slots:
        return math.inf
    return load.service_seconds / (slots - load.offered) * (1 + load.variability) / 2


def _p95(slots: int, load: Load, waiting: float) -> float:
    return _mean_of_waiting(slots, load) * math.log(waiting / LATE) if waiting > LATE else 0.0
