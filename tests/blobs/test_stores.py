"""What every blob store does, the same."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenure.blobs import BlobKey, BlobNotFound, BlobRef, BlobStore
from tenure.blobs.errors import BlobDamaged
from tenure.domain.errors import InvalidValue

from .kit import JOB, OTHER_JOB, STORES, all_of, run, stream

LARGE = bytes(range(256)) * 50_000
"""12.8 MB: several pieces, and several parts of an upload."""


@pytest.fixture(params=STORES)
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return STORES[request.param](tmp_path)


@pytest.mark.parametrize("data", [b"", b"hello", LARGE], ids=["empty", "small", "large"])
@pytest.mark.parametrize("way", ["bytes", "stream", "path"])
def test_what_is_put_is_read(blobs: BlobStore, tmp_path: Path, data: bytes, way: str) -> None:
    async def main() -> None:
        source: Any = data
        if way == "stream":
            source = stream(data[:3], b"", data[3:])
        elif way == "path":
            source = tmp_path / "upload"
            source.write_bytes(data)
        ref = await blobs.put("acme", source, owner=JOB, content_type="text/plain")
        assert (ref.tenant, ref.owner, ref.size) == ("acme", JOB, len(data))
        assert ref.sha256 == hashlib.sha256(data).hexdigest()
        assert ref.content_type == "text/plain"
        assert await blobs.read("acme", ref) == data
        async with blobs.open("acme", ref) as pieces:
            assert b"".join([piece async for piece in pieces]) == data

    run(main())


def test_metadata_tells_that_it_is_there_and_since_when(blobs: BlobStore) -> None:
    async def main() -> None:
        ref = await blobs.put("acme", b"hello", owner=JOB)
        info = await blobs.metadata("acme", ref)
        assert (info.key, info.size) == (ref.key, 5)
        assert abs(info.stored_at - time.time() * 1_000) < 60_000

    run(main())


def test_a_deleted_blob_is_gone_and_may_be_deleted_again(blobs: BlobStore) -> None:
    async def main() -> None:
        ref, kept = await blobs.put("acme", b"a", owner=JOB), await blobs.put("acme", b"b", owner=JOB)
        await blobs.delete([ref.key])
        await blobs.delete([ref.key])
        await not_found(blobs, "acme", ref)
        assert await blobs.read("acme", kept) == b"b"

    run(main())


async def not_found(blobs: BlobStore, tenant: str, ref: BlobRef) -> None:
    """The same answer from every verb."""
    with pytest.raises(BlobNotFound, match="no such blob in this tenant"):
        await blobs.read(tenant, ref)
    with pytest.raises(BlobNotFound, match="no such blob in this tenant"):
        async with blobs.open(tenant, ref):
            raise AssertionError("it was opened")
    with pytest.raises(BlobNotFound, match="no such blob in this tenant"):
        await blobs.metadata(tenant, ref)


def test_another_tenants_blob_isnt_found_whatever_the_reference_says(blobs: BlobStore) -> None:
    async def main() -> None:
        ref = await blobs.put("acme", b"secret", owner=JOB)
        await not_found(blobs, "globex", ref)
        await not_found(blobs, "globex", msgspec.structs.replace(ref, tenant="globex"))
        await not_found(blobs, "acme", msgspec.structs.replace(ref, owner=OTHER_JOB))
        await not_found(blobs, "acme", msgspec.structs.replace(ref, id="0" * 32))
        await not_found(blobs, "ACME", msgspec.structs.replace(ref, tenant="ACME"))

    run(main())


def test_a_tenants_name_is_only_a_name(blobs: BlobStore) -> None:
    """`.` and `..` are names of tenants like any other."""

    async def main() -> None:
        refs = [await blobs.put(tenant, tenant.encode(), owner=JOB) for tenant in ("..", ".", "...", "a.b-c", "A" * 64)]
        for ref in refs:
            assert await blobs.read(ref.tenant, ref) == ref.tenant.encode()
        assert {info.key for info in await all_of(blobs)} == {ref.key for ref in refs}

    run(main())


def test_puts_at_once_dont_disturb_each_other(blobs: BlobStore) -> None:
    async def main() -> None:
        contents = [bytes([n]) * (n * 1_000) for n in range(60)]
        refs = await asyncio.gather(*(blobs.put("acme", content, owner=JOB) for content in contents))
        assert len({ref.id for ref in refs}) == 60
        assert await asyncio.gather(*(blobs.read("acme", ref) for ref in refs)) == contents

    run(main())


def test_an_id_given_twice_is_one_blob(blobs: BlobStore) -> None:
    async def main() -> None:
        puts = (blobs.put("acme", LARGE, owner=JOB, id="a" * 32) for _ in range(3))
        first, *others = await asyncio.gather(*puts)
        assert others == [first, first]
        assert [info.key for info in await all_of(blobs)] == [first.key]
        assert await blobs.read("acme", first) == LARGE

    run(main())


class Broken(Exception):
    pass


async def breaking(data: bytes) -> AsyncIterator[bytes]:
    yield data
    raise Broken("the source broke")


@pytest.mark.parametrize("data", [b"x", LARGE], ids=["small", "large"])
def test_a_source_that_breaks_leaves_nothing(blobs: BlobStore, data: bytes) -> None:
    async def main() -> None:
        with pytest.raises(Broken, match="the source broke"):
            await blobs.put("acme", breaking(data), owner=JOB)
        assert await all_of(blobs) == []

    run(main())


def test_a_file_that_isnt_there_is_its_own_error(blobs: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run(blobs.put("acme", tmp_path / "nowhere", owner=JOB))


def test_too_much_is_refused_on_the_way_in(blobs: BlobStore) -> None:
    async def main() -> None:
        with pytest.raises(InvalidValue, match="more than the 20000000 bytes"):
            await blobs.put("acme", stream(LARGE, LARGE), owner=JOB)
        assert await all_of(blobs) == []

    run(main())


@pytest.mark.parametrize("data", ["text", 1, None, [b"a"]])
def test_what_isnt_bytes_is_refused(blobs: BlobStore, data: Any) -> None:
    with pytest.raises(InvalidValue, match="give bytes, a Path or an async iterator"):
        run(blobs.put("acme", data, owner=JOB))


def test_a_stream_of_something_else_is_refused(blobs: BlobStore) -> None:
    async def main() -> None:
        with pytest.raises(InvalidValue, match="the iterator gave str"):
            await blobs.put("acme", stream(b"a", "b"), owner=JOB)  # type: ignore[arg-type]  # on purpose
        assert await all_of(blobs) == []

    run(main())


def test_a_cancelled_put_leaves_nothing(blobs: BlobStore) -> None:
    async def main() -> None:
        under_way = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield LARGE
            under_way.set()
            await asyncio.Event().wait()

        put = asyncio.create_task(blobs.put("acme", endless(), owner=JOB))
        await under_way.wait()
        put.cancel()
        with pytest.raises(asyncio.CancelledError):
            await put
        assert await all_of(blobs) == []

    run(main())


def test_a_reference_that_lies_about_its_bytes_gets_none(blobs: BlobStore) -> None:
    """As if the stored bytes had changed: the reference is the truth."""

    async def main() -> None:
        ref = await blobs.put("acme", b"hello", owner=JOB)
        for lie in ({"sha256": "0" * 64}, {"size": 4}, {"size": 6}):
            with pytest.raises(BlobDamaged, match="isn't what was put"):
                await blobs.read("acme", msgspec.structs.replace(ref, **lie))

    run(main())


def test_of_a_damaged_blob_the_last_piece_never_comes(blobs: BlobStore) -> None:
    async def main() -> None:
        ref = await blobs.put("acme", LARGE, owner=JOB)
        lie, got = msgspec.structs.replace(ref, sha256="0" * 64), 0
        with pytest.raises(BlobDamaged, match="its hash differs"):
            async with blobs.open("acme", lie) as pieces:
                async for piece in pieces:
                    got += len(piece)
        assert got < len(LARGE)

    run(main())


def test_a_reader_may_stop_early(blobs: BlobStore) -> None:
    async def main() -> None:
        ref = await blobs.put("acme", LARGE, owner=JOB)
        async with blobs.open("acme", ref) as pieces:
            async for _ in pieces:
                break
        assert await blobs.read("acme", ref) == LARGE

    run(main())


@pytest.mark.parametrize("limit", [1, 3, 500])
def test_a_list_has_everything_once(blobs: BlobStore, limit: int) -> None:
    async def main() -> None:
        assert await all_of(blobs) == []
        keys = set()
        for tenant in ("acme", "globex", ".."):
            for owner in (JOB, OTHER_JOB, "until-000001800000000"):
                keys |= {(await blobs.put(tenant, b"x", owner=owner)).key for _ in range(2)}
        found = [info.key for info in await all_of(blobs, limit)]
        assert len(found) == len(keys) == 18
        assert set(found) == keys

    run(main())


@pytest.mark.parametrize(
    "key",
    [
        ("", JOB, "a" * 32),
        ("a/b", JOB, "a" * 32),
        ("_system", JOB, "a" * 32),
        ("acme", "../../etc", "a" * 32),
        ("acme", "until-1", "a" * 32),
        ("acme", JOB.upper().replace("0", "A"), "a" * 32),
        ("acme", JOB, "../../../../etc/passwd"),
        ("acme", JOB, "a" * 31),
        ("acme", JOB, "A" * 32),
        ("acme", JOB, "a" * 32 + "\n"),
    ],
)
def test_no_key_names_anything_but_a_blob(blobs: BlobStore, key: tuple[str, str, str]) -> None:
    tenant, owner, id = key
    with pytest.raises(InvalidValue):
        run(blobs.put(tenant, b"x", owner=owner, id=id))
    with pytest.raises(InvalidValue):
        BlobKey(tenant, owner, id)


@pytest.mark.parametrize("limit", [0, 1_001])
def test_pages_are_bounded(blobs: BlobStore, limit: int) -> None:
    with pytest.raises(InvalidValue, match="limit"):
        run(blobs.list(limit=limit))
