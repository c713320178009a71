"""The JSON codec: any JSON value, nothing that another reader would understand differently.

Refused at the door, because they break later and elsewhere: NaN and infinities (not JSON), nesting beyond 64 levels
(overruns parsers), integers beyond 64 bits (silently rounded by others), bodies beyond 256 KiB.
"""

from functools import lru_cache
from typing import Any

import msgspec

from tenure.codecs.checks import check
from tenure.domain import names
from tenure.domain.errors import InvalidValue

NAME = "json"

_encode = msgspec.json.Encoder().encode


class JsonCodec:
    """JSON, with msgspec's types: structs, dataclasses, datetimes, UUIDs, decimals, enums; bytes as base64."""

    name = NAME

    def encode(self, value: Any) -> bytes:
        return encode(value)

    def decode(self, body: bytes, type: Any = Any) -> Any:
        return decode(body, type)


def encode(value: Any) -> bytes:
    """A body. Raises `InvalidValue` that names what can't be sent."""
    check(value)
    try:
        body = _encode(value)
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise InvalidValue(f"payload: {error}") from error
    return names.size("payload", body, names.MAX_PAYLOAD)


def decode(body: bytes, type: Any = Any) -> Any:
    """The value of a body; a poisonous one raises `InvalidValue`, never anything else."""
    names.size("payload", body, names.MAX_PAYLOAD)
    try:
        value = _decoder(type).decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidValue(f"payload: {error}") from error
    check(value)
    return value


@lru_cache(maxsize=1024)
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)
