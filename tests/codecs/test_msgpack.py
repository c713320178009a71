"""The MessagePack codec: the same values as JSON, the same refusals, and bytes as they are."""

import math
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tenure.codecs import known_codecs
from tenure.domain.errors import InvalidValue

msgpack = known_codecs().get("msgpack")


class Point(msgspec.Struct):
    x: float
    y: float = 0


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize("value", [None, 1, -1.5, "é", b"\0\xff", [1, [2]], {"a": {"b": [True]}}, nested(64)])
def test_what_goes_in_comes_out(value: object) -> None:
    assert msgpack.decode(msgpack.encode(value)) == value


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (Point, Point(1.5)),
        (datetime, datetime(2027, 1, 15, 8, tzinfo=UTC)),
        (UUID, UUID("01900000-0000-7000-8000-000000000001")),
        (dict[int, list[Point]], {1: [Point(1), Point(2)]}),
    ],
)
def test_types_come_back_as_they_were(type: Any, value: object) -> None:
    assert msgpack.decode(msgpack.encode(value), type) == value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (math.nan, "isn't a JSON number"),
        ({"a": [math.inf]}, "isn't a JSON number"),
        (Point(math.nan), "isn't a JSON number"),
        ([2**64], "beyond 64 bits"),
        (nested(65), "deeper than 64"),
        (object(), "payload"),
        ("\ud800", "payload"),
        (b"x" * (256 * 1024), "payload has 262149 bytes"),
    ],
)
def test_what_would_break_elsewhere_is_refused(value: object, says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        msgpack.encode(value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x93\x01",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xa1\xff",
        b"\xca\x7f\xc0\x00\x00",
        b"\x91" * 65 + b"\x01",
        b"\x91" * 100_000,
        b"\x01\x01",
    ],
)
def test_poison_is_an_error_of_its_own(body: bytes) -> None:
    """Truncated, bytes that mean nothing, lengths of gigabytes, no UTF-8, NaN, depth, something behind the end."""
    with pytest.raises(InvalidValue, match="payload"):
        msgpack.decode(body)


def test_an_extension_brings_no_code() -> None:
    assert isinstance(msgpack.decode(b"\xd4\x05\x01"), msgspec.msgpack.Ext)
    with pytest.raises(InvalidValue):
        msgpack.decode(b"\xd4\x05\x01", int)


def test_a_codec_is_known_once_and_an_unknown_one_is_named() -> None:
    codecs = known_codecs()
    with pytest.raises(InvalidValue, match="codec 'msgpack' is already known"):
        codecs.add(msgpack)
    with pytest.raises(InvalidValue, match=r"codec 'pickle' isn't known here: known are .*json"):
        codecs.get("pickle")
