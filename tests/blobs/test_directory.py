"""Blobs as files: whole or absent whatever happens, and nothing outside the folder."""

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenure.blobs import BlobNotFound, BlobRef, DirectoryBlobs
from tenure.blobs.directory import UNFINISHED, Place
from tenure.blobs.errors import BlobDamaged
from tenure.domain.errors import InvalidValue, StoreFull, StoreUnavailable

from .kit import JOB, all_of, run, stream


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def blobs(folder: Path) -> DirectoryBlobs:
    return DirectoryBlobs(folder)


def put(blobs: DirectoryBlobs, data: bytes = b"hello", tenant: str = "acme") -> BlobRef:
    return run(blobs.put(tenant, data, owner=JOB))


def file_of(folder: Path, ref: BlobRef) -> Path:
    return folder.joinpath(*Place.of(ref.key))


def test_only_its_owner_can_read_it(folder: Path, blobs: DirectoryBlobs) -> None:
    file = file_of(folder, put(blobs))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for above in (file.parent, file.parent.parent, folder, folder / UNFINISHED):
        assert stat.S_IMODE(above.stat().st_mode) == 0o700


def test_names_are_built_from_nobodys_text(folder: Path, blobs: DirectoryBlobs) -> None:
    ref = put(blobs, tenant="..")
    assert file_of(folder, ref).relative_to(folder).parts == ("2e2e", "01", f"{JOB}.{ref.id}")
    assert file_of(folder, ref).read_bytes() == b"hello"


@pytest.mark.parametrize("found", [b"hellO", b"hell", b"hello!", b""])
def test_a_file_that_was_changed_is_noticed(folder: Path, blobs: DirectoryBlobs, found: bytes) -> None:
    ref = put(blobs)
    file_of(folder, ref).write_bytes(found)
    with pytest.raises(BlobDamaged, match="its hash differs"):
        run(blobs.read("acme", ref))


def test_a_file_that_grows_while_it_is_read_is_noticed(folder: Path, blobs: DirectoryBlobs) -> None:
    ref = put(blobs, b"x" * 600_000)

    async def main() -> None:
        async with blobs.open("acme", ref) as pieces:
            await anext(pieces)
            with file_of(folder, ref).open("ab") as file:
                file.write(b"y" * 600_000)
            with pytest.raises(BlobDamaged, match="its hash differs"):
                async for _ in pieces:
                    pass

    run(main())


# Links


def test_a_link_in_the_place_of_a_blob_isnt_followed(folder: Path, blobs: DirectoryBlobs, tmp_path: Path) -> None:
    ref = put(blobs)
    (tmp_path / "secret").write_bytes(b"hello")
    file_of(folder, ref).unlink()
    file_of(folder, ref).symlink_to(tmp_path / "secret")
    with pytest.raises(BlobDamaged, match="a link or a file stands where"):
        run(blobs.read("acme", ref))
    with pytest.raises(BlobDamaged, match="a link or a file stands where"):
        run(blobs.metadata("acme", ref))
    assert run(all_of(blobs)) == []
    run(blobs.delete([ref.key]))
    assert (tmp_path / "secret").read_bytes() == b"hello"


@pytest.mark.parametrize("depth", [1, 2])
def test_a_link_in_the_place_of_a_folder_isnt_followed(
    folder: Path, blobs: DirectoryBlobs, tmp_path: Path, depth: int
) -> None:
    ref = put(blobs)
    link = file_of(folder, ref).parents[2 - depth]
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.joinpath("elsewhere").rglob("*"))
    for call in (
        lambda: blobs.read("acme", ref),
        lambda: blobs.metadata("acme", ref),
        lambda: blobs.put("acme", b"x", owner=JOB),
        lambda: blobs.delete([ref.key]),
    ):
        with pytest.raises(BlobDamaged, match="a link or a file stands where"):
            run(call())
    assert run(all_of(blobs)) == []
    assert sorted(tmp_path.joinpath("elsewhere").rglob("*")) == before


def test_another_tenants_folder_can_not_be_linked_in(folder: Path, blobs: DirectoryBlobs) -> None:
    secret = put(blobs, b"secret", tenant="globex")
    (folder / b"acme".hex()).symlink_to(folder / b"globex".hex())
    with pytest.raises(BlobDamaged):
        run(blobs.read("acme", msgspec.structs.replace(secret, tenant="acme")))


def test_a_pipe_in_the_place_of_a_blob_doesnt_hang(folder: Path, blobs: DirectoryBlobs) -> None:
    ref = put(blobs)
    file_of(folder, ref).unlink()
    os.mkfifo(file_of(folder, ref))
    with pytest.raises(BlobDamaged, match="no plain file"):
        run(asyncio.wait_for(blobs.read("acme", ref), 10))


# Crashes

DIES = """
import asyncio, os, signal, sys
from tenure.blobs import DirectoryBlobs

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

async def pieces():
    yield b"x" * 1_000_000
    if sys.argv[2] == "source":
        die()

if sys.argv[2] != "source":
    setattr(os, sys.argv[2], die)
asyncio.run(DirectoryBlobs(sys.argv[1]).put("acme", pieces(), owner=sys.argv[3]))
"""


@pytest.mark.parametrize("where", ["source", "fsync", "rename"])
def test_a_put_that_is_killed_leaves_nothing_to_see(folder: Path, blobs: DirectoryBlobs, where: str) -> None:
    kept = put(blobs)
    done = subprocess.run([sys.executable, "-c", DIES, str(folder), where, JOB], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [info.key for info in run(all_of(blobs))] == [kept.key]
    (left,) = (folder / UNFINISHED).iterdir()

    async def main() -> None:
        written = left.stat().st_mtime_ns // 1_000_000
        assert await blobs.clean(written) == 0
        assert left.exists()
        assert await blobs.clean(written + 1) == 1
        assert not left.exists()
        assert await blobs.read("acme", kept) == b"hello"

    run(main())


def test_the_bytes_reach_the_disk_before_the_name(
    folder: Path, blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(blobs)
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(file: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        fsync(file)

    def noted_rename(*args: Any, **kwargs: Any) -> None:
        calls.append("rename")
        rename(*args, **kwargs)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    put(blobs)
    assert calls == ["file", "rename", "folder"]


def test_a_finished_put_leaves_no_more_than_the_blob(folder: Path, blobs: DirectoryBlobs) -> None:
    put(blobs)
    assert list((folder / UNFINISHED).iterdir()) == []


@pytest.mark.parametrize(
    ("call", "code", "error"),
    [
        ("write", errno.ENOSPC, StoreFull),
        ("fsync", errno.EDQUOT, StoreFull),
        ("fsync", errno.EIO, StoreUnavailable),
        ("rename", errno.EACCES, StoreUnavailable),
    ],
)
def test_a_disk_that_refuses_is_told_and_nothing_stays(
    folder: Path,
    blobs: DirectoryBlobs,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    code: int,
    error: type[Exception],
) -> None:
    put(blobs)

    def refuses(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuses)
    with pytest.raises(error, match=str(folder)):
        put(blobs)
    monkeypatch.undo()
    assert len(run(all_of(blobs))) == 1
    assert list((folder / UNFINISHED).iterdir()) == []


def test_short_writes_are_gone_on_with(blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:1_000]))
    ref = put(blobs, b"ab" * 5_000)
    assert run(blobs.read("acme", ref)) == b"ab" * 5_000


def test_a_put_cancelled_while_a_thread_writes_waits_for_it(
    folder: Path, blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file closed under a thread that writes to it might be anyone's by the time it does."""
    writes, goes_on = threading.Event(), threading.Event()
    write = os.write

    def slow_write(file: int, data: bytes) -> int:
        writes.set()
        assert goes_on.wait(10)
        return write(file, data)

    async def main() -> None:
        putting = asyncio.create_task(blobs.put("acme", stream(b"x"), owner=JOB))
        assert await asyncio.to_thread(writes.wait, 10)
        for _ in range(3):
            putting.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not putting.done()
            assert len(list((folder / UNFINISHED).iterdir())) == 1
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await putting

    monkeypatch.setattr(os, "write", slow_write)
    try:
        run(main())
    finally:
        goes_on.set()
        monkeypatch.undo()
    assert run(all_of(blobs)) == []
    assert list((folder / UNFINISHED).iterdir()) == []


# The folder


def test_strange_files_are_passed_over(folder: Path, blobs: DirectoryBlobs) -> None:
    ref = put(blobs)
    file = file_of(folder, ref)
    (folder / "README").touch()
    (folder / "not-hex").mkdir()
    (folder / "zz").mkdir()
    (folder / b"_system".hex() / "01").mkdir(parents=True)
    (folder / b"_system".hex() / "01" / file.name).touch()
    (file.parent / "notes.txt").touch()
    (file.parent / f"{file.name}.bak").touch()
    (file.parent.parent / "02").mkdir()
    (file.parent.parent / "02" / file.name).touch()
    (file.parent.parent / "xyz").mkdir()
    assert [info.key for info in run(all_of(blobs))] == [ref.key]


def test_nothing_is_there_before_the_first_put(folder: Path, blobs: DirectoryBlobs) -> None:
    async def main() -> None:
        assert await all_of(blobs) == []
        assert await blobs.clean(1 << 50) == 0
        ref = BlobRef(tenant="acme", owner=JOB, id="0" * 32, size=0, sha256="0" * 64)
        await blobs.delete([ref.key])
        with pytest.raises(BlobNotFound):
            await blobs.read("acme", ref)

    run(main())
    assert not folder.exists()


def test_a_place_that_cant_hold_it_is_refused_with_words(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="check that it can be written"):
        put(DirectoryBlobs(tmp_path / "no" / "such"))
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="File exists"):
        put(DirectoryBlobs(tmp_path / "file"))


def test_a_cursor_of_someone_else_is_refused(blobs: DirectoryBlobs) -> None:
    with pytest.raises(InvalidValue, match="cursor"):
        run(blobs.list(after="x"))
