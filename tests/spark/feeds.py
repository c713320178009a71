"""Stores with a feed of known shape: in a file, or at a server's URL."""

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import psycopg

from tenure.domain.job import NewJob
from tenure.engine.ids import uuid7
from tenure.stores.opening import open_store

Place = TypeVar("Place", Path, str)


def url_of(place: Path | str) -> str:
    return place if isinstance(place, str) else f"sqlite:///{place}"


def made(place: Place, chunks: Iterable[int] = ()) -> Place:
    """A new store whose feed has a chunk of so many events for each."""
    asyncio.run(_migrated(url_of(place)))
    enqueue(place, chunks)
    return place


def enqueue(place: Path | str, chunks: Iterable[int], tenant: str = "acme") -> None:
    asyncio.run(_enqueued(url_of(place), chunks, tenant))


def forget(place: Path | str, floor: int) -> None:
    """What retention does when its time has come."""
    if isinstance(place, Path):
        with closing(sqlite3.connect(place)) as connection, connection:
            connection.execute("DELETE FROM feed WHERE position <= ?", (floor,))
            connection.execute("UPDATE meta SET feed_floor = ?", (floor,))
        return
    address, _, schema = place.partition("?schema=")
    with psycopg.connect(address) as server:
        server.execute(f"DELETE FROM {schema}.feed WHERE position <= {floor}".encode())
        server.execute(f"UPDATE {schema}.meta SET feed_floor = {floor}".encode())


def copied(feed: Path, url: str) -> None:
    """Puts the feed of a file into a new store on a server."""
    made(url)
    address, _, schema = url.partition("?schema=")
    with closing(sqlite3.connect(feed)) as source, psycopg.connect(address) as server:
        chunks = source.execute("SELECT position, tenant, at, body FROM feed ORDER BY position").fetchall()
        server.cursor().executemany(f"INSERT INTO {schema}.feed VALUES (%s, %s, %s, %s)".encode(), chunks)


async def _migrated(url: str) -> None:
    store = open_store(url)
    await store.migrate()
    await store.close()


async def _enqueued(url: str, chunks: Iterable[int], tenant: str) -> None:
    store = open_store(url)
    for size in chunks:
        await store.enqueue([_job(tenant) for _ in range(size)])
    await store.close()


def _job(tenant: str) -> NewJob:
    return NewJob(tenant=tenant, id=uuid7(), queue="mail", job_type="send", payload=b"{}")
