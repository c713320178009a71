"""Job ids as producers should make them: UUIDs of version 7, which keep new rows together on disk."""

import os
import time


class Uuid7:
    """Ids that only grow: 48 bits of milliseconds, then a counter that starts at random in each millisecond."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> str:
        fresh = (time.time_ns() // 1_000_000) << 74 | int.from_bytes(os.urandom(9), "big") & ((1 << 73) - 1)
        self._last = max(fresh, self._last + 1)
        return _text(self._last)


def _text(number: int) -> str:
    """48 bits of time, 12 and 62 bits that count on, around the fixed bits of version and variant."""
    time_part, rest = number >> 74, number & ((1 << 74) - 1)
    value = time_part << 80 | 7 << 76 | (rest >> 62) << 64 | 2 << 62 | rest & ((1 << 62) - 1)
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


uuid7 = Uuid7()
