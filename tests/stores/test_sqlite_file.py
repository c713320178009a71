"""The SQLite file: what is refused, in words that say what to do, and the store unchanged."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tenure.domain.calls import Enqueued, JobView
from tenure.domain.errors import (
    JobNotFound,
    SchemaTooNew,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from tenure.domain.job import NewJob
from tenure.stores.sql.sqlite import SqliteStore
from tenure.stores.sql.sqlite.file import SCHEMA, StoreFile, filesystem_of

NOBODY = 65534


def job(number: int, payload: bytes = b"1") -> NewJob:
    return NewJob(
        tenant="acme", id=f"00000000-0000-7000-8000-{number:012x}", queue="mail", job_type="send", payload=payload
    )


def use(path: Path, what: Callable[[SqliteStore], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        store = SqliteStore(path)
        try:
            return await what(store)
        finally:
            await store.close()

    return asyncio.run(main())


def migrate(path: Path) -> None:
    use(path, lambda store: store.migrate())


def enqueue(path: Path, *jobs: NewJob) -> Any:
    return use(path, lambda store: store.enqueue(jobs))


def refused(path: Path, error: type[StoreError], match: str) -> None:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(error, match=match):
        migrate(path)
    with pytest.raises(error, match=match):
        enqueue(path, job(1))
    assert (path.read_bytes() if path.is_file() else None) == before


def test_migrate_makes_the_file_for_its_owner_only_and_may_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    migrate(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert enqueue(path, job(1)) == [Enqueued(job(1).id)]
    migrate(path)
    assert enqueue(path, job(1)) == [Enqueued(job(1).id)]


def test_without_migrate_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"doesn't exist yet: call migrate\(\)"):
        enqueue(tmp_path / "jobs.db", job(1))
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreUnavailable, match=r"no schema yet, or one of another version: call migrate\(\)"):
        enqueue(tmp_path / "empty.db", job(1))


def test_a_file_that_isnt_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look like one " * 100)
    refused(path, StoreCorrupt, "is not a SQLite file or is damaged")


def test_another_programs_file(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.close()
    refused(path, StoreCorrupt, "of another program")


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    migrate(path)
    enqueue(path, *(job(number) for number in range(200)))
    body = bytearray(path.read_bytes())
    body[4096 : 4096 * 40] = b"\xa5" * (4096 * 39)
    path.write_bytes(bytes(body))
    with pytest.raises(StoreCorrupt, match="damaged"):
        enqueue(path, job(1))


def test_a_schema_from_the_future(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    migrate(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    refused(path, SchemaTooNew, f"has schema 99, this Tenure knows up to {SCHEMA}: upgrade tenure")


def test_a_file_that_lost_its_name_takes_nothing_more(tmp_path: Path) -> None:
    """SQLite goes on with a deleted file, as if nothing had happened. Where another has its place, that one is used."""
    folder, other = tmp_path / "here", tmp_path / "other"
    path = folder / "jobs.db"
    gone = "it was deleted or moved while it was in use: nothing of this call was kept"
    for place in (folder, other):
        place.mkdir()
        migrate(place / "jobs.db")

    async def main(store: SqliteStore) -> None:
        await store.enqueue([job(1)])
        assert isinstance((await store.get([("acme", job(1).id)]))[0], JobView)
        path.rename(tmp_path / "moved.db")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=gone):
                await store.enqueue([job(2)])
            with pytest.raises(StoreUnavailable, match=gone):
                await store.get([("acme", job(1).id)])
        (tmp_path / "moved.db").rename(path)
        with pytest.raises(StoreUnavailable, match=f"another file has taken its place; {gone}"):
            async with store.transaction() as opened:
                opened.enqueue([job(3)])
                folder.rename(tmp_path / "moved")
                other.rename(folder)
        assert await store.enqueue([job(4)]) == [Enqueued(job(4).id)]
        assert await store.get([("acme", job(1).id)]) == [JobNotFound()]

    use(path, main)
    (view,) = use(path, lambda store: store.get([("acme", job(4).id)]))
    assert isinstance(view, JobView)


def test_a_folder_and_a_missing_folder(tmp_path: Path) -> None:
    refused(tmp_path, StoreUnavailable, "is a folder")
    refused(tmp_path / "no" / "jobs.db", StoreUnavailable, "its folder doesn't exist")


def test_a_file_without_permission(tmp_path: Path) -> None:
    """Asked by a child that isn't root: root may do everything."""
    path = tmp_path / "jobs.db"
    migrate(path)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(_told_as_nobody(path, writing))
    os.close(writing)
    with os.fdopen(reading) as told:
        answer = told.read()
    os.waitpid(child, 0)
    tmp_path.chmod(0o755)
    assert answer.startswith("StoreUnavailable"), answer
    assert "check who owns the file and its folder" in answer


def _told_as_nobody(path: Path, writing: int) -> int:
    try:
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        enqueue(path, job(1))
        told = "enqueued"
    except BaseException as error:
        told = f"{type(error).__name__}: {error}"
    os.write(writing, told.encode())
    return 0


def test_a_full_disk_keeps_nothing_of_the_call_and_loses_nothing_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    migrate(path)
    enqueue(path, job(1))
    connect = StoreFile.connect

    def small(self: StoreFile) -> sqlite3.Connection:
        connection = connect(self)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        return connection

    async def fill(store: SqliteStore) -> Any:
        with pytest.raises(StoreFull, match="no room left"):
            await store.enqueue([job(number, b"x" * 200_000) for number in range(2, 5)])
        small_one = await store.enqueue([job(9)])
        return small_one, await store.get([("acme", job(number).id) for number in (1, 2, 3, 9)])

    with monkeypatch.context() as patched:
        patched.setattr(StoreFile, "connect", small)
        enqueued, (first, second, third, ninth) = use(path, fill)
    assert enqueued == [Enqueued(job(9).id)]
    assert [getattr(view, "payload", None) for view in (first, second, third, ninth)] == [b"1", None, None, b"1"]
    assert use(path, lambda store: store.verify()) == []


def test_another_program_that_holds_the_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    migrate(path)
    monkeypatch.setattr("tenure.stores.sql.sqlite.file.BUSY_MS", 10)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreUnavailable, match="held by another program's transaction"):
            enqueue(path, job(1))
    finally:
        other.close()
    assert enqueue(path, job(1)) == [Enqueued(job(1).id)]


MOUNTS = """22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /mnt/share rw - nfs4 server:/export rw
31 30 0:27 / /mnt/share/local\\040disk rw - xfs /dev/vdb rw
32 22 0:28 / /mnt/sharepoint rw - btrfs /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/down", "nfs4"),
        ("/mnt/share/local disk/x", "xfs"),
        ("/mnt/sharepoint", "btrfs"),
    ],
)
def test_the_filesystem_is_told_by_the_longest_mount(path: str, kind: str) -> None:
    assert filesystem_of(path, MOUNTS) == kind
    assert filesystem_of(path, "") is None


def test_a_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = f"30 22 0:26 / {tmp_path.resolve()} rw - nfs4 server:/export rw\n"
    monkeypatch.setattr("tenure.stores.sql.sqlite.file._mounts", lambda: mounts)
    refused(tmp_path / "jobs.db", StoreUnavailable, r"network filesystem \(nfs4\)")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        await store.close()
        with pytest.raises(StoreUnavailable, match="was closed"):
            await store.enqueue([job(1)])

    asyncio.run(main())
