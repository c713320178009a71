"""The contract in a database whose administrator has given every session settings that are none of Tenure's."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from psycopg_pool import ConnectionPool

from tenure import Context, Jobs, Tenure
from tenure.domain.errors import KeyWaits, StoreUnavailable
from tenure.domain.store import Clock, Store, queue_topic
from tenure.stores.sql.postgres import PostgresStore
from tenure.testing.conformance import (
    TestExchange,
    TestFreeze,
    TestKeys,
    TestSettle,
    world,
)
from tenure.testing.factories import PostgresFactory
from tenure.testing.factory import StoreFactory

__all__ = [
    "TestExchange",
    "TestFreeze",
    "TestKeys",
    "TestSettle",
    "world",
]

PATIENCE = 20.0
TIMEOUTS = {
    "idle_in_transaction_session_timeout": "200ms",
    "idle_session_timeout": "1s",
    "lock_timeout": "1ms",
    "statement_timeout": "300ms",
}
OTHERS = {
    "bytea_output": "escape",
    "DateStyle": "SQL, DMY",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "serializable",
    "IntervalStyle": "sql_standard",
    "jit": "on",
    "jit_above_cost": "0",
    "plan_cache_mode": "force_custom_plan",
    "row_security": "off",
    "search_path": "nowhere",
    "TimeZone": "Asia/Kathmandu",
}
SINCE_17 = {"transaction_timeout": "400ms"}

jobs = Jobs()


@jobs.job
async def double(number: int) -> int:
    return 2 * number


@jobs.job
async def book(ctx: Context, number: int) -> int:
    """Takes longer than a transaction may be idle here."""
    async with ctx.transaction() as tx:
        await tx.connection.execute("CREATE TABLE IF NOT EXISTS public.booked (number int)")
        await tx.connection.execute("INSERT INTO public.booked VALUES (%s)", (number,))
        await asyncio.sleep(0.5)
        tx.result = number
    return number


class Hostile:
    """A database, by two addresses: as it is, and with the settings that a test needs for itself."""

    def __init__(self, url: str) -> None:
        self._server = url
        self.name = f"hostile_{uuid4().hex}"
        self.url = url.rpartition("/")[0] + f"/{self.name}"
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {self.name}".encode())
            given = TIMEOUTS | OTHERS | (SINCE_17 if db.info.server_version >= 170_000 else {})
            for name, value in given.items():
                quoted = value if name == "DateStyle" else f"'{value}'"
                db.execute(f"ALTER DATABASE {self.name} SET {name} = {quoted}".encode())
        off = {name: "0" for name in given if name.endswith("timeout")} | {"jit": "off"}
        self.mild = f"{self.url}?options=" + "%20".join(f"-c%20{name}%3D{value}" for name, value in off.items())

    def remove(self) -> None:
        with psycopg.connect(self._server, autocommit=True) as db:
            db.execute(f"DROP DATABASE {self.name} WITH (FORCE)".encode())


class HostileFactory(PostgresFactory):
    """Stores in a hostile database."""

    def __init__(self, hostile: Hostile) -> None:
        super().__init__(hostile.mild)
        self._hostile = hostile

    def _opened(self, schema: str, clock: Clock) -> Store:
        return PostgresStore(f"{self._hostile.url}?schema={schema}", clock=clock)


@pytest.fixture(scope="module")
def hostile(postgres_url: str) -> Iterator[Hostile]:
    made = Hostile(postgres_url)
    yield made
    made.remove()


@pytest.fixture
def factory(hostile: Hostile) -> StoreFactory:
    return HostileFactory(hostile)


def patient(hostile: Hostile) -> str:
    """For a user whose transactions take long, and who says so."""
    with psycopg.connect(hostile.mild) as db:
        newer = db.info.server_version >= 170_000
    names = ["idle_in_transaction_session_timeout", *(["transaction_timeout"] if newer else [])]
    return f"{hostile.url}?options=" + "%20".join(f"-c%20{name}%3D0" for name in names)


@contextmanager
def in_schema(hostile: Hostile) -> Iterator[str]:
    schema = f"s{uuid4().hex}"
    yield schema
    with psycopg.connect(hostile.mild, autocommit=True) as db:
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def test_the_settings_hold_there(hostile: Hostile) -> None:
    """Else everything else here would prove nothing."""
    with psycopg.connect(hostile.url, autocommit=True) as db:
        assert db.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
        with pytest.raises(psycopg.errors.QueryCanceled):
            db.execute("SELECT pg_sleep(20)")


@pytest.mark.parametrize("pooler", ["", "&pooler=transaction"], ids=["own connections", "behind a pooler"])
def test_an_app_works_there(hostile: Hostile, pooler: str) -> None:
    with in_schema(hostile) as schema:
        app = Tenure(f"{hostile.url}?schema={schema}{pooler}")
        app.include(jobs)

        async def main() -> None:
            async with app, app.worker():
                handles = await app.enqueue_many([double.build(number) for number in range(50)])
                handles.append(await app.enqueue(double.options(key="k").build(7)))
                assert [await one.result(PATIENCE) for one in handles] == [*range(0, 100, 2), 14]
                booked = await app.enqueue(book.options(max_attempts=1).build(3))
                assert await booked.result(PATIENCE) == 3

        asyncio.run(main())


def test_who_waits_is_told(hostile: Hostile) -> None:
    """The connection that listens is idle for longer than a session may be."""
    with in_schema(hostile) as schema:
        url = f"{hostile.url}?schema={schema}"

        async def main() -> None:
            one, two = PostgresStore(url), PostgresStore(url)
            await one.migrate()
            topic = queue_topic("default")
            assert await one.wait([topic], PATIENCE)
            assert not await one.wait([topic], 1.3)
            told = asyncio.create_task(one.wait([topic], PATIENCE))
            app = Tenure(store=two)
            app.include(jobs)
            await app.enqueue(double.build(1))
            assert await told
            await one.close()
            await app.close()

        asyncio.run(main())


def test_a_users_pool_lends_such_connections(hostile: Hostile) -> None:
    """Settings are ours for a transaction each; afterwards they are theirs again."""
    with in_schema(hostile) as schema, ConnectionPool(hostile.url, min_size=1, max_size=2, open=True) as pool:
        store = PostgresStore(f"{hostile.url}?schema={schema}", pool=pool)
        app = Tenure(store=store)
        app.include(jobs)

        async def main() -> None:
            async with app, app.worker():
                handles = await app.enqueue_many([double.build(number) for number in range(20)])
                assert [await one.result(PATIENCE) for one in handles] == [*range(0, 40, 2)]
            await store.close()

        asyncio.run(main())
        with pool.connection() as connection:
            for name in ("search_path", "TimeZone", "bytea_output", "lock_timeout"):
                found = connection.execute(f"SHOW {name}".encode()).fetchone()
                assert found == ((TIMEOUTS | OTHERS)[name],)


class Joining:
    """A user's transaction there, by one of the drivers."""

    def __init__(self, url: str, driver: str) -> None:
        self._url, self._driver = url, driver
        self.connection: Any = None

    async def __aenter__(self) -> "Joining":
        if self._driver == "asyncpg":
            self.connection = await asyncpg.connect(self._url)
            await self.connection.execute("BEGIN")
        else:
            self.connection = await psycopg.AsyncConnection.connect(self._url)
        return self

    async def commit(self) -> None:
        await (self.connection.execute("COMMIT") if self._driver == "asyncpg" else self.connection.commit())

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_in_a_users_transaction(hostile: Hostile, driver: str) -> None:
    with in_schema(hostile) as schema:
        app = Tenure(f"{hostile.url}?schema={schema}")
        app.include(jobs)
        url = patient(hostile)

        async def main() -> None:
            async with app, Joining(url, driver) as user, Joining(url, driver) as other:
                handle = await app.enqueue(double.options(connection=user.connection, key="k").build(21))
                with pytest.raises(KeyWaits, match="your connection's lock_timeout is over"):
                    await app.enqueue(double.options(connection=other.connection, key="k").build(21))
                await user.commit()
                async with app.worker():
                    assert await handle.result(PATIENCE) == 42

        asyncio.run(main())


def test_who_may_only_read_is_refused_by_name(hostile: Hostile) -> None:
    with in_schema(hostile) as schema:
        app = Tenure(f"{hostile.url}?schema={schema}")
        app.include(jobs)
        reading = Tenure(f"{hostile.url}?schema={schema}&options=-c%20default_transaction_read_only%3Don")
        reading.include(jobs)

        async def main() -> None:
            async with app, reading, Joining(patient(hostile), "psycopg") as user:
                with pytest.raises(StoreUnavailable, match="may only read, by default_transaction_read_only say"):
                    await reading.send("double", {"number": 21})
                await user.connection.set_read_only(True)
                with pytest.raises(StoreUnavailable, match="may only read, by default_transaction_read_only say"):
                    await app.enqueue(double.options(connection=user.connection).build(21))
                assert await reading.jobs() == []

        asyncio.run(main())
