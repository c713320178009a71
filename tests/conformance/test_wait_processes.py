"""The waits of the suite, by a process of its own, for what this one does."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Collection
from typing import cast

import pytest

from tenure.domain.store import Clock, Store
from tenure.stores.sql.postgres import PostgresStore
from tenure.testing.conformance import TestWait, world  # noqa: F401 the topic
from tenure.testing.factories import PostgresFactory, SqliteFactory
from tenure.testing.factory import StoreFactory

WAIT = """
import asyncio, json, sys
from tenure.stores.opening import open_store

async def main():
    store = open_store(sys.argv[1])
    while line := await asyncio.to_thread(sys.stdin.readline):
        waiting = asyncio.create_task(store.wait(*json.loads(line)))
        for _ in range(3):
            await asyncio.sleep(0)
        print("begun", flush=True)
        print(json.dumps(await waiting), flush=True)
    await store.close()

asyncio.run(main())
"""


class Elsewhere:
    """A client whose waits happen in a process of its own. It can do nothing else."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WAIT, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    async def wait(self, topics: Collection[str], timeout_seconds: float) -> bool:
        """Has begun there as soon as it begins here."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps([list(topics), timeout_seconds]) + "\n")
        asked.flush()
        assert answers.readline() == "begun\n"
        return cast(bool, json.loads(await asyncio.to_thread(answers.readline)))

    def close(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


class Apart:
    """Stores of another factory, whose second clients are other processes."""

    def __init__(self, stores: SqliteFactory | PostgresFactory, postgres_url: str) -> None:
        self._stores = stores
        self._postgres_url = postgres_url
        self.name = stores.name
        self._processes: dict[int, Elsewhere] = {}

    async def create(self, clock: Clock) -> Store:
        return await self._stores.create(clock)

    async def crash(self, store: Store, clock: Clock) -> Store:
        return await self._stores.crash(store, clock)

    async def second(self, store: Store, clock: Clock) -> Store:
        if isinstance(self._stores, PostgresFactory):
            assert isinstance(store, PostgresStore)
            url = f"{self._postgres_url}?schema={self._stores.schema_of(store)}"
        else:
            url = f"sqlite:///{self._stores._folders[id(store)] / 'jobs.db'}"
        elsewhere = Elsewhere(url)
        self._processes[id(elsewhere)] = elsewhere
        return cast(Store, elsewhere)

    async def destroy(self, store: Store) -> None:
        process = self._processes.pop(id(store), None)
        if process is not None:
            process.close()
        else:
            await self._stores.destroy(store)


@pytest.fixture(params=["sqlite", "postgres"])
def factory(request: pytest.FixtureRequest, postgres_url: str) -> StoreFactory:
    stores = SqliteFactory() if request.param == "sqlite" else PostgresFactory(postgres_url)
    return Apart(stores, postgres_url)
