"""Stores with a feed of known shape."""

import asyncio
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from tenure.domain.job import NewJob
from tenure.engine.ids import uuid7
from tenure.stores.sql.sqlite import SqliteStore


def made(path: Path, chunks: Iterable[int] = ()) -> Path:
    """A new store whose feed has a chunk of so many events for each."""
    asyncio.run(_migrated(path))
    enqueue(path, chunks)
    return path


def enqueue(path: Path, chunks: Iterable[int], tenant: str = "acme") -> None:
    asyncio.run(_enqueued(path, chunks, tenant))


def forget(path: Path, floor: int) -> None:
    """What retention does when its time has come."""
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM feed WHERE position <= ?", (floor,))
        connection.execute("UPDATE meta SET feed_floor = ?", (floor,))


async def _migrated(path: Path) -> None:
    store = SqliteStore(path)
    await store.migrate()
    await store.close()


async def _enqueued(path: Path, chunks: Iterable[int], tenant: str) -> None:
    store = SqliteStore(path)
    for size in chunks:
        await store.enqueue([_job(tenant) for _ in range(size)])
    await store.close()


def _job(tenant: str) -> NewJob:
    return NewJob(tenant=tenant, id=uuid7(), queue="mail", job_type="send", payload=b"{}")
