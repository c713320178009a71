"""The clock that leases are watched on: it doesn't stop while the machine sleeps, and never goes back."""

import time


def boottime() -> float:
    """Seconds, from some start."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
