"""Whether a JSON Schema accepts a value, for the schemas that msgspec makes of types.

What is accepted here, a handler with those types takes, as far as its schema says what they are: msgspec's schema of a
`datetime` without a fixed zone is that of any text, and one of a dict says nothing of keys that aren't texts. A keyword
that msgspec doesn't write, or writes in a form that isn't exact, accepts nothing.
"""

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, cast
from uuid import UUID

import msgspec

_Schema = dict[str, Any]
_Holds = Callable[["_Accepting", Any, Any, _Schema], bool]
"""Whether a value holds to a keyword: given what it says, the value, and the schema around it."""

_SILENT = frozenset({"type", "$defs", "title", "description", "examples", "default", "deprecated", "discriminator"})
"""Keywords that refuse nothing, and the type, which is asked first. A discriminator says which of `anyOf` to try."""

_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_FORMATS: dict[str, Any] = {
    "date-time": Annotated[datetime, msgspec.Meta(tz=True)],
    "time": Annotated[time, msgspec.Meta(tz=True)],
    "partial-time": Annotated[time, msgspec.Meta(tz=False)],
    "date": date,
    "duration": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
    "base64": bytes,
}
"""A text's format, or its encoding, as the type that msgspec reads it into."""


def accepts(schema: _Schema, value: Any) -> bool:
    """Whether a value, as JSON would have it, holds to a schema that msgspec made."""
    try:
        return _Accepting(schema.get("$defs", {})).holds(schema, msgspec.to_builtins(value, str_keys=True))
    except (RecursionError, TypeError, ValueError, KeyError, AttributeError, re.error):
        return False  # it is no schema that msgspec made


class _Accepting:
    def __init__(self, definitions: dict[str, _Schema]) -> None:
        self._definitions = definitions

    def holds(self, schema: _Schema | bool, value: Any) -> bool:
        if isinstance(schema, bool):
            return schema
        if "type" in schema and not _TYPES[schema["type"]](value):
            return False
        return all(
            keyword in _KEYWORDS and _KEYWORDS[keyword](self, said, value, schema)
            for keyword, said in schema.items()
            if keyword not in _SILENT
        )

    def referred(self, said: str, value: Any, schema: _Schema) -> bool:
        return self.holds(self._definitions[said.removeprefix("#/$defs/")], value)

    def any_of(self, said: list[_Schema], value: Any, schema: _Schema) -> bool:
        return any(self.holds(one, value) for one in said)

    def items(self, said: _Schema | bool, value: Any, schema: _Schema) -> bool:
        return all(self.holds(said, one) for one in value[len(schema.get("prefixItems", ())) :])

    def first_items(self, said: list[_Schema], value: Any, schema: _Schema) -> bool:
        return all(self.holds(one, content) for one, content in zip(said, value, strict=False))

    def properties(self, said: dict[str, _Schema], value: Any, schema: _Schema) -> bool:
        return all(self.holds(one, value[name]) for name, one in said.items() if name in value)

    def other_properties(self, said: _Schema | bool, value: Any, schema: _Schema) -> bool:
        named = schema.get("properties", {})
        return all(self.holds(said, content) for name, content in value.items() if name not in named)

    def names(self, said: _Schema, value: Any, schema: _Schema) -> bool:
        return all(self.holds(said, name) for name in value)


def _enum(_: _Accepting, said: list[Any], value: Any, schema: _Schema) -> bool:
    return any(type(value) is type(one) and value == one for one in said)


def _format(_: _Accepting, said: str, value: Any, schema: _Schema) -> bool:
    if said not in _FORMATS or (said == "base64" and schema.keys() & {"minLength", "maxLength"}):
        return False  # the lengths of bytes are only about those of their text
    try:
        msgspec.convert(value, _FORMATS[said])
    except msgspec.ValidationError:
        return False
    return True


def _pattern(_: _Accepting, said: str, value: Any, schema: _Schema) -> bool:
    return re.search(said, value) is not None


def _multiple(_: _Accepting, said: float, value: Any, schema: _Schema) -> bool:
    return math.fmod(value, said) == 0


def _unique(_: _Accepting, said: bool, value: Any, schema: _Schema) -> bool:
    return not said or len({msgspec.json.encode(one) for one in value}) == len(value)


def _compared(holds: Callable[[Any, Any], bool], of: Callable[[Any], Any] = lambda value: value) -> _Holds:
    return lambda _, said, value, schema: holds(of(value), said)


def _at_least(one: Any, other: Any) -> bool:
    return cast(bool, one >= other)


def _at_most(one: Any, other: Any) -> bool:
    return cast(bool, one <= other)


_KEYWORDS: dict[str, _Holds] = {
    "$ref": _Accepting.referred,
    "anyOf": _Accepting.any_of,
    "enum": _enum,
    "minimum": _compared(_at_least),
    "maximum": _compared(_at_most),
    "exclusiveMinimum": _compared(lambda value, said: bool(value > said)),
    "exclusiveMaximum": _compared(lambda value, said: bool(value < said)),
    "multipleOf": _multiple,
    "minLength": _compared(_at_least, len),
    "maxLength": _compared(_at_most, len),
    "minItems": _compared(_at_least, len),
    "maxItems": _compared(_at_most, len),
    "minProperties": _compared(_at_least, len),
    "maxProperties": _compared(_at_most, len),
    "pattern": _pattern,
    "format": _format,
    "contentEncoding": _format,
    "items": _Accepting.items,
    "prefixItems": _Accepting.first_items,
    "uniqueItems": _unique,
    "properties": _Accepting.properties,
    "required": _compared(lambda value, said: value.keys() >= set(said)),
    "additionalProperties": _Accepting.other_properties,
    "propertyNames": _Accepting.names,
}
