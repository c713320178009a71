"""A pool that the user made: the store borrows from it, and gives back what it got."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import ClientCursor
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from tenure import Jobs, Tenure
from tenure.domain.calls import Enqueued
from tenure.domain.errors import IdConflict, InvalidValue, StoreUnavailable
from tenure.domain.job import NewJob
from tenure.stores.sql.postgres import PostgresStore
from tests.stores.test_postgres_pooler import LEFT

PATIENCE = 60.0
JOB = NewJob(tenant="acme", id="01900000-0000-7000-8000-000000000001", queue="q", job_type="t", payload=b"{}")


@pytest.fixture
def pool(postgres_url: str) -> Iterator["ConnectionPool[Any]"]:
    """Connections that return dicts, begin transactions by themselves, and have settings of their own."""

    def configure(connection: "psycopg.Connection[Any]") -> None:
        connection.execute("SET enable_hashjoin = off")
        connection.execute("SET timezone = 'Asia/Kathmandu'")
        connection.commit()

    kwargs = {"row_factory": dict_row, "cursor_factory": ClientCursor}
    with ConnectionPool(postgres_url, min_size=1, max_size=2, kwargs=kwargs, configure=configure) as made:
        yield made
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP SCHEMA IF EXISTS lent CASCADE")


def state(pool: "ConnectionPool[Any]") -> tuple[Any, ...]:
    """What whoever borrows a connection next will find."""
    with pool.connection() as connection:
        found = connection.execute(LEFT).fetchall()
        zone = connection.execute("SHOW timezone").fetchone()
        factories = (connection.row_factory, connection.cursor_factory, connection.autocommit)
        sent = connection.execute("SELECT pg_typeof(%s)::text", (1,)).fetchone()
    return sorted(tuple(row.values()) for row in found), zone, factories, sent


def test_jobs_run_on_lent_connections_which_come_back_as_they_were(
    postgres_url: str, pool: "ConnectionPool[Any]"
) -> None:
    before = state(pool)
    jobs = Jobs()

    @jobs.job
    async def double(number: int) -> int:
        return 2 * number

    async def main() -> None:
        store = PostgresStore(f"{postgres_url}?schema=lent", pool=pool)
        app = Tenure(store=store)
        app.include(jobs)
        async with app, app.worker():
            handles = await app.enqueue_many([double.build(number) for number in range(20)])
            assert [await one.result(timeout=PATIENCE) for one in handles] == [2 * number for number in range(20)]
        assert await store.verify() == []
        await store.enqueue([JOB])
        other = replace(JOB, payload=b"[]")  # the statement fails, and another way is taken
        assert await store.enqueue([other]) == [IdConflict()]
        await store.close()

    asyncio.run(main())
    assert before[0] == [("setting", "TimeZone"), ("setting", "enable_hashjoin")]
    assert [state(pool), state(pool)] == [before, before]


def test_a_pool_with_no_connection_left(postgres_url: str, pool: "ConnectionPool[Any]") -> None:
    async def main() -> None:
        store = PostgresStore(f"{postgres_url}?schema=lent", pool=pool)
        await store.migrate()
        pool.timeout = 0.05
        with (
            pool.connection(timeout=PATIENCE),
            pool.connection(timeout=PATIENCE),
            pytest.raises(StoreUnavailable, match="couldn't get a connection"),
        ):
            await store.enqueue([JOB])
        pool.timeout = PATIENCE
        assert await store.enqueue([JOB]) == [Enqueued(JOB.id)]
        await store.close()

    asyncio.run(main())


def test_a_connection_that_the_server_ended(postgres_url: str, pool: "ConnectionPool[Any]") -> None:
    async def main() -> None:
        store = PostgresStore(f"{postgres_url}?schema=lent", pool=pool)
        await store.migrate()
        with pool.connection() as connection:
            pid = connection.info.backend_pid
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        assert await store.enqueue([JOB]) == [Enqueued(JOB.id)]
        await store.close()

    asyncio.run(main())


FORKED = """
import asyncio, os, sys
from psycopg_pool import ConnectionPool
from tenure.domain.errors import StoreUnavailable
from tenure.stores.sql.postgres import PostgresStore

store = PostgresStore(sys.argv[1], pool=ConnectionPool(sys.argv[1], open=False))
if os.fork():
    os.wait()
else:
    try:
        asyncio.run(store.verify())
    except StoreUnavailable as error:
        print(error)
"""


def test_after_a_fork_the_pool_is_the_parents(postgres_url: str) -> None:
    ran = subprocess.run([sys.executable, "-c", FORKED, postgres_url], capture_output=True, text=True, check=True)
    assert "its pool is the parent process's; make pool and store after the fork" in ran.stdout


def test_what_is_no_pool(postgres_url: str) -> None:
    not_one: Any = object()
    with pytest.raises(InvalidValue, match=r"a object has no connection\(\)"):
        PostgresStore(postgres_url, pool=not_one)
    of_a_loop: Any = AsyncConnectionPool(postgres_url, open=False)
    with pytest.raises(InvalidValue, match="belong to an event loop"):
        PostgresStore(postgres_url, pool=of_a_loop)


def test_a_pool_of_another_database_is_refused(postgres_url: str) -> None:
    """Also if there is a schema of the same name there."""
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("CREATE DATABASE pooled_elsewhere")
    elsewhere = postgres_url.rpartition("/")[0] + "/pooled_elsewhere"

    async def main() -> None:
        await PostgresStore(f"{elsewhere}?schema=lent").migrate()
        with ConnectionPool(elsewhere, min_size=1, max_size=1, open=True) as pool:
            store = PostgresStore(f"{postgres_url}?schema=lent", pool=pool)
            await store.migrate()
            with pytest.raises(InvalidValue, match="pool: it is open on database pooled_elsewhere at "):
                await store.enqueue([JOB])
            await store.close()

    asyncio.run(main())
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("DROP DATABASE pooled_elsewhere WITH (FORCE)")
        db.execute("DROP SCHEMA lent CASCADE")
