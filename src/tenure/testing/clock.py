"""A clock that tests move by hand: no test sleeps."""

from tenure.domain.names import Ms

START: Ms = 1_800_000_000_000
"""An arbitrary instant, 15 January 2027 08:00 UTC."""


class ManualClock:
    """A store clock that stands still until it is told to move; it may be moved backwards."""

    def __init__(self, now: Ms = START) -> None:
        self.now = now

    def __call__(self) -> Ms:
        return self.now

    def advance(self, by: Ms) -> None:
        self.now += by
