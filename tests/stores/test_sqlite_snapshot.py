"""A view of the file that nothing changes while it is read."""

import asyncio
from pathlib import Path

import pytest

from tenure.domain.calls import EventPage, JobFilter
from tenure.domain.errors import StoreUnavailable
from tenure.domain.job import NewJob
from tenure.engine.ids import uuid7
from tenure.stores.sql.sqlite import SqliteStore


def job() -> NewJob:
    return NewJob(tenant="acme", id=uuid7(), queue="mail", job_type="send", payload=b"{}")


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "jobs.db")


def test_what_is_written_meanwhile_isnt_seen(store: SqliteStore) -> None:
    async def scene() -> None:
        await store.migrate()
        await store.enqueue([job() for _ in range(5)])
        with store.snapshot() as before:
            first = before.query(JobFilter(), limit=3)
            await store.enqueue([job() for _ in range(5)])
            rest = before.query(JobFilter(), after=first.cursor, limit=100)
            events = before.events(limit=100)
            assert (len(first.jobs), len(rest.jobs), rest.cursor) == (3, 2, None)
            assert isinstance(events, EventPage)
            assert len(events.events) == 5
        with store.snapshot() as after:
            assert len(after.query(JobFilter(), limit=100).jobs) == 10
        await store.close()

    asyncio.run(scene())


def test_a_file_that_isnt_there_is_said_to_be_so(store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailable, match="doesn't exist yet"):
        store.snapshot()
