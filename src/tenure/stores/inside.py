"""Whether the code that runs here is inside a transaction that a store gave it, and where that is.

A store with one writer at a time refuses a call that would wait for its own caller's transaction to end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class _Inside:
    """One transaction; a task that was started in it may outlive it."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.open = True


_HERE: ContextVar[_Inside | None] = ContextVar("tenure-transaction", default=None)


@contextmanager
def inside(place: str) -> Iterator[None]:
    """What runs in the block, and every task and thread that it starts, is inside until the block ends."""
    here = _Inside(place)
    before = _HERE.set(here)
    try:
        yield
    finally:
        here.open = False
        _HERE.reset(before)


def inside_at() -> str | None:
    """Where the transaction is that this code runs in; None outside of any."""
    here = _HERE.get()
    return here.place if here is not None and here.open else None
