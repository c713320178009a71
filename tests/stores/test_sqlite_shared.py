"""One view for several processes: who keeps it, until when, and that nothing is left of it."""

import asyncio
import fcntl
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.domain.calls import JobFilter
from tenure.domain.errors import InvalidValue, SnapshotExpired, StoreCorrupt, StoreFull, StoreUnavailable
from tenure.domain.store import Snapshot
from tenure.stores.sql.sqlite import SqliteStore, keeper, shared
from tenure.stores.sql.sqlite.file import StoreFile
from tests.stores.everything import job

LONG = 600


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where copies are made in these tests. Afterwards there are none."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    for copy in folder.iterdir():
        end(copy, signal.SIGTERM)
    assert list(folder.iterdir()) == []


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    made = SqliteStore(tmp_path / "jobs.db")
    add(made, "a", "b", "c")
    return made


def add(store: SqliteStore, *names: str) -> None:
    async def enqueue() -> None:
        writing = SqliteStore(store._file.path)
        await writing.migrate()
        await writing.enqueue([job(name) for name in names])
        await writing.close()

    asyncio.run(enqueue())


def count(snapshot: Snapshot) -> int:
    return sum(len(page["id"]) for page in snapshot.scan(JobFilter(), {"id"}))


def folder_of(handle: str) -> Path:
    return Path(json.loads(handle)["folder"])


def wait_for(process: int) -> None:
    descriptor = os.pidfd_open(process)
    try:
        assert select.select([descriptor], [], [], 60)[0], "the keeper doesn't end"
    finally:
        os.close(descriptor)


def keeper_of(folder: Path) -> int:
    return int((folder / shared.KEEPER).read_text())


def end(folder: Path, by: signal.Signals) -> None:
    process = keeper_of(folder)
    descriptor = os.pidfd_open(process)
    os.kill(process, by)
    assert select.select([descriptor], [], [], 60)[0]
    os.close(descriptor)


def test_what_is_written_later_isnt_in_it(store: SqliteStore) -> None:
    handle = store.share(LONG, os.getpid())
    add(store, "d")
    with store.open_shared(handle) as kept, store.open_shared(handle) as again, store.snapshot() as now:
        assert (count(kept), count(again), count(now)) == (3, 3, 4)


def test_another_process_reads_the_same(store: SqliteStore) -> None:
    handle = store.share(LONG, os.getpid())
    code = (
        "import sys; from tenure.domain.calls import JobFilter; from tenure.stores.opening import open_store\n"
        "with open_store(sys.argv[1]).open_shared(sys.argv[2]) as kept:\n"
        "    print(sum(len(page['id']) for page in kept.scan(JobFilter(), {'id'})))"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{store._file.path}", handle]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "3"


def test_it_is_of_one_instant_for_all_its_readers(tmp_path: Path) -> None:
    later = SqliteStore(tmp_path / "jobs.db", lambda: 4_000_000_000_000)
    now = SqliteStore(tmp_path / "jobs.db", lambda: 1)
    add(now, "a")
    with later.snapshot() as snapshot:
        (at,) = next(snapshot.scan(JobFilter(), {"enqueued_at"}))["enqueued_at"]

    async def schedule() -> None:
        writing = SqliteStore(tmp_path / "jobs.db")
        await writing.enqueue([job("b", run_at=at + 3_600_000)])
        await writing.close()

    asyncio.run(schedule())
    handle = now.share(LONG, os.getpid())
    with later.open_shared(handle) as kept, later.snapshot() as snapshot:
        statuses = [next(view.scan(JobFilter(), {"status"}))["status"] for view in (kept, snapshot)]
    assert statuses == [["ready", "scheduled"], ["ready", "ready"]]


def test_it_goes_when_nobody_used_it_for_its_time(store: SqliteStore) -> None:
    handle = store.share(2, os.getpid())
    folder = folder_of(handle)
    wait_for(keeper_of(folder))
    assert not folder.exists()
    with pytest.raises(SnapshotExpired, match=r"for 2 s.*load\(\) again.*snapshotSeconds"), store.open_shared(handle):
        pass


def test_it_goes_with_its_owner(store: SqliteStore) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        handle = store.share(LONG, owner.pid)
        process = os.pidfd_open(keeper_of(folder_of(handle)))
        with store.open_shared(handle) as kept:
            assert count(kept) == 3
        owner.communicate(b"\n")
    assert select.select([process], [], [], 60)[0]
    os.close(process)
    with pytest.raises(SnapshotExpired), store.open_shared(handle):
        pass


def test_it_stays_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is long over; it goes when the reader has gone."""
    path = tmp_path / "readers"
    readers, reader = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert shared._locked(reader, fcntl.LOCK_SH)
    os.utime(path, (0, 0))
    waits: list[float] = []

    def ended_within(process: int, seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 4:
            os.close(reader)
        return False

    monkeypatch.setattr(keeper, "ended_within", ended_within)
    keeper.keep(readers, shared.Order("jobs.db", 0, 5.0, os.getpid()))
    os.close(readers)
    assert waits == [5.0, *[keeper.AGAIN_SECONDS] * 3]


def test_use_puts_its_end_off(store: SqliteStore) -> None:
    handle = store.share(LONG, os.getpid())
    readers = folder_of(handle) / shared.READERS
    os.utime(readers, (0, 0))
    with store.open_shared(handle):
        pass
    assert readers.stat().st_mtime > 0


def test_a_copy_without_its_keeper_is_gone_and_swept_away(store: SqliteStore, place: Path) -> None:
    handle = store.share(LONG, os.getpid())
    folder = folder_of(handle)
    end(folder, signal.SIGKILL)
    with pytest.raises(SnapshotExpired), store.open_shared(handle):
        pass
    assert folder.exists()
    other = folder_of(store.share(LONG, os.getpid()))
    assert folder.exists(), "a new folder may have a keeper that hasn't locked it yet"
    os.utime(folder, (0, 0))
    os.utime(other, (0, 0))
    keeper.sweep(place)
    assert (folder.exists(), other.exists()) == (False, True)


def test_a_keeper_that_is_told_to_end_leaves_nothing(store: SqliteStore) -> None:
    folder = folder_of(store.share(LONG, os.getpid()))
    end(folder, signal.SIGTERM)
    assert not folder.exists()


def test_what_keeps_a_copy_from_being_made_is_said(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    with pytest.raises(StoreCorrupt, match="another program"):
        SqliteStore(tmp_path / "other.db").share(LONG, os.getpid())
    with pytest.raises(StoreUnavailable, match="doesn't exist"):
        SqliteStore(tmp_path / "nothing.db").share(LONG, os.getpid())


def test_a_disk_without_room_is_refused_by_its_numbers() -> None:
    file = StoreFile("/var/lib/jobs.db")
    keeper.check_room(file, 10 << 20, "/tmp", 10 << 20)
    with pytest.raises(StoreFull, match=r"takes 10,240.0 MiB and /tmp has 512.0 MiB left: let TMPDIR"):
        keeper.check_room(file, 10 << 30, "/tmp", 512 << 20)


def test_a_handle_of_elsewhere_is_refused(store: SqliteStore) -> None:
    with pytest.raises(InvalidValue, match="isn't one of a shared snapshot"), store.open_shared("nonsense"):
        pass
    handle = json.dumps({"type": "Handle", "folder": "/nowhere", "host": "far-away", "at": 0, "seconds": 1})
    with pytest.raises(StoreUnavailable, match="is on far-away"), store.open_shared(handle):
        pass
