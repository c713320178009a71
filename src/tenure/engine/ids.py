"""Job ids: UUIDs of version 7, which grow with time and so keep a store's pages together."""

import os
import threading
import time
from functools import cache

_DIGITS = 16
_OCTETS = _DIGITS // 2
_POOL = 512 * _DIGITS
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_VARIANTS = bytes(octet & 0x3F | 0x80 for octet in range(256))
"""The same for whole octets."""

_lock = threading.Lock()
_last = 0
_stamp = (0, "")
_random = ""
_used = 0


def uuid7() -> str:
    """A new id; those of one process come in order."""
    global _last, _stamp, _random, _used
    with _lock:
        # 48 bits of milliseconds, then 12 that count inside one: never twice the same, never backwards.
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        milliseconds = _last >> 12
        if milliseconds != _stamp[0]:
            _stamp = milliseconds, f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}"
        if _used == len(_random):
            _random, _used = os.urandom(_POOL // 2).hex(), 0
        first, chance = _random[_used], _random[_used + 1 : _used + _DIGITS]
        _used += _DIGITS
        return f"{_stamp[1]}-7{_last & 0xFFF:03x}-{_VARIANT[first]}{chance[:3]}-{chance[3:]}"


def uuid7s(count: int) -> list[str]:
    """So many at once, in less than half the time."""
    global _last
    with _lock:
        first = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        _last = first + count - 1
    octets = bytearray(os.urandom(count * _OCTETS))
    octets[::_OCTETS] = octets[::_OCTETS].translate(_VARIANTS)
    chances = octets.hex()
    found: list[str] = []
    at = 0
    while at < count:  # once for every millisecond
        milliseconds, number = divmod(first + at, 1 << 12)
        stamp = f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7"
        counts = _counts()[number : number + count - at]
        places = range(at * _DIGITS, count * _DIGITS, _DIGITS)
        found += [
            f"{stamp}{own}{chances[place : place + 4]}-{chances[place + 4 : place + _DIGITS]}"
            for own, place in zip(counts, places, strict=False)
        ]
        at += len(counts)
    return found


@cache
def _counts() -> list[str]:
    """What stands for the number of an id inside its millisecond."""
    return [f"{number:03x}-" for number in range(1 << 12)]


def _forget() -> None:
    """A forked child must not give out its parent's random bytes."""
    global _random, _used, _lock
    _random, _used, _lock = "", 0, threading.Lock()


os.register_at_fork(after_in_child=_forget)
