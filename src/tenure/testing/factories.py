"""Factories of the stores that Tenure ships."""

import os
import shutil
import tempfile
from pathlib import Path

from tenure.domain.store import Clock, Store
from tenure.stores.memory import MemoryStore
from tenure.stores.sql.sqlite import SqliteStore


class MemoryFactory:
    """Stores in memory: nothing outlives them, and every client of one is the store itself."""

    name = "memory"

    async def create(self, clock: Clock) -> Store:
        store = MemoryStore(clock=clock)
        await store.migrate()
        return store

    async def crash(self, store: Store, clock: Clock) -> Store:
        return store

    async def second(self, store: Store, clock: Clock) -> Store:
        return store

    async def destroy(self, store: Store) -> None:
        await store.close()


class SqliteFactory:
    """Stores in files of a temporary folder. A crash is what the disk holds at that instant: a copy of the files."""

    name = "sqlite"

    def __init__(self) -> None:
        self._folders: dict[int, Path] = {}

    @staticmethod
    def _new_folder() -> Path:
        """In memory where the system has such a place: what is proven here doesn't depend on the disk's speed."""
        shared = "/dev/shm"  # noqa: S108 a folder of its own is made in it
        return Path(tempfile.mkdtemp(prefix="tenure-", dir=shared if os.access(shared, os.W_OK) else None))

    async def create(self, clock: Clock) -> Store:
        folder = self._new_folder()
        store = SqliteStore(folder / "jobs.db", clock=clock)
        await store.migrate()
        self._folders[id(store)] = folder
        return store

    async def crash(self, store: Store, clock: Clock) -> Store:
        folder = self._folders[id(store)]
        survived = self._new_folder()
        for name in ("jobs.db", "jobs.db-wal"):
            if (folder / name).exists():
                shutil.copy(folder / name, survived / name)
        await self.destroy(store)
        reopened = SqliteStore(survived / "jobs.db", clock=clock)
        self._folders[id(reopened)] = survived
        return reopened

    async def second(self, store: Store, clock: Clock) -> Store:
        return SqliteStore(self._folders[id(store)] / "jobs.db", clock=clock)

    async def destroy(self, store: Store) -> None:
        await store.close()
        folder = self._folders.pop(id(store), None)
        if folder is not None:  # a second client's isn't its own
            shutil.rmtree(folder)
