"""One timer for all deadlines: leases that end and handlers that take too long."""

import asyncio

from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Ending, Hand, Hands

LONGEST_SLEEP = 60.0
"""A suspended machine stops the loop's clock but not a lease's: it is looked at again at least so often."""


class Wheel:
    """Ends handlers whose lease or time is up. A timer per job would cost more than running a short one.

    It keeps nothing but the time of its next turn, at which it looks at all that are in hand: most jobs end long
    before their deadline, and are gone by then.
    """

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def add(self, hand: Hand) -> None:
        when = min(hand.deadline, hand.timeout_at)
        if when < self._next:
            self._arm(when)

    def _arm(self, when: float) -> None:
        self.close()
        self._next = when
        delay = min(LONGEST_SLEEP, max(0.0, when - boottime()))
        self._timer = asyncio.get_running_loop().call_later(delay, self._turn)

    def _turn(self) -> None:
        now = boottime()
        upcoming = min((self._looked_at(hand, now) for hand in self._hands), default=float("inf"))
        self.close()
        if upcoming < float("inf"):
            self._arm(upcoming)

    @staticmethod
    def _looked_at(hand: Hand, now: float) -> float:
        """Ends a handler that is late; when it is to be looked at next."""
        deadline = hand.deadline
        if deadline <= now:
            hand.end(Ending.LOST)
            return float("inf")
        if hand.timeout_at <= now:
            hand.end(Ending.TIMEOUT)
            return deadline
        return min(deadline, hand.timeout_at)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next = None, float("inf")
