"""The columns of a DataFrame on their way into jobs: which may be used for what, and a batch's rows as Python has them.

Times are normalised to UTC, so that the same row has the same payload and key whatever the session's time zone.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from tenure.domain.errors import InvalidValue
from tenure.spark.given import hint
from tenure.spark.write_options import WriteOptions

WANTED: dict[str, tuple[type[t.DataType], ...]] = {
    "queueColumn": (t.StringType,),
    "tenantColumn": (t.StringType,),
    "priorityColumn": (t.ByteType, t.ShortType, t.IntegerType, t.LongType),
    "runAtColumn": (t.TimestampType,),
    "groupColumn": (t.StringType,),
}
"""What a column must be that says something about the job."""

PLAIN = (
    t.StringType,
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
    t.DayTimeIntervalType,
    t.BinaryType,
    t.NullType,
)
LABELS = t.MapType(t.StringType(), t.StringType())


def check_columns(options: WriteOptions, schema: t.StructType) -> None:
    """Raises `InvalidValue` for a column that isn't there, or that can't say what it is asked to say."""
    if len(set(schema.names)) != len(schema.names):
        raise InvalidValue("two columns have the same name: rename one")
    for option, column in options.per_row.items():
        _check_type(option, column, _type(schema, option, column))
    for column in options.key_columns:
        _check_key(column, _type(schema, "keyColumns", column))
    if not options.key_columns:
        _check_sendable(schema, schema.names)


def check_payload(options: WriteOptions, schema: t.StructType) -> None:
    """Raises `InvalidValue` for a column that can't be sent."""
    if options.payload is not None:
        found = _type(schema, "payload", options.payload)
        if not isinstance(found, t.StructType):
            raise InvalidValue(
                f"option payload: column {options.payload!r} is {found.simpleString()}; "
                "it must be a struct with a field per argument"
            )
    _check_sendable(schema, payload_columns(options, schema))


def payload_columns(options: WriteOptions, schema: t.StructType) -> list[str]:
    """The columns that the payload is made of."""
    if options.payload is not None:
        return [options.payload]
    taken = set(options.per_row.values())
    return [name for name in schema.names if name not in taken]


def arguments(options: WriteOptions, schema: t.StructType) -> list[str]:
    """The names under which a row's values are sent."""
    if options.payload is None:
        return payload_columns(options, schema)
    payload = schema[options.payload].dataType
    assert isinstance(payload, t.StructType)
    return list(payload.names)


def _type(schema: t.StructType, option: str, column: str) -> t.DataType:
    if column not in schema.names:
        raise InvalidValue(f"option {option}: there is no column {column!r:.80}; {hint(column, schema.names)}")
    return schema[column].dataType


def _check_type(option: str, column: str, found: t.DataType) -> None:
    if option == "labelsColumn":
        fits = isinstance(found, t.MapType) and found.keyType == found.valueType == t.StringType()
        wanted = LABELS.simpleString()
    else:
        fits = isinstance(found, WANTED[option])
        wanted = " or ".join(one().simpleString() for one in WANTED[option])
    if not fits:
        raise InvalidValue(f"option {option}: column {column!r} is {found.simpleString()}; it must be {wanted}")


def _check_key(column: str, found: t.DataType) -> None:
    if isinstance(found, t.FloatType | t.DoubleType | t.NullType) or not isinstance(found, PLAIN):
        raise InvalidValue(
            f"option keyColumns: column {column!r} is {found.simpleString()}; "
            "give columns of text, whole or decimal numbers, times, bytes or booleans"
        )


def _check_sendable(schema: t.StructType, columns: Iterable[str]) -> None:
    for column in columns:
        for part in _parts(schema[column].dataType):
            if not isinstance(part, PLAIN):
                raise InvalidValue(
                    f"column {column!r} has {part.simpleString()}, which can't be sent: cast it to something else"
                )


def _parts(found: t.DataType) -> Iterable[t.DataType]:
    match found:
        case t.StructType():
            inner: Sequence[t.DataType] = [field.dataType for field in found]
        case t.ArrayType():
            inner = [found.elementType]
        case t.MapType():
            inner = [found.keyType, found.valueType]
        case _:
            yield found
            return
    for one in inner:
        yield from _parts(one)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """An Arrow batch as one mapping per row."""
    schema = pa.schema([field.with_type(_in_utc(field.type)) for field in batch.schema])
    if schema != batch.schema:
        batch = batch.cast(schema)
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return rows


def _in_utc(type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type):
        return type if type.tz is None else pa.timestamp(type.unit, "UTC")
    if pa.types.is_struct(type):
        return pa.struct([type.field(n).with_type(_in_utc(type.field(n).type)) for n in range(type.num_fields)])
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(_in_utc(type.value_type)))
    if pa.types.is_map(type):
        key, item = type.key_field, type.item_field
        return pa.map_(key.with_type(_in_utc(key.type)), item.with_type(_in_utc(item.type)))
    return type
