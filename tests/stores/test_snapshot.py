"""A view of a store that nothing changes while it is read."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure.domain.calls import Claim, Claimed, EventPage, FeedSpan, JobFilter, Settle, Succeed
from tenure.domain.errors import CursorExpired, SchemaTooNew, StoreUnavailable
from tenure.domain.job import NewJob
from tenure.domain.store import Span
from tenure.engine.ids import uuid7
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.snapshot import ViewTables
from tenure.stores.sql.query import scan_sql
from tenure.stores.sql.sqlite import SqliteStore
from tests.schemas import new_schema


def job() -> NewJob:
    return NewJob(tenant="acme", id=uuid7(), queue="mail", job_type="send", payload=b"{}")


@pytest.fixture
def url(postgres_url: str) -> Iterator[str]:
    with new_schema(postgres_url) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteStore | PostgresStore:
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "jobs.db")
    return PostgresStore(request.getfixturevalue("url"))


def test_what_is_written_meanwhile_isnt_seen(store: SqliteStore | PostgresStore) -> None:
    async def scene() -> None:
        await store.migrate()
        await store.enqueue([job() for _ in range(5)])
        with store.snapshot() as before:
            first = before.query(JobFilter(), limit=3)
            await store.enqueue([job() for _ in range(5)])
            rest = before.query(JobFilter(), after=first.cursor, limit=100)
            events = before.events(limit=100)
            assert (len(first.jobs), len(rest.jobs), rest.cursor) == (3, 2, None)
            assert len(before.query(JobFilter(), limit=100).jobs) == 5
            assert isinstance(events, EventPage)
            assert len(events.events) == 5
        with store.snapshot() as after:
            assert len(after.query(JobFilter(), limit=100).jobs) == 10
        await store.close()

    asyncio.run(scene())


def test_the_feed_by_the_chunk(store: SqliteStore | PostgresStore) -> None:
    async def scene() -> None:
        await store.migrate()
        for size in range(1, 101):
            await store.enqueue([job() for _ in range(size % 3 + 1)])
        with store.snapshot() as view, store.snapshot() as again:
            assert view.feed() == FeedSpan(0, 100)
            chunks = list(view.chunks(10, 90))
            assert [position for position, _ in chunks] == list(range(11, 91))
            assert [body.count(b"\n") for _, body in chunks] == [size % 3 + 1 for size in range(11, 91)]
            sizes = list(view.chunk_sizes(10))[:80]
            assert [position for position, _ in sizes] == [position for position, _ in chunks]
            exact = [len(body) for _, body in chunks]
            assert all(0.5 < size / of < 2 for (_, size), of in zip(sizes, exact, strict=True))
            assert view.identity() == again.identity()
            with pytest.raises(CursorExpired):
                next(view.chunks(-1, 5))
        await store.close()

    asyncio.run(scene())


def test_the_size_of_a_chunk_is_that_of_its_events(store: SqliteStore | PostgresStore) -> None:
    """Also where many are stored as little: whoever reads a part of the feed at a time has to know what it will be."""

    async def scene() -> None:
        await store.migrate()
        jobs = [job() for _ in range(400)]
        await store.enqueue(jobs)
        claimed = await store.claim(Claim(claim_id=bytes(16), worker="w", queues=(("mail", None),), n=400))
        assert isinstance(claimed, Claimed)
        await store.settle([Settle(one.token, Succeed()) for one in claimed.jobs])
        with store.snapshot() as view:
            exact = [len(body) for _, body in view.chunks(0, 3)]
            assert [body.count(b"\n") for _, body in view.chunks(0, 3)] == [400, 400, 400]
            assert all(0.8 < size / of < 1.25 for (_, size), of in zip(view.chunk_sizes(0), exact, strict=True))
        await store.close()

    asyncio.run(scene())


def test_a_read_that_is_given_up_leaves_the_view_as_it_was(store: SqliteStore | PostgresStore) -> None:
    async def scene() -> None:
        await store.migrate()
        await store.enqueue([job() for _ in range(20)])
        with store.snapshot() as view:
            started = view.scan(JobFilter(), {"id"}, limit=2)
            assert len(next(started)["id"]) == 2
            both = zip(started, view.scan(JobFilter(), {"id"}, limit=2), strict=False)
            assert len(next(both)) == 2
            assert sum(len(page["id"]) for page in view.scan(JobFilter(), {"id"}, limit=3)) == 20
        await store.close()

    asyncio.run(scene())


def test_a_file_that_isnt_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="doesn't exist yet"):
        SqliteStore(tmp_path / "jobs.db").snapshot()


# PostgreSQL


def test_a_schema_that_isnt_there_is_said_to_be_so(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="has no schema yet"), PostgresStore(url).snapshot():
        pass


def test_a_newer_schema_is_refused(url: str, postgres_url: str) -> None:
    asyncio.run(PostgresStore(url).migrate())
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {Server(url).schema}.migration (number, needs) VALUES (99, 99)".encode())
    with pytest.raises(SchemaTooNew, match="has schema 99"), PostgresStore(url).snapshot():
        pass


def test_a_view_waits_for_its_reader_and_says_when_the_server_ended_it(url: str, postgres_url: str) -> None:
    """The server's limits aren't its; one who may end it can."""
    store = PostgresStore(url)
    asyncio.run(store.migrate())
    limits = "SHOW statement_timeout", "SHOW idle_in_transaction_session_timeout"
    with pytest.raises(StoreUnavailable), store.snapshot() as view:
        tables = view._tables
        assert isinstance(tables, ViewTables)
        assert [tables.connection.execute(limit).fetchall() for limit in limits] == [[("0",)], [("0",)]]
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (tables.connection.info.backend_pid,))
        view.query(JobFilter())


def test_a_part_reads_its_own_rows_of_every_table(url: str) -> None:
    store = PostgresStore(url)
    asyncio.run(store.migrate())
    with store.snapshot() as view:
        tables = view._tables
        span = Span("5", "9")
        sql, values = scan_sql(["state", "live"], JobFilter(), span, tables.records(span), tables.listed)
        plan = "\n".join(row[0] for row in tables.stream(f"EXPLAIN {sql}", values))
    assert plan.count("(seq > 5) AND (seq <= 9)") == 3, plan
