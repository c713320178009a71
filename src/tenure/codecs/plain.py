"""What the plain codecs share: msgspec's types, the checks, and a size limit."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import astuple

from tenure.codecs.checks import check, is_flat, is_plain
from tenure.domain import names
from tenure.domain.errors import InvalidValue


class Plain:
    """A codec over one of msgspec's formats; bodies of at most `most` bytes."""

    def __init__(
        self,
        name: str,
        encode: Callable[[Any], bytes],
        decoder: Callable[[Any], Any],
        most: int = names.MAX_PAYLOAD,
    ) -> None:
        self.name = name
        self._encode = encode
        self._decoder = lru_cache(maxsize=1024)(decoder)
        self._most = most

    def encode(self, value: Any) -> bytes:
        """A body. Raises `InvalidValue` that names what can't be sent."""
        if type(value) is not dict or not is_flat(value):
            check(value)
        try:
            body = self._encode(value)
        except (TypeError, ValueError, OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
            raise InvalidValue(f"payload: {error}") from error
        return body if len(body) <= self._most else names.size("payload", body, self._most)

    def decode(self, body: bytes, type: Any = Any) -> Any:
        """The value of a body; a poisonous one raises `InvalidValue`, never anything else."""
        if len(body) > self._most:
            names.size("payload", body, self._most)
        try:
            value = self._decoder(type).decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidValue(f"payload: {error}") from error
        if not (isinstance(value, msgspec.Struct) and is_plain(astuple(value))):
            check(value)
        return value
