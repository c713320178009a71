"""Blobs as handlers and producers see them."""

import math
from typing import Any

import pytest

from tenure.blobs import BlobNotFound, ContextBlobs, MemoryBlobs, TenantBlobs
from tenure.domain.errors import InvalidValue
from tenure.testing.clock import START, ManualClock

from .kit import JOB, OTHER_JOB, run, stream


def test_what_a_handler_puts_belongs_to_its_job() -> None:
    async def main() -> None:
        store = MemoryBlobs()
        blobs = ContextBlobs(store, "acme", JOB)
        ref = await blobs.put(stream(b"he", b"llo"), content_type="text/plain")
        assert (ref.tenant, ref.owner, ref.content_type) == ("acme", JOB, "text/plain")
        assert await blobs.read(ref) == b"hello"
        assert (await blobs.metadata(ref)).size == 5
        async with blobs.open(ref) as pieces:
            assert [piece async for piece in pieces] == [b"hello"]
        assert await ContextBlobs(store, "acme", OTHER_JOB).read(ref) == b"hello"
        await blobs.delete(ref)
        with pytest.raises(BlobNotFound):
            await blobs.read(ref)

    run(main())


def test_another_tenants_reference_is_refused_everywhere() -> None:
    async def main() -> None:
        store = MemoryBlobs()
        ref = await ContextBlobs(store, "acme", JOB).put(b"secret")
        for foreign in (ContextBlobs(store, "globex", JOB), TenantBlobs(store, "globex")):
            for call in (foreign.read, foreign.metadata, foreign.delete):
                with pytest.raises(BlobNotFound):
                    await call(ref)
            with pytest.raises(BlobNotFound):
                async with foreign.open(ref):
                    raise AssertionError("it was opened")
        with pytest.raises(BlobNotFound):
            await ContextBlobs(store, "globex", JOB).keep(ref)
        assert await ContextBlobs(store, "acme", JOB).read(ref) == b"secret"

    run(main())


def test_a_job_can_keep_what_another_made() -> None:
    async def main() -> None:
        store = MemoryBlobs()
        made = await ContextBlobs(store, "acme", JOB).put(b"hello", content_type="text/plain")
        kept = await ContextBlobs(store, "acme", OTHER_JOB).keep(made)
        assert (kept.owner, kept.sha256, kept.content_type) == (OTHER_JOB, made.sha256, "text/plain")
        await store.delete([made.key])
        assert await TenantBlobs(store, "acme").read(kept) == b"hello"

    run(main())


def test_a_producer_says_how_long_a_blob_lives() -> None:
    async def main() -> None:
        blobs = TenantBlobs(MemoryBlobs(), "acme", ManualClock())
        assert (await blobs.put(b"x", job_id=JOB)).owner == JOB
        assert (await blobs.put(b"x", ttl=1.5)).owner == f"until-{START + 1_500:015d}"

    run(main())


@pytest.mark.parametrize(
    "lives",
    [
        {},
        {"job_id": JOB, "ttl": 1},
        {"job_id": "../x"},
        {"job_id": "until-000001800000000"},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": math.inf},
        {"ttl": math.nan},
        {"ttl": 1e12},
    ],
)
def test_a_blob_for_nobody_is_refused(lives: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=r"put|job_id|ttl"):
        run(TenantBlobs(MemoryBlobs(), "acme").put(b"x", **lives))


def test_views_are_of_one_tenant() -> None:
    with pytest.raises(InvalidValue):
        TenantBlobs(MemoryBlobs(), "_system")
    with pytest.raises(InvalidValue):
        ContextBlobs(MemoryBlobs(), "acme", "../x")
