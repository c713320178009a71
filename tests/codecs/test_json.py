"""The JSON codec refuses at the door what would break elsewhere."""

import math

import pytest

from tenure.codecs import json
from tenure.domain.errors import InvalidValue


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize("value", [None, 1, -1.5, "é", [1, [2]], {"a": {"b": [True]}}, nested(64)])
def test_what_goes_in_comes_out(value: object) -> None:
    assert json.decode(json.encode(value)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf], {"a": (math.nan,)}])
def test_what_isnt_a_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="isn't a JSON number"):
        json.encode(value)


def test_depth_is_bounded_both_ways() -> None:
    with pytest.raises(InvalidValue, match="deeper than 64"):
        json.encode(nested(65))
    with pytest.raises(InvalidValue, match="deeper than 64"):
        json.decode(b"[" * 65 + b"]" * 65)
    with pytest.raises(InvalidValue):
        json.decode(b"[" * 100_000)


def test_size_is_bounded_both_ways() -> None:
    with pytest.raises(InvalidValue, match="payload has 262147 bytes"):
        json.encode("x" * (256 * 1024 + 1))
    with pytest.raises(InvalidValue, match="payload has 262145 bytes"):
        json.decode(b"1" * (256 * 1024 + 1))


@pytest.mark.parametrize("value", [object(), {1: object()}, "\ud800"])
def test_what_json_cant_say_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="payload"):
        json.encode(value)


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"\xff", b'{"a":1}x'])
def test_poison_is_an_error_of_its_own(body: bytes) -> None:
    with pytest.raises(InvalidValue, match="payload"):
        json.decode(body)
