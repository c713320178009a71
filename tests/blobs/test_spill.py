"""Large payloads and results go to a blob and come back as they were."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from tenure.blobs import BlobNotFound, DirectoryBlobs, MemoryBlobs
from tenure.blobs.directory import Place
from tenure.blobs.errors import BlobDamaged
from tenure.blobs.spill import (
    PAYLOAD_THRESHOLD,
    Body,
    inner_codec,
    is_spilled,
    respill,
    spill,
    spill_payload,
    unspill,
)
from tenure.codecs import known_codecs
from tenure.domain.calls import Succeed
from tenure.domain.errors import InvalidValue, NotReady
from tenure.domain.job import NewJob
from tenure.domain.names import MAX_PAYLOAD

from .kit import JOB, OTHER_JOB, all_of, run

LARGE = Body(b'"' + b"x" * 200_000 + b'"', "json")


def job(id: str, body: Body) -> NewJob:
    return NewJob(tenant="acme", id=id, queue="q", job_type="t", payload=body.content, codec=body.codec)


@pytest.mark.parametrize("codec", ["json", "msgpack", "json.zlib"])
def test_what_is_spilled_comes_back(codec: str) -> None:
    async def main() -> None:
        blobs, body = MemoryBlobs(), Body(LARGE.content, codec)
        spilled = await spill(blobs, "acme", JOB, body, 100)
        assert spilled.codec == f"{codec}.blob"
        assert len(spilled.content) < 120
        assert is_spilled(spilled.codec)
        assert inner_codec(spilled.codec) == codec
        assert Succeed(spilled.content, spilled.codec).codec == spilled.codec
        assert await unspill(blobs, "acme", JOB, spilled) == body

    run(main())


def test_what_is_small_stays() -> None:
    async def main() -> None:
        blobs = MemoryBlobs()
        at_threshold = Body(b"x" * 100, "json")
        assert await spill(blobs, "acme", JOB, at_threshold, 100) is at_threshold
        assert await spill(None, "acme", JOB, LARGE, 100) is LARGE
        assert await unspill(None, "acme", JOB, LARGE) is LARGE
        assert await all_of(blobs) == []
        assert is_spilled((await spill(blobs, "acme", JOB, Body(b"x" * 101, "json"), 100)).codec)

    run(main())


def test_a_payload_keeps_its_fingerprint_whatever_the_id() -> None:
    """Or the same call under the same key would be another body."""

    async def main() -> None:
        blobs = MemoryBlobs()
        one, two = [await spill_payload(blobs, job(id, LARGE)) for id in (JOB, OTHER_JOB)]
        assert one.codec == "json.blob"
        assert one.fingerprint == two.fingerprint
        assert {info.key.owner for info in await all_of(blobs)} == {JOB, OTHER_JOB}
        other = await spill_payload(blobs, job(JOB, Body(LARGE.content.replace(b"xx", b"y", 1), "json")))
        assert other.fingerprint != one.fingerprint
        assert (await unspill(blobs, "acme", JOB, Body(one.payload, one.codec))) == LARGE

    run(main())


def test_a_small_payload_is_the_same_job() -> None:
    async def main() -> None:
        small = job(JOB, Body(b"x" * PAYLOAD_THRESHOLD, "json"))
        assert await spill_payload(MemoryBlobs(), small) is small
        large = job(JOB, LARGE)
        assert await spill_payload(None, large) is large

    run(main())


def test_a_reference_leads_to_its_own_job_only() -> None:
    async def main() -> None:
        blobs = MemoryBlobs()
        spilled = await spill(blobs, "acme", JOB, LARGE, 100)
        for tenant, id in (("acme", OTHER_JOB), ("globex", JOB)):
            with pytest.raises(BlobNotFound):
                await unspill(blobs, tenant, id, spilled)

    run(main())


def test_changed_bytes_are_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        blobs = DirectoryBlobs(tmp_path)
        spilled = await spill(blobs, "acme", JOB, LARGE, 100)
        (info,) = await all_of(blobs)
        file = tmp_path.joinpath(*Place.of(info.key))
        file.write_bytes(LARGE.content.replace(b"xx", b"xy", 1))
        with pytest.raises(BlobDamaged):
            await unspill(blobs, "acme", JOB, spilled)

    run(main())


SHA = hashlib.sha256(b"x").hexdigest()


@pytest.mark.parametrize(
    "reference",
    [
        b"",
        b"{}",
        b"[]",
        b'"x"',
        msgspec.json.encode({"sha256": "../../etc/passwd", "size": 1}),
        msgspec.json.encode({"sha256": SHA.upper(), "size": 1}),
        msgspec.json.encode({"sha256": SHA, "size": -1}),
        msgspec.json.encode({"sha256": SHA, "size": MAX_PAYLOAD + 1}),
        msgspec.json.encode({"sha256": SHA, "size": "1"}),
    ],
)
def test_a_reference_that_is_none_is_refused(reference: bytes) -> None:
    with pytest.raises(InvalidValue):
        run(unspill(MemoryBlobs(), "acme", JOB, Body(reference, "json.blob")))


def test_without_a_blob_store_the_error_says_what_to_do() -> None:
    with pytest.raises(NotReady, match="TENURE_BLOBS"):
        run(unspill(None, "acme", JOB, Body(b"{}", "json.blob")))


def test_a_reference_isnt_referred_to() -> None:
    with pytest.raises(InvalidValue, match="for references"):
        run(spill(MemoryBlobs(), "acme", JOB, Body(b"x", "json.blob"), 100))
    for codec in ("json.blob", "json.blob.blob"):
        with pytest.raises(InvalidValue, match="isn't known here"):
            known_codecs().get(codec)


def test_more_than_a_payload_isnt_spilled() -> None:
    with pytest.raises(InvalidValue, match="body has"):
        run(spill(MemoryBlobs(), "acme", JOB, Body(b"x" * (MAX_PAYLOAD + 1), "json"), 100))


def test_a_replayed_job_gets_a_copy_of_its_own() -> None:
    async def main() -> None:
        blobs = MemoryBlobs()
        spilled = await spill(blobs, "acme", JOB, LARGE, 100)
        await respill(blobs, "acme", JOB, OTHER_JOB, spilled)
        await blobs.delete([info.key for info in await all_of(blobs) if info.key.owner == JOB])
        assert await unspill(blobs, "acme", OTHER_JOB, spilled) == LARGE
        await respill(None, "acme", JOB, OTHER_JOB, LARGE)

    run(main())
