"""Python's types as Arrow's: how the parameters of a handler, and what it gives back, become columns.

What has no column type of its own (unions, tuples, `Any`, types within themselves) is its JSON, as a string.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET, inspect

DECIMAL = pa.decimal128(38, 18)
"""Spark's widest, half of it behind the point."""


class Shape(NamedTuple):
    """An Arrow type, and how a value becomes one of it. None and what wasn't sent stay nothing."""

    type: pa.DataType
    value: Callable[[Any], Any]

    def of(self, value: Any) -> Any:
        return None if value is None or value is UNSET else self.value(value)


def _same(value: Any) -> Any:
    return value


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _instant(value: datetime) -> datetime:
    """A time without a zone is taken for UTC."""
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


JSON = Shape(pa.string(), _json)

_PLAIN: dict[type[inspect.Type], Shape] = {
    inspect.BoolType: Shape(pa.bool_(), _same),
    inspect.IntType: Shape(pa.int64(), _same),
    inspect.FloatType: Shape(pa.float64(), _same),
    inspect.StrType: Shape(pa.string(), _same),
    inspect.BytesType: Shape(pa.binary(), _same),
    inspect.ByteArrayType: Shape(pa.binary(), bytes),
    inspect.DateTimeType: Shape(pa.timestamp("us", tz="UTC"), _instant),
    inspect.DateType: Shape(pa.date32(), _same),
    inspect.DecimalType: Shape(DECIMAL, _same),
    inspect.UUIDType: Shape(pa.string(), str),
}


def shape_of(type_: Any) -> Shape:
    """The shape of a type as msgspec understands it."""
    try:
        return _shape(inspect.type_info(type_), ())
    except TypeError:  # msgspec can't look into it, and decodes it only as JSON would
        return JSON


def _shape(info: inspect.Type, inside: tuple[type, ...]) -> Shape:
    plain = _PLAIN.get(type(info))
    if plain is not None:
        return plain
    match info:
        case inspect.Metadata():
            return _shape(info.type, inside)
        case inspect.UnionType():
            others = [one for one in info.types if not isinstance(one, inspect.NoneType)]
            return _shape(others[0], inside) if len(others) == 1 else JSON
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
            return _list(_shape(info.item_type, inside))
        case inspect.DictType() if isinstance(info.key_type, inspect.StrType):
            return _map(_shape(info.value_type, inside))
        case inspect.EnumType() if all(isinstance(one.value, str) for one in info.cls):
            return Shape(pa.string(), lambda value: value.value if isinstance(value, Enum) else value)
        case inspect.LiteralType() if all(isinstance(one, str) for one in info.values):
            return Shape(pa.string(), _same)
        case inspect.StructType() | inspect.DataclassType() | inspect.NamedTupleType() | inspect.TypedDictType():
            return _struct(info, inside)
    return JSON


def _list(item: Shape) -> Shape:
    return Shape(pa.list_(item.type), lambda values: [item.of(value) for value in values])


def _map(item: Shape) -> Shape:
    return Shape(pa.map_(pa.string(), item.type), lambda values: [(key, item.of(one)) for key, one in values.items()])


def _struct(
    info: inspect.StructType | inspect.DataclassType | inspect.NamedTupleType | inspect.TypedDictType,
    inside: tuple[type, ...],
) -> Shape:
    """Field by field. Spark has no struct without fields, and none within itself."""
    if info.cls in inside or not info.fields:
        return JSON
    shapes = {field.name: _shape(field.type, (*inside, info.cls)) for field in info.fields}

    def value(given: Any) -> dict[str, Any]:
        read = given.get if isinstance(given, Mapping) else lambda name: getattr(given, name)
        return {name: shape.of(read(name)) for name, shape in shapes.items()}

    return Shape(pa.struct([(name, shape.type) for name, shape in shapes.items()]), value)
