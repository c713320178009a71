"""Factories of the stores that Tenure ships."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from uuid import uuid4

from tenure.domain.store import Clock, Store
from tenure.stores.memory import MemoryStore
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.postgres import ADDRESS


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


class PostgresFactory:
    """Stores in schemas of their own, in one database. A schema that was emptied serves again: making one is slow."""

    name = "postgres"

    def __init__(self, url: str | None = None, options: str = "", patience: int | None = None) -> None:
        self._url = os.environ[ADDRESS] if url is None else url
        self._options = f"&{options}" if options else ""
        self._patience = patience
        self._schemas: dict[int, str] = {}

    async def create(self, clock: Clock) -> Store:
        schema = _EMPTY.setdefault(self._url, []).pop() if _EMPTY.get(self._url) else f"t{uuid4().hex}"
        store = self._opened(schema, clock)
        await store.migrate()
        self._schemas[id(store)] = schema
        return store

    def _opened(self, schema: str, clock: Clock) -> Store:
        from tenure.stores.sql.postgres import PostgresStore

        address = f"{self._url}?schema={schema}{self._options}"
        if self._patience is None:
            return PostgresStore(address, clock=clock)
        return PostgresStore(address, clock=clock, patience=self._patience)

    def schema_of(self, store: Store) -> str:
        """Where a store that was made here is."""
        return self._schemas[id(store)]

    async def crash(self, store: Store, clock: Clock) -> Store:
        schema = self._schemas.pop(id(store))
        await store.close()
        reopened = self._opened(schema, clock)
        self._schemas[id(reopened)] = schema
        return reopened

    async def second(self, store: Store, clock: Clock) -> Store:
        return self._opened(self._schemas[id(store)], clock)

    async def destroy(self, store: Store) -> None:
        await store.close()
        schema = self._schemas.pop(id(store), None)
        if schema is not None:  # a second client's isn't its own
            await asyncio.to_thread(self._empty, schema)
            _EMPTY.setdefault(self._url, []).append(schema)

    def _empty(self, schema: str) -> None:
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT relname, relkind FROM pg_class WHERE relnamespace = %s::regnamespace", (schema,)
            ).fetchall()
            kept = ("migration", "meta", "identity")
            emptied = [f"DELETE FROM {schema}.{name}" for name, kind in found if kind == "r" and name not in kept]
            begun = [f"ALTER SEQUENCE {schema}.{name} RESTART" for name, kind in found if kind == "S"]
            first = (
                f"UPDATE {schema}.meta SET epoch = 1, frozen = false, loading = false, last_turn = NULL, "
                "hold_until = 0, feed_floor = 0, config = config + 1, version = 0"
            )
            new = f"UPDATE {schema}.identity SET id = replace(gen_random_uuid()::text, '-', '')"
            connection.execute("; ".join([*emptied, *begun, first, new]).encode())


_EMPTY: dict[str, list[str]] = {}
"""Schemas in a database that hold nothing."""
