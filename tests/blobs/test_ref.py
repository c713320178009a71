"""References travel in payloads, and a forged one is refused where it comes in."""

import msgspec
import pytest

from tenure.blobs import BlobRef
from tenure.blobs.ref import expiry_of, owner_until
from tenure.codecs import known_codecs
from tenure.domain.errors import InvalidValue

from .kit import JOB

REF = BlobRef(tenant="acme", owner=JOB, id="0f" * 16, size=5, sha256="ab" * 32, content_type="text/plain")


class Arguments(msgspec.Struct):
    video: BlobRef
    more: list[BlobRef] = []


@pytest.mark.parametrize("codec", ["json", "msgpack", "json.zlib", "msgpack.zlib"])
def test_a_reference_goes_through_every_codec(codec: str) -> None:
    known = known_codecs().get(codec)
    sent = Arguments(REF, [REF, REF])
    assert known.decode(known.encode(sent), Arguments) == sent
    assert known.decode(known.encode(REF), BlobRef) == REF


FORGED = [
    {"id": "../../../../etc/passwd"},
    {"id": "/etc/passwd"},
    {"id": "0f" * 15 + ".."},
    {"id": "0F" * 16},
    {"id": "0f" * 16 + "\0"},
    {"id": ""},
    {"owner": "../" + JOB},
    {"owner": ".."},
    {"owner": "until-../../../../../"},
    {"tenant": "../acme"},
    {"tenant": "_system"},
    {"tenant": "acme/../globex"},
    {"tenant": ""},
    {"size": -1},
    {"size": 1 << 60},
    {"sha256": "ab"},
    {"sha256": "zz" * 32},
    {"content_type": "text/html\r\nSet-Cookie: a=b"},
    {"content_type": "<script>"},
    {"content_type": ""},
]


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_reference_is_refused(codec: str, forged: dict[str, object]) -> None:
    known = known_codecs().get(codec)
    body = known.encode({"video": {**msgspec.to_builtins(REF), **forged}})
    with pytest.raises(InvalidValue, match=r"give|Expected|belong to the store"):
        known.decode(body, Arguments)


@pytest.mark.parametrize(
    "good", ["text/plain", "text/plain; charset=utf-8", "application/vnd.api+json", "image/svg+xml"]
)
def test_content_types(good: str) -> None:
    assert msgspec.structs.replace(REF, content_type=good).content_type == good


def test_an_owner_says_until_when() -> None:
    assert owner_until(1_800_000_000_000) == "until-001800000000000"
    assert expiry_of(owner_until(1_800_000_000_000)) == 1_800_000_000_000
    assert expiry_of(JOB) is None
    with pytest.raises(InvalidValue):
        owner_until(-1)
    with pytest.raises(InvalidValue):
        expiry_of("until-1")
