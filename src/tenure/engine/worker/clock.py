"""The clock that leases are watched on: it doesn't stop while the machine sleeps, and never goes back."""

import time
from collections.abc import Callable
from functools import partial

boottime: Callable[[], float] = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds, from some start."""
