"""The JSON codec refuses at the door what would break elsewhere."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tenure.codecs import json
from tenure.domain.errors import InvalidValue


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth - 1):
        value = [value]
    return value


class Point(msgspec.Struct):
    x: float
    y: float = 0


@dataclass
class Order:
    number: int
    lines: list[str]


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize("value", [None, 1, -1.5, "é", [1, [2]], {"a": {"b": [True]}}, nested(64)])
def test_what_goes_in_comes_out(value: object) -> None:
    assert json.decode(json.encode(value)) == value


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (Point, Point(1.5)),
        (Order, Order(3, ["a", "b"])),
        (datetime, datetime(2027, 1, 15, 8, tzinfo=UTC)),
        (date, date(2027, 1, 15)),
        (timedelta, timedelta(hours=1, milliseconds=5)),
        (UUID, UUID("01900000-0000-7000-8000-000000000001")),
        (bytes, b"\0\xff"),
        (Decimal, Decimal("1.10")),
        (Colour, Colour.RED),
        (dict[int, list[Point]], {1: [Point(1), Point(2)]}),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (int | None, None),
    ],
)
def test_types_come_back_as_they_were(type: Any, value: object) -> None:
    assert json.decode(json.encode(value), type) == value


@pytest.mark.parametrize(
    ("type", "body"),
    [(int, b'"1"'), (int, b"true"), (int, b"1.5"), (str, b"1"), (Point, b'{"y":1}'), (datetime, b'"soon"')],
)
def test_a_value_of_another_type_is_refused(type: Any, body: bytes) -> None:
    with pytest.raises(InvalidValue, match="payload: "):
        json.decode(body, type)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, [-math.inf], {"a": (math.nan,)}, {math.nan: 1}, Point(math.inf), {"a": [Point(1, math.nan)]}],
)
def test_what_isnt_a_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="isn't a JSON number"):
        json.encode(value)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, [10**100], {"a": {"b": 2**70}}, {2**64: 1}])
def test_an_integer_beyond_64_bits_is_refused_both_ways(value: object) -> None:
    with pytest.raises(InvalidValue, match="an integer beyond 64 bits"):
        json.encode(value)
    with pytest.raises(InvalidValue, match="an integer beyond 64 bits"):
        json.decode(b"[18446744073709551616]")


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63)])
def test_the_largest_integers_pass(value: int) -> None:
    assert json.decode(json.encode(value)) == value


def test_depth_is_bounded_both_ways() -> None:
    with pytest.raises(InvalidValue, match="deeper than 64"):
        json.encode(nested(65))
    with pytest.raises(InvalidValue, match="deeper than 64"):
        json.decode(b"[" * 65 + b"]" * 65)
    with pytest.raises(InvalidValue):
        json.decode(b"[" * 100_000)


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append({"again": endless})
    with pytest.raises(InvalidValue, match="deeper than 64"):
        json.encode(endless)


def test_size_is_bounded_both_ways() -> None:
    with pytest.raises(InvalidValue, match="payload has 262147 bytes"):
        json.encode("x" * (256 * 1024 + 1))
    with pytest.raises(InvalidValue, match="payload has 262145 bytes"):
        json.decode(b"1" * (256 * 1024 + 1))


@pytest.mark.parametrize("value", [object(), {1: object()}, "\ud800", {(1, 2): 3}, iter([1])])
def test_what_json_cant_say_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="payload"):
        json.encode(value)


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"\xff", b'{"a":1}x', b'"\\ud800"', b"1e400"])
def test_poison_is_an_error_of_its_own(body: bytes) -> None:
    with pytest.raises(InvalidValue, match="payload"):
        json.decode(body)
