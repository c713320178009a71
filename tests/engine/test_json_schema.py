"""What a published schema accepts, compared with what msgspec reads by the type it was made of."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest
from msgspec import Meta

from tenure.engine.json_schema import accepts


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Address(msgspec.Struct):
    street: str
    number: int = 0


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    street: str
    above: "Strict | None" = None


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


class Row(msgspec.Struct, array_like=True):
    a: int
    b: str = ""


class Pair(NamedTuple):
    a: int
    b: str = ""


@dataclass
class Point:
    x: int
    y: int = 0


class Given(TypedDict):
    a: int
    b: NotRequired[str]


TYPES: list[Any] = [
    Any,
    None,
    bool,
    int,
    float,
    str,
    bytes,
    Decimal,
    UUID,
    date,
    timedelta,
    Annotated[datetime, Meta(tz=True)],
    Annotated[time, Meta(tz=True)],
    Annotated[time, Meta(tz=False)],
    Annotated[int, Meta(ge=1, lt=7)],
    Annotated[float, Meta(gt=0, le=2.5, multiple_of=0.5)],
    Annotated[str, Meta(min_length=2, max_length=4, pattern="^a", title="text", examples=["ab"])],
    Annotated[list[int], Meta(min_length=1, max_length=2)],
    Annotated[dict[str, int], Meta(min_length=1, max_length=1)],
    dict[Annotated[str, Meta(max_length=1)], str],
    dict[str, list[int | None]],
    set[int],
    tuple[int, str],
    tuple[int, ...],
    int | str | None,
    Literal["a", 1, None],
    Colour,
    Level,
    Colour | None,
    Address,
    Strict,
    Cat | Dog | None,
    list[Cat | Dog],
    Row,
    Pair,
    Point,
    Given,
]

VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, 7, -1, 1.0, 0.5, 2.5, 2.75, "", "a", "ab", "abcde", "red", "green", "1.5", "NaN"),
    *("aGk=", "2027-01-15", "2027-01-15T08:00:00Z", "2027-01-15T08:00:00", "08:00:00", "08:00:00Z", "P1D", "PT90S"),
    "01234567-89ab-7def-8123-456789abcdef",
    *([], [1], [1, 2], [1, 2, 3], [1, "b"], [1, "b", 3], ["b", 1], [None], [1, None], ["a"]),
    *({}, {"a": 1}, {"a": "b"}, {"a": [1, None]}, {"a": 1, "b": "c"}, {"a": 1, "b": 2}, {"ab": "c"}, {"x": 1}),
    *({"x": 1, "y": 2, "z": 3}, {"street": "s"}, {"street": "s", "number": 1}, {"street": "s", "other": 1}),
    *({"street": 1}, {"street": "s", "above": {"street": "t"}}, {"street": "s", "above": {"other": 1}}),
    *({"type": "Cat", "lives": 9}, {"type": "Dog", "lives": 9}, {"type": "Dog", "name": "Rex"}, {"type": "Cow"}),
    *([{"type": "Cat", "lives": 9}, {"type": "Dog", "name": "Rex"}], [{"type": "Cat"}]),
]


def reads(type_: Any, value: Any) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=type_)
    except msgspec.ValidationError:
        return False
    return True


def stored(schema: dict[str, Any]) -> dict[str, Any]:
    """As it comes out of a document."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return found


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_schema_accepts_what_its_type_reads(type_: Any) -> None:
    schema = stored(msgspec.json.schema(type_))
    exact = type_ not in (Decimal, timedelta)  # those are also read from numbers, of which the schema says nothing
    for value in VALUES:
        read = reads(type_, value)
        assert read or not accepts(schema, value), value
        if exact or isinstance(value, str):
            assert accepts(schema, value) == read, value


def test_messagepack_is_seen_as_json_would_have_it() -> None:
    moment = datetime.fromisoformat("2027-01-15T08:00:00+00:00")
    assert accepts(msgspec.json.schema(bytes), b"\xff")
    assert accepts(msgspec.json.schema(Annotated[datetime, Meta(tz=True)]), moment)
    assert not accepts(msgspec.json.schema(int), moment)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "oneOf": [{}]},
        {"not": {}},
        {"type": ["integer", "string"]},
        {"type": "whole"},
        {"type": "integer", "minimum": "1"},
        {"$ref": "#/$defs/gone"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"anyOf": 3},
        {"format": "roman"},
    ],
)
def test_what_isnt_understood_accepts_nothing(schema: dict[str, Any]) -> None:
    assert not accepts(schema, 7)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "["},
        {"type": "string", "format": "roman"},
        {"type": "string", "contentEncoding": "base64", "maxLength": 8},
    ],
)
def test_what_isnt_exact_accepts_nothing(schema: dict[str, Any]) -> None:
    assert not accepts(schema, "aGk=")


def test_one_alternative_is_enough() -> None:
    assert accepts({"anyOf": [{"not": {}}, {"type": "integer"}]}, 7)
    assert not accepts({"anyOf": [{"not": {}}, {"type": "integer"}]}, "7")
