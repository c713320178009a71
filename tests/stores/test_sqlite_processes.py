"""Several processes, threads and forks on one SQLite file."""

import asyncio
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tenure.domain.calls import Cancel, Claim, Claimed, Enqueued, JobView, Settle, Succeed
from tenure.domain.errors import InvalidValue
from tenure.domain.job import NewJob
from tenure.domain.model import Unit, enqueue
from tenure.domain.states import State
from tenure.domain.store import CANCELS, job_topic, queue_topic
from tenure.stores.sql.sqlite import SqliteStore
from tenure.stores.sql.sqlite.file import StoreFile
from tenure.stores.sql.sqlite.writer import Writer


def job(number: int) -> NewJob:
    return NewJob(
        tenant="acme", id=f"00000000-0000-7000-8000-{number:012x}", queue="mail", job_type="send", payload=b"1"
    )


def claim(n: int) -> Claim:
    return Claim(claim_id=os.urandom(16), worker="w", queues=(("mail", None),), n=n)


ENQUEUE = """
import asyncio, sys
from tenure.domain.job import NewJob
from tenure.stores.sql.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    sys.stdin.readline()
    ident = f"00000000-0000-7000-8000-{int(sys.argv[2]):012x}"
    await store.enqueue([NewJob(tenant="acme", id=ident, queue="mail", job_type="send", payload=b"1")])
    await store.close()

asyncio.run(main())
"""


def test_a_commit_wakes_another_process_by_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polling is put off for a minute, so only the datagram can wake in time."""
    monkeypatch.setattr("tenure.stores.sql.sqlite.wake.POLL_SECONDS", (60.0, 60.0))

    async def main() -> bool:
        store = SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        producer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ENQUEUE, str(tmp_path / "jobs.db"), "1", stdin=asyncio.subprocess.PIPE
        )
        waiting = asyncio.create_task(store.wait([queue_topic("mail")], 50))
        while not list(tmp_path.glob("jobs.db-wake/*")):
            await asyncio.sleep(0)
        await producer.communicate(b"go\n")
        woken = await waiting
        await store.close()
        return woken

    assert asyncio.run(main())
    assert list(tmp_path.glob("jobs.db-wake/*")) == []


def test_without_sockets_polling_wakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.stores.sql.sqlite.wake.Wake._bind", lambda self: None)

    async def main() -> bool:
        store = SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        waiting = asyncio.create_task(store.wait([queue_topic("mail")], 50))
        await asyncio.sleep(0)
        await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", ENQUEUE, str(tmp_path / "jobs.db"), "1"], input=b"go\n", check=True
        )
        woken = await waiting
        await store.close()
        return woken

    assert asyncio.run(main())


def test_who_waits_for_cancels_hears_of_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor isn't woken for each job of its children."""

    async def main() -> None:
        store, other = SqliteStore(tmp_path / "jobs.db"), SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        await store.enqueue([job(1), job(2)])
        claimed = await store.claim(claim(2))
        assert isinstance(claimed, Claimed)
        waiting = asyncio.create_task(other.wait([CANCELS], 50))
        while not list(tmp_path.glob("jobs.db-wake/*")):
            await asyncio.sleep(0)
        (socket,) = tmp_path.glob("jobs.db-wake/*")
        sent: list[str] = []
        send = store._opened().wake._send
        monkeypatch.setattr(store._opened().wake, "_send", sent.append)
        await store.enqueue([job(3)])
        await store.settle([Settle(claimed.jobs[0].token, Succeed())])
        assert sent == []
        await store.command([Cancel(tenant="acme", id=job(2).id)])
        assert sent == [socket.name]
        send(socket.name)
        assert await waiting
        await other.close()
        await store.close()

    asyncio.run(main())
    assert list(tmp_path.glob("jobs.db-wake/*")) == []


def test_without_sockets_polling_tells_of_cancels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.stores.sql.sqlite.wake.Wake._bind", lambda self: None)

    async def main() -> bool:
        store, other = SqliteStore(tmp_path / "jobs.db"), SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        await store.enqueue([job(1)])
        waiting = asyncio.create_task(other.wait([CANCELS], 50))
        await asyncio.sleep(0)
        await store.command([Cancel(tenant="acme", id=job(1).id)])
        told = await waiting
        await other.close()
        await store.close()
        return told

    assert asyncio.run(main())


def test_who_waits_while_a_job_of_this_process_is_committed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read the job as it was before the commit, and its wait began after the job's end was written."""
    monkeypatch.setattr("tenure.stores.sql.sqlite.wake.POLL_SECONDS", (60.0, 60.0))

    async def main() -> bool:
        store = SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        await store.enqueue([job(1)])
        claimed = await store.claim(claim(1))
        assert isinstance(claimed, Claimed)
        parts, written, read = Writer._parts, threading.Event(), threading.Event()

        def all_written(*given: Any) -> list[Any]:
            replies = parts(*given)
            written.set()
            read.wait()
            return replies

        monkeypatch.setattr(Writer, "_parts", all_written)
        settling = asyncio.create_task(store.settle([Settle(claimed.jobs[0].token, Succeed())]))
        await asyncio.to_thread(written.wait)
        waiting = asyncio.create_task(store.wait([job_topic(("acme", job(1).id))], 50))
        await asyncio.sleep(0)
        (view,) = await store.get([("acme", job(1).id)])
        assert isinstance(view, JobView)
        assert view.job.state is State.RUNNING
        read.set()
        await settling
        told = await waiting
        await store.close()
        return told

    assert asyncio.run(main())


def test_a_dead_listener_is_swept_up(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        store = SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        listener = SqliteStore(tmp_path / "jobs.db")
        await listener.wait([queue_topic("mail")], 0)
        (socket,) = tmp_path.glob("jobs.db-wake/*")
        os.link(socket, socket.with_name("1-dead"))
        await listener.close()
        await store.enqueue([job(1)])
        await store.close()
        return list(tmp_path.glob("jobs.db-wake/*"))

    assert asyncio.run(main()) == []


def test_a_forked_child_opens_connections_of_its_own(tmp_path: Path) -> None:
    async def ask(store: SqliteStore, number: int) -> Any:
        return await store.enqueue([job(number)])

    store = SqliteStore(tmp_path / "jobs.db")
    asyncio.run(store.migrate())
    asyncio.run(ask(store, 1))
    child = os.fork()
    if child == 0:
        answered = asyncio.run(ask(store, 2)) == [Enqueued(job(2).id)]
        os._exit(0 if answered else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert asyncio.run(ask(store, 3)) == [Enqueued(job(3).id)]
    claimed = asyncio.run(store.claim(claim(10)))
    assert isinstance(claimed, Claimed)
    assert [one.job.spec.id for one in claimed.jobs] == [job(1).id, job(2).id, job(3).id]
    asyncio.run(store.close())


def test_a_child_forked_while_its_parent_writes_keeps_nobody_waiting(tmp_path: Path) -> None:
    file = StoreFile(tmp_path / "jobs.db")
    reading, writing = os.pipe()
    with file.locked():
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # lives until the parent hangs up
            os._exit(0)
    with open(f"{file.path}-lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    os.close(reading)


def test_concurrent_calls_share_a_transaction_and_a_broken_one_takes_nothing_with_it(tmp_path: Path) -> None:
    """The broken call writes, then raises: its own savepoint is undone, the others' work is kept."""

    def breaks(unit: Unit) -> None:
        enqueue(unit, [job(99)])
        unit.tables.keep(unit)
        raise InvalidValue("on purpose")

    async def main() -> tuple[list[Any], list[str]]:
        store = SqliteStore(tmp_path / "jobs.db")
        await store.migrate()
        calls = [store.enqueue([job(number)]) for number in range(20)]
        broken = store._write(breaks)
        replies = await asyncio.gather(*calls[:10], broken, *calls[10:], return_exceptions=True)
        problems = await store.verify()
        found = await store.get([("acme", job(99).id)])
        await store.close()
        return [*replies, *found], problems

    replies, problems = asyncio.run(main())
    assert problems == []
    assert [type(reply).__name__ for reply in replies if not isinstance(reply, list)] == ["InvalidValue", "JobNotFound"]
    assert sum(isinstance(reply, list) for reply in replies) == 20
