"""Columns of many rows as PostgreSQL's binary arrays: a struct for a column, where a driver encodes value by value."""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from struct import Struct, pack
from typing import Any

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper, StrBinaryDumper

BOOLEAN, BYTEA, BIGINT, TEXT, TID = 16, 17, 20, 25, 27

_size = Struct(">i").pack
_ABSENT = _size(-1)


class Texts(bytes):
    """A text[]."""


class Bigints(bytes):
    """A bigint[]."""


class Byteas(bytes):
    """A bytea[]."""


class Booleans(bytes):
    """A boolean[]."""


class Tids(bytes):
    """A tid[]."""


def _head(element: int, count: int, nulls: bool) -> bytes:
    return pack(">5i", 1, nulls, element, count, 1) if count else pack(">3i", 0, 0, element)


def bigints(values: Sequence[int | None]) -> Bigints:
    """Integers, some of them possibly absent."""
    count = len(values)
    if None in values:
        body = b"".join(_ABSENT if value is None else pack(">iq", 8, value) for value in values)
        return Bigints(_head(BIGINT, count, True) + body)
    return Bigints(_head(BIGINT, count, False) + pack(f">{'iq' * count}", *chain.from_iterable(zip(repeat(8), values))))


def _blobs(element: int, values: Sequence[bytes | None]) -> bytes:
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        parts = [_ABSENT if value is None else _size(len(value)) + value for value in values]
        return _head(element, len(parts), True) + b"".join(parts)
    sizes = set(map(len, present))
    if len(sizes) == 1:  # as those of ids are, and often of payloads: three times as fast
        size = _size(sizes.pop())
        return b"".join((_head(element, len(present), False), size, size.join(present)))
    sized = zip(map(_size, map(len, present)), present, strict=True)
    return _head(element, len(present), False) + b"".join(chain.from_iterable(sized))


def texts(values: Sequence[str | None]) -> Texts:
    """Strings, some of them possibly absent."""
    return Texts(_blobs(TEXT, [None if value is None else value.encode() for value in values]))


def encoded_texts(values: Sequence[bytes]) -> Texts:
    """Strings that are UTF-8 already."""
    return Texts(_blobs(TEXT, values))


def byteas(values: Sequence[bytes | None]) -> Byteas:
    """Bytes, some of them possibly absent."""
    return Byteas(_blobs(BYTEA, values))


def tids(values: Sequence[bytes]) -> Tids:
    """Places of rows, as the server gave them."""
    return Tids(_blobs(TID, values))


def booleans(values: Sequence[bool]) -> Booleans:
    return Booleans(_blobs(BOOLEAN, [b"\1" if value else b"\0" for value in values]))


COLUMNS: dict[str, Callable[[Sequence[Any]], bytes]] = {
    "text": texts,
    "bigint": bigints,
    "bytea": byteas,
    "boolean": booleans,
    "tid": tids,
}
"""How a column of a type becomes an array."""


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> bytes:
        return bytes(obj)


class _TextsDumper(_ArrayDumper):
    oid = 1009


class _BigintsDumper(_ArrayDumper):
    oid = 1016


class _ByteasDumper(_ArrayDumper):
    oid = 1001


class _BooleansDumper(_ArrayDumper):
    oid = 1000


class _TidsDumper(_ArrayDumper):
    oid = 1010


_OIDS = {Texts: 1009, Bigints: 1016, Byteas: 1001, Booleans: 1000, Tids: 1010, str: TEXT, int: BIGINT, bytes: BYTEA}


def wire(value: Any) -> tuple[int, bytes | None]:
    """A value's type, and its bytes, as the server takes them."""
    kind = type(value)
    if kind is int:
        return BIGINT, pack(">q", value)
    if value is None:
        return 0, None
    return _OIDS[kind], value.encode() if kind is str else value


def adapt(context: AdaptContext) -> None:
    """Makes a connection or a cursor send values as the statements declare them: one statement, one plan."""
    adapters = context.adapters
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(str, StrBinaryDumper)
    adapters.register_dumper(bytes, BytesBinaryDumper)
    adapters.register_dumper(Texts, _TextsDumper)
    adapters.register_dumper(Bigints, _BigintsDumper)
    adapters.register_dumper(Byteas, _ByteasDumper)
    adapters.register_dumper(Booleans, _BooleansDumper)
    adapters.register_dumper(Tids, _TidsDumper)
