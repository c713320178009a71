"""A device without room: said at once and in words, nothing acknowledged is lost, and everything goes on when there is.

What has no room here is a process that may write no larger files (RLIMIT_FSIZE): the disk says no in the same places.
"""

import asyncio
import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.domain.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from tenure.domain.job import NewJob
from tenure.stores.sql.sqlite import SqliteStore
from tenure.stores.sql.sqlite.file import ROOM, os_error

BEGIN = """
import asyncio, logging, os, resource, sys
from contextlib import suppress
from pathlib import Path
from tenure import Tenure
from tenure.domain.errors import StoreFull

path = sys.argv[1]
said = []

class Hearing(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

logging.getLogger().addHandler(Hearing())
logging.getLogger().setLevel(logging.DEBUG)

def fill(room):
    '''Lets no file grow by more than that from here on.'''
    size = max(os.stat(path + more).st_size for more in ("", "-wal"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))

def make_room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

app = Tenure("sqlite:///" + path)

@app.job
async def work(n: int, text: str = "") -> int:
    return n
"""


def run(folder: Path, scene: str) -> str:
    command = [sys.executable, "-c", BEGIN + scene, str(folder / "jobs.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("room", [0, 10_000, 200_000])
def test_an_enqueue_without_room_is_refused_at_once(tmp_path: Path, room: int) -> None:
    run(
        tmp_path,
        f"""
async def main():
    kept, refused = [(await work.enqueue(0)).id], 0
    fill({room})
    for n in range(1, 1_000):
        try:
            kept.append((await work.enqueue(n, text="x" * 3_000)).id)
        except StoreFull as error:
            assert "no room left" in str(error), error
            refused += 1
        if refused == 5:
            break
    assert refused == 5
    assert not [text for text in said if "unknown" in text], said
    store = await app.store()
    assert len([view async for view in app.jobs()]) == len(kept)
    make_room()
    kept.append((await work.enqueue(-1)).id)
    found = [view.id async for view in app.jobs()]
    assert sorted(found) == sorted(kept), (found, kept)
    assert await store.verify() == []
    async with app.worker():
        for id in kept:
            await app.handle(id).result(30)
    await app.close()
asyncio.run(main())
""",
    )


def test_a_worker_without_room_says_so_and_goes_on(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
async def main():
    @app.job
    async def greedy() -> None:
        fill(0)
    handles = [await work.enqueue(n) for n in range(20)]
    await greedy.options(priority=100).enqueue()
    async with app.worker(concurrency=1):
        while not any("no room left" in text for text in said):
            with suppress(StoreFull):  # a log that begins anew has room for a while
                handles.append(await work.enqueue(len(handles), "x" * 10_000))
        make_room()
        for n, handle in enumerate(handles):
            assert await handle.result(30) == n
    await app.close()
    assert not [text for text in said if text.rstrip().endswith("()")], said
asyncio.run(main())
""",
    )


def test_a_store_cant_be_opened_without_room(tmp_path: Path) -> None:
    """Its log's index can't be made."""
    run(
        tmp_path,
        """
async def main():
    await work.enqueue(0)
    await app.close()
    for more in ("-shm", "-wal"):
        Path(path + more).unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))
    other = Tenure("sqlite:///" + path)
    try:
        await other.send("work", {"n": 1})
    except StoreFull as error:
        assert "no room left" in str(error), error
    else:
        raise AssertionError("there was room")
    make_room()
    await other.send("work", {"n": 1})
    await other.close()
asyncio.run(main())
""",
    )


def test_the_logs_index_has_no_holes_where_blocks_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen on an ext4 with blocks of 1 KiB: SQLite writes one byte of each page of its index, and to fill one of the
    holes between on a full device ends the process.
    """
    monkeypatch.setattr("tenure.stores.sql.sqlite.file.PAGE", 1 << 40)

    async def main() -> None:
        store = SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        await store.enqueue([job(1)])
        index = os.stat(tmp_path / "jobs.db-shm")
        assert index.st_size == ROOM
        assert index.st_blocks * 512 >= ROOM
        with monkeypatch.context() as full:
            full.setattr("tenure.stores.sql.sqlite.file.no_room", lambda path: True)
            with pytest.raises(StoreFull, match="no room left on the device"):
                await SqliteStore(tmp_path / "jobs.db").enqueue([job(2)])
        await store.close()

    asyncio.run(main())


def job(number: int) -> NewJob:
    ident = f"00000000-0000-7000-8000-{number:012x}"
    return NewJob(tenant="acme", id=ident, queue="mail", job_type="send", payload=b"1")


def test_a_full_file_is_said_so_and_takes_nothing(tmp_path: Path) -> None:
    """SQLite's own word for it, in the middle of a transaction."""

    def job(number: int) -> NewJob:
        ident = f"00000000-0000-7000-8000-{number:012x}"
        return NewJob(tenant="acme", id=ident, queue="mail", job_type="send", payload=bytes(100_000))

    async def main() -> None:
        store = SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        await store.enqueue([job(1)])
        with store._opened().writer._held.used() as tables:
            pages = tables.connection.execute("PRAGMA page_count").fetchone()[0]
            tables.connection.execute(f"PRAGMA max_page_count = {pages + 5}")
        with pytest.raises(StoreFull, match="nothing of this call was kept"):
            await store.enqueue([job(2), job(3)])
        assert len((await store.events(limit=10)).events) == 1  # type: ignore[union-attr]
        await store.enqueue([job(2)])
        assert await store.verify() == []
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_file_beside_it_that_has_no_room(tmp_path: Path, number: int) -> None:
    path = tmp_path / "jobs.db"
    assert isinstance(os_error(path, f"{path}-lock", OSError(number, "no")), StoreFull)
    assert isinstance(os_error(path, f"{path}-lock", OSError(errno.EACCES, "no")), StoreUnavailable)


def test_an_unknown_outcome_has_words() -> None:
    assert "to send the very same again is safe" in str(OutcomeUnknown())
    assert "(jobs a, b)" in str(OutcomeUnknown(("a", "b")))
    many = OutcomeUnknown(tuple(map(str, range(100))))
    assert "(jobs 0, 1, 2, 3, 4, …)" in str(many)
    assert pickle.loads(pickle.dumps(many)).ids == many.ids
