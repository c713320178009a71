"""The key of a row: what makes it the same row when it is written again, by whomever.

One column's value stands as it is, `42`; several are a JSON array, `["eu",42]`, and so is one that could be taken for
an array or a hash. What is no key as text (over 256 bytes, control characters) is hashed: `sha256:…`.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tenure.codecs.checks import check
from tenure.domain import names
from tenure.domain.errors import InvalidValue

HASHED = "sha256:"

KeyOf = Callable[[Mapping[str, Any]], str]

_encode = msgspec.json.Encoder(order="deterministic").encode


def key_of(columns: Sequence[str]) -> KeyOf:
    """How a row's key is made of these columns, or of all when there are none.

    The function raises `InvalidValue` for a null, and for what is equal to nothing, such as NaN.
    """
    if not columns:
        return _of_the_row
    return lambda row: _of_values(columns, [row[column] for column in columns])


def _of_values(columns: Sequence[str], values: list[Any]) -> str:
    for column, value in zip(columns, values, strict=True):
        if value is None:
            raise InvalidValue(f"key column {column!r} is null: a row without a key could be enqueued twice")
    check(values)
    body = _encode(values)
    if len(values) == 1:
        text = values[0] if isinstance(values[0], str) else body[1:-1].strip(b'"').decode()
        if text and not text.startswith(("[", HASHED)) and _fits(text):
            return text
    text = body.decode()
    return text if _fits(text) else _hashed(body)


def _of_the_row(row: Mapping[str, Any]) -> str:
    check(row)
    return _hashed(_encode(row))


def _hashed(body: bytes) -> str:
    return HASHED + hashlib.sha256(body).hexdigest()


def _fits(text: str) -> bool:
    try:
        names.text("key", text)
    except InvalidValue:
        return False
    return True
