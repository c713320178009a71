"""A server whose disk is full, for real: the tables lie on a small file system that the test fills and empties."""

import asyncio
import errno
import logging
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Tenure
from tenure.domain.calls import Claim, Cursor, Enqueued, Settle, Settled, Succeed
from tenure.domain.errors import StoreFull
from tenure.domain.job import NewJob
from tenure.domain.states import State
from tenure.stores.sql.postgres import PostgresStore
from tenure.testing.postgres import NOBODY, PostgresServer

PATIENCE = 30.0

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small file system")


class Disk:
    """A file system of a few megabytes, and the URL of a database whose tables lie there."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._folder = folder
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'".encode())
            connection.execute("CREATE DATABASE small")
            connection.execute("ALTER DATABASE small SET default_tablespace = small")
        self.url = server.url.removesuffix("tenure") + "small"

    def fill(self) -> None:
        with (self._folder / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="space") as full:
            while True:
                file.write(bytes(4_096))
        assert full.value.errno == errno.ENOSPC

    def clear(self) -> None:
        (self._folder / "filler").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    server = PostgresServer()
    folder = server.folder / "small"
    folder.mkdir()
    options = f"size=8m,uid={NOBODY},gid={NOBODY},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield Disk(server, folder)
    finally:
        server.stop()
        subprocess.run(["umount", str(folder)], check=True)
        server.remove()


@pytest.fixture
def store(disk: Disk) -> Iterator[PostgresStore]:
    made = PostgresStore(disk.url)
    asyncio.run(made.migrate())
    yield made
    asyncio.run(made.close())
    disk.clear()
    with psycopg.connect(disk.url) as connection:
        connection.execute("DROP SCHEMA tenure CASCADE")


def job(number: int) -> NewJob:
    id = f"01900000-0000-7000-8000-{number:012x}"
    payload = random.Random(number).randbytes(100_000)  # nothing to compress
    return NewJob(tenant="acme", id=id, queue="mail", job_type="send", payload=payload)


def test_nothing_of_a_call_is_kept_and_it_goes_on_when_there_is_room(disk: Disk, store: PostgresStore) -> None:
    request = Claim(
        claim_id=bytes(16), worker="w", queues=(("mail", None),), n=5, ttl=60_000, grace=5_000, cursor=Cursor()
    )

    async def main() -> None:
        await store.enqueue([job(1)])
        disk.fill()
        with pytest.raises(StoreFull, match="no room left on the server's device; nothing of this call was kept"):
            await store.enqueue([job(2)])
        with pytest.raises(StoreFull):
            await store.claim(request)
        disk.clear()
        assert await store.enqueue([job(2)]) == [Enqueued(job(2).id)]
        claimed: Any = await store.claim(request)
        assert [(one.token.job_id, one.job.attempt) for one in claimed.jobs] == [(job(1).id, 1), (job(2).id, 1)]
        disk.fill()
        settles = [Settle(one.token, Succeed(os.urandom(50_000))) for one in claimed.jobs]
        with pytest.raises(StoreFull):
            await store.settle(settles)
        disk.clear()
        assert await store.settle(settles) == [Settled(State.SUCCEEDED)] * 2
        page: Any = await store.events()
        assert [event.kind.value for event in page.events] == ["enqueued"] * 2 + ["claimed"] * 2 + ["succeeded"] * 2
        assert await store.verify() == []

    asyncio.run(main())


def test_a_worker_settles_when_there_is_room_again(
    disk: Disk, store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    app = Tenure(disk.url)
    filled = asyncio.Event()

    @app.job
    async def fill(size: int) -> str:
        disk.fill()
        filled.set()
        return os.urandom(size).hex()

    async def main() -> None:
        async with app, app.worker():
            handle = await fill.enqueue(30_000)
            async with asyncio.timeout(PATIENCE):
                await filled.wait()
                while "the store didn't answer" not in caplog.text:
                    await asyncio.sleep(0.01)
            disk.clear()
            assert len(await handle.result(PATIENCE)) == 60_000
            assert (await handle.get()).attempt == 1

    with caplog.at_level(logging.WARNING, "tenure.worker"):
        asyncio.run(main())
