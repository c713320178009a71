"""What a codec is, and the ones that are known. A stored body names its codec, and only known names are decoded."""

from typing import Any, Protocol

from tenure.domain import names
from tenure.domain.errors import InvalidValue


class Codec(Protocol):
    """Turns values into bytes and back. `decode` validates against a type and raises `InvalidValue` for anything else.

    Both must be safe for bytes from anyone: no code, no class, no file may follow from what is decoded.
    """

    @property
    def name(self) -> str: ...

    def encode(self, value: Any) -> bytes: ...

    def decode(self, body: bytes, type: Any = Any) -> Any: ...


class Codecs:
    """Codecs by name."""

    def __init__(self, *known: Codec) -> None:
        self._known: dict[str, Codec] = {}
        for codec in known:
            self.add(codec)

    def add(self, codec: Codec) -> None:
        """Makes a codec known; a second one of the same name is an error."""
        names.name("codec", codec.name)
        if codec.name in self._known:
            raise InvalidValue(f"codec {codec.name!r} is already known")
        self._known[codec.name] = codec

    def get(self, name: str) -> Codec:
        codec = self._known.get(name)
        if codec is None:
            raise InvalidValue(f"codec {name!r} isn't known here: known are {', '.join(sorted(self._known))}")
        return codec
