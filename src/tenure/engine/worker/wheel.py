"""One timer for all deadlines: leases that end and handlers that take too long."""

import asyncio
import heapq
from itertools import count

from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Ending, Hand, Hands

LONGEST_SLEEP = 60.0
"""A suspended machine stops the loop's clock but not a lease's: it is looked at again at least so often."""
SPARE = 1_000
"""Entries of ended jobs that may stay: most end long before their deadline, and keeping them all would add up."""


class Wheel:
    """Ends handlers whose lease or time is up. A timer per job would cost more than running a short one."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._heap: list[tuple[float, int, Hand]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def add(self, hand: Hand) -> None:
        if len(self._heap) > 2 * len(self._hands) + SPARE:
            self._heap = [entry for entry in self._heap if not _ended(entry[2])]
            heapq.heapify(self._heap)
        self._push(hand)
        self._arm()

    def _push(self, hand: Hand) -> None:
        heapq.heappush(self._heap, (min(hand.deadline, hand.timeout_at), next(self._order), hand))

    def _arm(self) -> None:
        if self._heap and self._heap[0][0] < self._next:
            self._cancel()
            self._next = self._heap[0][0]
            delay = min(LONGEST_SLEEP, max(0.0, self._next - boottime()))
            self._timer = asyncio.get_running_loop().call_later(delay, self._turn)

    def _turn(self) -> None:
        self._cancel()
        now = boottime()
        while self._heap and self._heap[0][0] <= now:
            _, _, hand = heapq.heappop(self._heap)
            if _ended(hand):
                continue
            if hand.deadline <= now:
                hand.end(Ending.LOST)
            elif hand.timeout_at <= now:
                hand.end(Ending.TIMEOUT)
                heapq.heappush(self._heap, (hand.deadline, next(self._order), hand))
            else:
                self._push(hand)
        self._arm()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next = None, float("inf")

    def close(self) -> None:
        self._cancel()
        self._heap.clear()


def _ended(hand: Hand) -> bool:
    return hand.task is None or hand.task.done()
