"""The JSON codec: any JSON value, nothing that another reader would understand differently.

Refused at the door, because they break later and elsewhere: NaN and infinities (not JSON), nesting beyond 64 levels
(overruns parsers), integers beyond 64 bits (silently rounded by others), payloads beyond 256 KiB.
"""

import math
from typing import Any

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue

NAME = "json"
MAX_DEPTH = 64

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode(value: Any) -> bytes:
    """A payload's bytes. Raises `InvalidValue` that names what can't be sent."""
    _check(value, 1)
    try:
        body = _encode(value)
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise InvalidValue(f"payload: {error}") from error
    return names.size("payload", body, names.MAX_PAYLOAD)


def decode(body: bytes) -> Any:
    """The value of a payload; a poisonous one raises `InvalidValue`, never anything else."""
    names.size("payload", body, names.MAX_PAYLOAD)
    try:
        value = _decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidValue(f"payload: {error}") from error
    _check(value, 1)
    return value


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidValue(f"payload: nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidValue(f"payload: {value} isn't a JSON number; send None or a string instead")
    if isinstance(value, dict):
        for content in value.values():
            _check(content, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for content in value:
            _check(content, depth + 1)
