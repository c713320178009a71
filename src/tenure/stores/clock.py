"""The host's clock, for the stores that have no server to ask."""

import time

from tenure.domain.names import Ms


def system_clock() -> Ms:
    """Milliseconds since the Unix epoch, floored."""
    return time.time_ns() // 1_000_000
