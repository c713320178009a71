"""Blobs in an object store, and blob stores by their URL."""

import sys
from pathlib import Path

import obstore
import pytest

from tenure.blobs import BlobRef, DirectoryBlobs, MemoryBlobs, ObjectBlobs, open_blobs
from tenure.blobs.errors import BlobDamaged
from tenure.blobs.objects import PART
from tenure.domain.errors import InvalidValue, StoreUnavailable, Unsupported

from .kit import JOB, all_of, run, stream


@pytest.fixture
def blobs() -> ObjectBlobs:
    return ObjectBlobs("memory:///")


def path_of(ref: BlobRef) -> str:
    return f"{ref.tenant.encode().hex()}/{ref.owner}/{ref.id}"


def test_names_are_built_from_nobodys_text(blobs: ObjectBlobs) -> None:
    async def main() -> None:
        ref = await blobs.put("..", b"hello", owner=JOB)
        (chunk,) = [chunk async for chunk in obstore.list(blobs._objects)]
        assert [meta["path"] for meta in chunk] == [f"2e2e/{JOB}/{ref.id}"]

    run(main())


@pytest.mark.parametrize("size", [PART - 1, PART, PART + 1, 2 * PART])
def test_parts_meet_without_a_gap(blobs: ObjectBlobs, size: int) -> None:
    async def main() -> None:
        data = bytes(range(251)) * (size // 251 + 1)
        ref = await blobs.put("acme", stream(data[: size // 2], data[size // 2 : size]), owner=JOB)
        assert await blobs.read("acme", ref) == data[:size]

    run(main())


def test_an_object_that_was_changed_is_noticed(blobs: ObjectBlobs) -> None:
    async def main() -> None:
        ref = await blobs.put("acme", b"hello", owner=JOB)
        for found in (b"hellO", b"hell", b"hello!"):
            await obstore.put_async(blobs._objects, path_of(ref), found)
            with pytest.raises(BlobDamaged, match="its hash differs"):
                await blobs.read("acme", ref)

    run(main())


def test_strange_objects_are_passed_over(blobs: ObjectBlobs) -> None:
    async def main() -> None:
        ref = await blobs.put("acme", b"hello", owner=JOB)
        for path in ("readme", "a/b/c", f"{path_of(ref)}/more", path_of(ref).upper(), f"{b'_x'.hex()}/{JOB}/{ref.id}"):
            await obstore.put_async(blobs._objects, path, b"x")
        assert [info.key for info in await all_of(blobs, limit=2)] == [ref.key]

    run(main())


def test_an_object_store_that_is_away_is_told_without_its_url() -> None:
    blobs = ObjectBlobs(
        "s3://bucket/prefix",
        endpoint="http://127.0.0.1:1",
        access_key_id="a",
        secret_access_key="hidden",
        region="x",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(StoreUnavailable, match=r"the object store doesn't do its work \(\w+\)"):
        run(blobs.put("acme", b"x", owner=JOB))
    with pytest.raises(StoreUnavailable, match="the object store"):
        run(blobs.list())


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Unsupported, match=r"the extra 'blobs': pip install 'tenure\[blobs\]'"):
        open_blobs("s3://bucket/prefix")
    assert isinstance(open_blobs("memory://"), MemoryBlobs)


def test_blobs_by_url(tmp_path: Path) -> None:
    assert isinstance(open_blobs("memory://"), MemoryBlobs)
    found = open_blobs(f"file://{tmp_path}/with%20space")
    assert isinstance(found, DirectoryBlobs)
    assert found.path == tmp_path / "with space"
    assert isinstance(open_blobs("s3://bucket/prefix"), ObjectBlobs)


@pytest.mark.parametrize(
    "url",
    ["", "blobs", "/var/lib/blobs", "memory", "memory://x", "file://host/x", "file://", "file:///", "file:///x?y=1"],
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="blobs at"):
        open_blobs(url)


def test_a_password_in_a_url_isnt_shown() -> None:
    for url in ("ftp://user:hidden@host/x", "az://user:hidden@host"):
        with pytest.raises(InvalidValue) as refused:
            open_blobs(url)
        assert "hidden" not in str(refused.value)
