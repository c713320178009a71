"""Compressed codecs: more fits in, nothing explodes on the way out."""

import random
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tenure.codecs import Codec, compressed, known_codecs
from tenure.codecs.compressed import FREE_OF_RATIO, MAX_PLAIN, MAX_RATIO, Compressed, Zlib, Zstd, plain_limit
from tenure.codecs.json import JsonCodec
from tenure.domain.calls import Succeed
from tenure.domain.errors import InvalidValue
from tenure.domain.job import NewJob
from tenure.domain.names import MAX_PAYLOAD


def has_zstd() -> bool:
    try:
        compressed._zstd()
    except InvalidValue:
        return False
    return True


METHODS = ["zlib", *(["zstd"] if has_zstd() else [])]
NAMES = [f"{inner}.{method}" for inner in ("json", "msgpack") for method in METHODS]

WORDS = random.Random(7).choices([f"word{n}" for n in range(500)], k=120_000)
TEXT = " ".join(WORDS)
"""0.9 MB that packs about as well as prose does."""


class Mail(msgspec.Struct):
    to: str
    tries: int = 0


@pytest.fixture(params=NAMES)
def codec(request: pytest.FixtureRequest) -> Codec:
    return known_codecs().get(request.param)


def packed(codec: Codec, plain: bytes) -> bytes:
    method = Zlib() if codec.name.endswith("zlib") else Zstd()
    return method.pack(plain)


@pytest.mark.parametrize("value", [None, 1, -1.5, "é", [1, [2]], {"a": {"b": [True]}}, ["x" * 1_000] * 500])
def test_what_goes_in_comes_out(codec: Codec, value: object) -> None:
    assert codec.decode(codec.encode(value)) == value


def test_values_are_typed_and_checked_as_in_the_inner_codec(codec: Codec) -> None:
    assert codec.decode(codec.encode(Mail("a@b.example")), Mail) == Mail("a@b.example")
    with pytest.raises(InvalidValue, match="Expected `int`"):
        codec.decode(codec.encode({"to": "a", "tries": "many"}), Mail)
    with pytest.raises(InvalidValue, match="isn't a JSON number"):
        codec.encode(float("nan"))
    with pytest.raises(InvalidValue, match="deeper than 64"):
        codec.encode(nested(66))
    with pytest.raises(InvalidValue, match="payload"):
        codec.encode(object())


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth - 1):
        value = [value]
    return value


def test_a_poisonous_inside_is_an_error_of_its_own(codec: Codec) -> None:
    for plain in (b"\xc1", b"[" * 100_000 if codec.name.startswith("json") else b"\x91" * 100_000):
        with pytest.raises(InvalidValue, match="payload"):
            codec.decode(packed(codec, plain))


def test_the_limit_of_a_payload_holds_for_the_packed_bytes(codec: Codec) -> None:
    body = codec.encode(WORDS)
    assert len(body) <= MAX_PAYLOAD < len(TEXT)
    assert codec.decode(body) == WORDS
    with pytest.raises(InvalidValue, match=r"payload has .* bytes: at most 262144"):
        codec.encode(random.Random(1).randbytes(300_000).hex())
    with pytest.raises(InvalidValue, match=r"payload has .* bytes: at most 262144"):
        codec.decode(b"x" * (MAX_PAYLOAD + 1))


def test_the_names_are_what_a_record_may_carry(codec: Codec) -> None:
    job = NewJob(
        tenant="acme",
        id="00000000-0000-7000-8000-000000000001",
        queue="mail",
        job_type="send",
        payload=codec.encode({}),
        codec=codec.name,
    )
    assert job.codec == codec.name
    assert Succeed(codec.encode(1), codec.name).codec == codec.name


@pytest.mark.parametrize("damage", [b"", b"junk", "cut", "longer", "flipped"])
def test_damaged_bytes_are_refused(codec: Codec, damage: Any) -> None:
    body = codec.encode(TEXT[:10_000])
    damaged = {"cut": body[:-3], "longer": body + b"x", "flipped": body[:-1] + bytes([body[-1] ^ 1])}.get(
        damage, damage
    )
    with pytest.raises(InvalidValue, match=r"payload: (not|zlib|zstd)"):
        codec.decode(damaged)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_a_bomb_is_refused_before_it_is_unpacked(codec: Codec) -> None:
    bomb = packed(codec, b'"' + b"x" * (100 * 1024 * 1024) + b'"')
    assert len(bomb) <= MAX_PAYLOAD
    tracemalloc.reset_peak()
    with pytest.raises(InvalidValue, match="unpack to more than"):
        codec.decode(bomb)
    assert tracemalloc.get_traced_memory()[1] < 2.5 * MAX_PLAIN


@pytest.mark.usefixtures("traced")
def test_a_small_bomb_gets_no_more_than_its_size_allows(codec: Codec) -> None:
    bomb = packed(codec, b'"' + b"x" * (8 * 1024 * 1024) + b'"')
    assert len(bomb) < 9_000
    tracemalloc.reset_peak()
    with pytest.raises(InvalidValue, match=f"the {plain_limit(len(bomb))} that are allowed"):
        codec.decode(bomb)
    assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024


def test_what_could_not_be_decoded_is_not_encoded(codec: Codec) -> None:
    with pytest.raises(InvalidValue, match=r"unpack to more than .* send less, or a BlobRef"):
        codec.encode("x" * (2 * FREE_OF_RATIO))
    with pytest.raises(InvalidValue, match="at most 16777216"):
        codec.encode("x" * MAX_PLAIN)


def test_the_limits_meet() -> None:
    assert plain_limit(0) == plain_limit(FREE_OF_RATIO // MAX_RATIO) == FREE_OF_RATIO
    assert plain_limit(10_000) == 10_000 * MAX_RATIO
    assert plain_limit(MAX_PAYLOAD) == MAX_PLAIN
    exact = Compressed(JsonCodec(), Zlib())
    assert exact.decode(exact.encode("x" * 200_000)) == "x" * 200_000


def test_zlib_stops_exactly_at_the_limit() -> None:
    assert Zlib().unpack(zlib.compress(b"x" * 1_000), 1_000) == b"x" * 1_000
    assert len(Zlib().unpack(zlib.compress(b"x" * 1_000), 999)) == 1_000
    assert len(Zlib().unpack(zlib.compress(b"x" * 1_000_000), 999)) == 1_000


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed._zstd.cache_clear()
    for module in ("compression", "compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    codec = known_codecs().get("json.zstd")
    for call in (lambda: codec.encode(1), lambda: codec.decode(b"1")):
        with pytest.raises(InvalidValue, match=r"needs the extra 'zstd': pip install 'tenure\[zstd\]'"):
            call()


def test_an_unknown_codec_fails_clearly() -> None:
    with pytest.raises(
        InvalidValue, match=r"codec 'json.zlib2' isn't known here: known are json, json.zlib, .*msgpack"
    ):
        known_codecs().get("json.zlib2")
