"""What no codec may let through."""

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import astuple

from tenure.domain.errors import InvalidValue

MAX_DEPTH = 64

SMALLEST, LARGEST = -(1 << 63), (1 << 64) - 1

_PLAIN = frozenset({str, bytes, bool, type(None)})
"""Types with nothing to check: asked first, and exactly, for most of what is sent is one of them."""
_TEXTS = (str, bytes)
_NAMED = (msgspec.Struct, dict)
_COLLECTIONS = (list, tuple, set, frozenset)


def is_flat(value: dict[Any, Any]) -> bool:
    """Whether all is plain, as in most payloads: then there is nothing to check. A body took 0.54 µs, now 0.21."""
    for name, content in value.items():
        kind = type(content)
        if type(name) is not str or not (kind in _PLAIN or (kind is int and SMALLEST <= content <= LARGEST)):
            return False
    return True


def is_plain(values: Iterable[Any]) -> bool:
    """Whether there is nothing to check in any of these."""
    for content in values:
        kind = type(content)
        if not (kind in _PLAIN or (kind is int and SMALLEST <= content <= LARGEST)):
            return False
    return True


def check(value: Any, depth: int = 1) -> None:
    """Refuses nesting beyond 64 levels, and numbers that no other reader understands."""
    if depth > MAX_DEPTH:
        raise InvalidValue(f"payload: nested deeper than {MAX_DEPTH} levels")
    if not isinstance(value, _NAMED):
        if type(value) in _PLAIN or isinstance(value, _TEXTS):
            return
        if isinstance(value, int):
            if not SMALLEST <= value <= LARGEST:
                raise InvalidValue("payload: an integer beyond 64 bits would be rounded elsewhere; send it as a string")
            return
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidValue(f"payload: {value} isn't a JSON number; send None or a string instead")
            return
    for content in _contents(value):
        kind = type(content)
        if depth == MAX_DEPTH or not (kind in _PLAIN or (kind is int and SMALLEST <= content <= LARGEST)):
            check(content, depth + 1)


def _contents(value: Any) -> Iterable[Any]:
    if isinstance(value, msgspec.Struct):
        return astuple(value)
    if isinstance(value, dict):
        return chain(value, value.values())
    if isinstance(value, _COLLECTIONS):
        return value
    if hasattr(value, "__dataclass_fields__"):
        return (getattr(value, field) for field in value.__dataclass_fields__)
    return ()
