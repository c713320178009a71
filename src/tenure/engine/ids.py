"""Job ids: UUIDs of version 7, which grow with time and so keep a store's pages together."""

import os
import threading
import time

_BYTES = 8
_POOL = 512 * _BYTES

_lock = threading.Lock()
_last = 0
_random = b""


def uuid7() -> str:
    """A new id; those of one process come in order."""
    global _last, _random
    with _lock:
        # 48 bits of milliseconds, then 12 that count inside one: never twice the same, never backwards.
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        if len(_random) < _BYTES:
            _random = os.urandom(_POOL)
        chance, _random = int.from_bytes(_random[:_BYTES], "big"), _random[_BYTES:]
        stamp, count = _last >> 12, _last & 0xFFF
    text = f"{stamp << 80 | 7 << 76 | count << 64 | 2 << 62 | chance >> 2:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _forget() -> None:
    """A forked child must not give out its parent's random bytes."""
    global _random, _lock
    _random, _lock = b"", threading.Lock()


os.register_at_fork(after_in_child=_forget)
