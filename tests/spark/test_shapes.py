"""Which Arrow type a Python type becomes, and what becomes of its values."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest

from tenure.spark.shapes import DECIMAL, shape_of

TIME = pa.timestamp("us", tz="UTC")
TEXT = pa.string()


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: float


class Entry(TypedDict, total=False):
    name: str


@dataclass
class Box:
    points: list[Point]
    entry: Entry


class Tree(msgspec.Struct):
    name: str
    below: list["Tree"] = []


class Empty(msgspec.Struct):
    pass


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


POINT = pa.struct([("x", pa.int64()), ("y", pa.float64())])


@pytest.mark.parametrize(
    ("given", "type_", "value", "becomes"),
    [
        (int, pa.int64(), 1, 1),
        (float, pa.float64(), 1.5, 1.5),
        (bool, pa.bool_(), True, True),
        (str, TEXT, "x", "x"),
        (bytes, pa.binary(), b"x", b"x"),
        (date, pa.date32(), date(2026, 1, 1), date(2026, 1, 1)),
        (datetime, TIME, datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),  # noqa: DTZ001 without a zone
        (Decimal, DECIMAL, Decimal("1.25"), Decimal("1.25")),
        (UUID, TEXT, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Optional[int], pa.int64(), None, None),  # noqa: UP045 both ways to say it
        (int | None, pa.int64(), 3, 3),
        (Annotated[int, msgspec.Meta(ge=0, title="a number")], pa.int64(), 3, 3),
        (list[int | None], pa.list_(pa.int64()), [1, None], [1, None]),
        (tuple[str, ...], pa.list_(TEXT), ("a",), ["a"]),
        (set[int], pa.list_(pa.int64()), {1}, [1]),
        (Sequence[int], pa.list_(pa.int64()), [1], [1]),
        (dict[str, float], pa.map_(TEXT, pa.float64()), {"a": 1.0}, [("a", 1.0)]),
        (Colour, TEXT, Colour.RED, "red"),
        (Literal["a", "b"], TEXT, "a", "a"),
        (Point, POINT, Point(1, 2.0), {"x": 1, "y": 2.0}),
        (
            Box,
            pa.struct([("points", pa.list_(POINT)), ("entry", pa.struct([("name", TEXT)]))]),
            Box([Point(1, 2.0)], {}),
            {"points": [{"x": 1, "y": 2.0}], "entry": {"name": None}},
        ),
        (
            Tree,
            pa.struct([("name", TEXT), ("below", pa.list_(TEXT))]),
            Tree("a", [Tree("b")]),
            {"name": "a", "below": ['{"name":"b","below":[]}']},
        ),
        (Any, TEXT, {"a": [1]}, '{"a":[1]}'),
        (int | str, TEXT, 1, "1"),
        (Cat | Dog, TEXT, Dog("Rex"), '{"type":"Dog","name":"Rex"}'),
        (tuple[int, str], TEXT, (1, "a"), '[1,"a"]'),
        (dict[int, str], TEXT, {1: "a"}, '{"1":"a"}'),
        (Level, TEXT, Level.LOW, "1"),
        (time, TEXT, time(8, 30), '"08:30:00"'),
        (Empty, TEXT, Empty(), "{}"),
        (None, TEXT, None, None),
    ],
)
def test_a_type_becomes_a_column(given: Any, type_: pa.DataType, value: Any, becomes: Any) -> None:
    shape = shape_of(given)
    assert shape.type == type_
    assert shape.of(value) == becomes
    assert pa.array([shape.of(value), None], type_).to_pylist() == [becomes, None]
