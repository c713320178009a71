"""Compressed codecs: another codec's bytes, packed. `json.zlib`, `msgpack.zlib`, `json.zstd`, `msgpack.zstd`.

The limit of a payload holds for the packed bytes, so more fits into a job. What comes out is limited too: 16 MiB, and
beyond 1 MiB at most 200 bytes from each one that went in. A bomb is refused at that limit, never unpacked whole.
Encoding refuses what decoding would.

**Versions.** A record keeps the codec's name with each payload and result, and nothing else says how to read them.
So a name means one format for good: a change that old bytes wouldn't survive, or that old code couldn't read, gets a
new name (`json.zlib2`), and the old codec stays known while a record may carry its name. A worker that doesn't know a
name fails the job with an error that says so; it never guesses.

**Keys.** A job's fingerprint is made of its packed bytes. Another build of the same library may pack other bytes, so
two producers that share a key should share the library's version too, or use a plain codec.
"""

import importlib
import zlib
from functools import lru_cache
from typing import Any, Protocol

from tenure.codecs.base import Codec
from tenure.codecs.json import JsonCodec
from tenure.codecs.msgpack import MsgpackCodec
from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.extras import Extra, needs

MAX_PLAIN = 16 * 1024 * 1024
"""Bytes that may come out of a packed body."""
MAX_RATIO = 200
FREE_OF_RATIO = 1024 * 1024
"""Up to here the ratio doesn't count: short texts that repeat themselves pack very well."""

JOINED = "."
"""Between the names of the inner codec and the method; a codec's name must be a name (§11)."""

_WINDOW_LOG = 24
"""A zstd frame may ask for a window of its own choice: no more than 16 MiB."""


class Method(Protocol):
    """A way to pack bytes. `unpack` never makes more than `most` + 1 of them."""

    @property
    def name(self) -> str: ...

    def pack(self, plain: bytes) -> bytes: ...

    def unpack(self, packed: bytes, most: int) -> bytes: ...


class Compressed:
    """Another codec, packed. What the inner one refuses is refused here too, its own size limit included."""

    def __init__(self, inner: Codec, method: Method) -> None:
        self._inner = inner
        self._method = method
        self.name = names.name("codec", f"{inner.name}{JOINED}{method.name}")

    def encode(self, value: Any) -> bytes:
        plain = self._inner.encode(value)
        packed = names.size("payload", self._method.pack(plain), names.MAX_PAYLOAD)
        self._check(len(plain), len(packed))
        return packed

    def decode(self, body: bytes, type: Any = Any) -> Any:
        names.size("payload", body, names.MAX_PAYLOAD)
        plain = self._method.unpack(body, plain_limit(len(body)))
        self._check(len(plain), len(body))
        return self._inner.decode(plain, type)

    def _check(self, plain: int, packed: int) -> None:
        most = plain_limit(packed)
        if plain > most:
            raise InvalidValue(
                f"payload: {packed} bytes of {self.name} unpack to more than the {most} that are allowed; "
                "send less, or a BlobRef"
            )


def plain_limit(packed: int) -> int:
    """How many bytes may come out of so many packed ones."""
    return min(MAX_PLAIN, max(FREE_OF_RATIO, MAX_RATIO * packed))


class Zlib:
    """zlib (RFC 1950): everywhere, no dictionary, with a checksum."""

    name = "zlib"

    def pack(self, plain: bytes) -> bytes:
        return zlib.compress(plain)

    def unpack(self, packed: bytes, most: int) -> bytes:
        unpacker = zlib.decompressobj()
        try:
            plain = unpacker.decompress(packed, most + 1)
        except zlib.error as error:
            raise InvalidValue(f"payload: not zlib ({error})") from error
        _whole(self.name, plain, most, unpacker)
        return plain


class Zstd:
    """Zstandard (RFC 8878): smaller and faster. Part of Python from 3.14, before that in the extra `zstd`."""

    name = "zstd"

    def pack(self, plain: bytes) -> bytes:
        library = _zstd()
        packed: bytes = library.compress(plain, options={library.CompressionParameter.checksum_flag: 1})
        return packed

    def unpack(self, packed: bytes, most: int) -> bytes:
        library = _zstd()
        unpacker = library.ZstdDecompressor(options={library.DecompressionParameter.window_log_max: _WINDOW_LOG})
        try:
            plain: bytes = unpacker.decompress(packed, most + 1)
        except library.ZstdError as error:
            raise InvalidValue(f"payload: not zstd ({error})") from error
        _whole(self.name, plain, most, unpacker)
        return plain


def _whole(method: str, plain: bytes, most: int, unpacker: Any) -> None:
    """Refuses what was cut short, and what has something behind its end. Too much is for the caller to refuse."""
    if len(plain) > most:
        return
    if not unpacker.eof:
        raise InvalidValue(f"payload: {method} bytes that were cut short")
    if unpacker.unused_data:
        raise InvalidValue(f"payload: {method} bytes with something behind their end")


@lru_cache(maxsize=1)
def _zstd() -> Any:
    for module in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(module)
        except ImportError:
            continue
    raise InvalidValue(needs("codec zstd", Extra.ZSTD))


def compressed_codecs() -> tuple[Codec, ...]:
    """JSON and MessagePack under every method. Those of a missing library are known, and name the extra when used."""
    plain = (JsonCodec(MAX_PLAIN), MsgpackCodec(MAX_PLAIN))  # here the packed bytes are what is limited
    return tuple(Compressed(inner, method) for inner in plain for method in (Zlib(), Zstd()))
