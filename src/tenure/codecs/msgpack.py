"""The MessagePack codec: the same values as JSON in fewer bytes, with bytes as they are."""

from functools import lru_cache
from typing import Any

import msgspec

from tenure.codecs.checks import check
from tenure.domain import names
from tenure.domain.errors import InvalidValue

NAME = "msgpack"

_encode = msgspec.msgpack.Encoder().encode


class MsgpackCodec:
    """MessagePack, with msgspec's types."""

    name = NAME

    def encode(self, value: Any) -> bytes:
        check(value)
        try:
            body = _encode(value)
        except (TypeError, ValueError, OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
            raise InvalidValue(f"payload: {error}") from error
        return names.size("payload", body, names.MAX_PAYLOAD)

    def decode(self, body: bytes, type: Any = Any) -> Any:
        names.size("payload", body, names.MAX_PAYLOAD)
        try:
            value = _decoder(type).decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidValue(f"payload: {error}") from error
        check(value)
        return value


@lru_cache(maxsize=1024)
def _decoder(type: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(type)
