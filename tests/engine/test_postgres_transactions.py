"""In the user's transaction on PostgreSQL, by every driver: rolled back means never enqueued and never told."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tenure import Context, InvalidValue, JobFailed, Tenure
from tenure.domain.errors import JobCancelled, StoreUnavailable
from tenure.domain.states import State

PATIENCE = 20.0


class Shop:
    """A schema with an app's jobs and a table of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.schema = f"s{uuid4().hex}"
        self.store_url = f"{url}?schema={self.schema}"
        self.app = Tenure(self.store_url)

        @self.app.job(max_attempts=1)
        async def pay(order: int) -> int:
            return order

        self.pay = pay
        asyncio.run(self._prepare())
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE TABLE {self.schema}.orders (id int PRIMARY KEY)".encode())

    async def _prepare(self) -> None:
        async with self.app:
            pass

    @property
    def insert(self) -> str:
        return f"INSERT INTO {self.schema}.orders VALUES (1)"

    def orders(self) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute(f"SELECT count(*) FROM {self.schema}.orders".encode()).fetchone()
        assert row is not None
        return int(row[0])

    def sqlalchemy(self, driver: str) -> str:
        return self.url.replace("postgresql://", f"postgresql+{driver}://")

    def remove(self) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(f"DROP SCHEMA {self.schema} CASCADE".encode())


@pytest.fixture
def shop(postgres_url: str) -> Iterator[Shop]:
    made = Shop(postgres_url)
    yield made
    made.remove()


class RolledBackOnPurpose(Exception):
    """How a block is left without a commit."""


Opened = Callable[[Shop, bool], AbstractAsyncContextManager[Any]]
"""Opens a transaction, writes an order in it, gives its connection, and commits or rolls back at the end."""


@asynccontextmanager
async def by_psycopg(shop: Shop, commit: bool) -> AsyncIterator[Any]:
    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.insert.encode())
        yield connection
        connection.commit() if commit else connection.rollback()


@asynccontextmanager
async def by_psycopg_with_rows_of_its_own(shop: Shop, commit: bool) -> AsyncIterator[Any]:
    with psycopg.connect(
        shop.url, row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.ClientCursor
    ) as connection:
        connection.execute(shop.insert.encode())
        yield connection
        assert connection.execute("SELECT 1 AS one").fetchall() == [{"one": 1}]
        connection.commit() if commit else connection.rollback()


@asynccontextmanager
async def by_async_psycopg(shop: Shop, commit: bool) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(shop.url) as connection:
        await connection.execute(shop.insert.encode())
        yield connection
        await (connection.commit() if commit else connection.rollback())


@asynccontextmanager
async def by_asyncpg(shop: Shop, commit: bool) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(shop.url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(shop.insert)
    yield connection
    await (transaction.commit() if commit else transaction.rollback())
    await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(shop: Shop, commit: bool) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(shop.url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(shop.insert)
        yield connection
        await (transaction.commit() if commit else transaction.rollback())


@asynccontextmanager
async def by_sqlalchemy(shop: Shop, commit: bool) -> AsyncIterator[Any]:
    engine = create_engine(shop.sqlalchemy("psycopg"))
    with engine.connect() as connection:
        connection.execute(text(shop.insert))
        yield connection
        connection.commit() if commit else connection.rollback()
    engine.dispose()


@asynccontextmanager
async def by_sqlalchemy_session(shop: Shop, commit: bool) -> AsyncIterator[Any]:
    engine = create_engine(shop.sqlalchemy("psycopg"))
    with Session(engine) as session:
        yield session.connection()  # nothing was executed yet
        session.execute(text(shop.insert))
        session.commit() if commit else session.rollback()
    engine.dispose()


@asynccontextmanager
async def by_async_sqlalchemy(shop: Shop, commit: bool, driver: str = "asyncpg") -> AsyncIterator[Any]:
    engine = create_async_engine(shop.sqlalchemy(driver))
    async with AsyncSession(engine) as session:
        yield await session.connection()  # nothing was executed yet
        await session.execute(text(shop.insert))
        await (session.commit() if commit else session.rollback())
    await engine.dispose()


def by_async_sqlalchemy_psycopg(shop: Shop, commit: bool) -> AbstractAsyncContextManager[Any]:
    return by_async_sqlalchemy(shop, commit, "psycopg_async")


EVERY = [
    by_psycopg,
    by_psycopg_with_rows_of_its_own,
    by_async_psycopg,
    by_asyncpg,
    by_asyncpg_pool,
    by_sqlalchemy,
    by_sqlalchemy_session,
    by_async_sqlalchemy,
    by_async_sqlalchemy_psycopg,
]


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "rolled back"])
@pytest.mark.parametrize("opened", EVERY, ids=lambda opened: opened.__name__)
def test_a_job_goes_with_the_users_transaction(shop: Shop, opened: Opened, commit: bool) -> None:
    async def main() -> None:
        async with shop.app as app:
            async with opened(shop, commit) as connection:
                handle = await shop.pay.options(connection=connection, key="order 1", labels={"a": "b"}).enqueue(1)
                assert await app.jobs() == []
                assert [event async for event in app.events(follow=False)] == []
            assert len(await app.jobs()) == shop.orders() == int(commit)
            if commit:
                async with app.worker():
                    assert await handle.result(PATIENCE) == 1

    asyncio.run(main())


@pytest.mark.parametrize("opened", EVERY, ids=lambda opened: opened.__name__)
def test_what_is_refused_leaves_the_transaction_as_it_was(shop: Shop, opened: Opened) -> None:
    async def main() -> None:
        async with shop.app as app:
            pay = shop.pay.options(key="order 1")
            await pay.enqueue(1)
            async with opened(shop, True) as connection:
                again = await pay.options(connection=connection).enqueue(1)
                assert not again.created
            assert len(await app.jobs()) == shop.orders() == 1

    asyncio.run(main())


def test_the_commit_is_told_and_nothing_before(shop: Shop) -> None:
    async def main(connection: "psycopg.Connection[Any]") -> None:
        async with shop.app:  # which tells on its end what it has to
            await shop.pay.options(connection=connection, queue="undone").enqueue(1)
            connection.rollback()
            await shop.pay.options(connection=connection, queue="done").enqueue(2)

    with psycopg.connect(shop.url, autocommit=True) as listener, psycopg.connect(shop.url) as connection:
        listener.execute(f"LISTEN tenure_{shop.schema}".encode())
        asyncio.run(main(connection))
        connection.commit()
        (heard,) = listener.notifies(timeout=PATIENCE, stop_after=1)
        assert heard.pid == connection.info.backend_pid
    assert "queue/done" in heard.payload.split("\n")


def test_a_worker_of_another_process_hears_it(shop: Shop) -> None:
    """Two apps stand for two processes: nothing but the server connects them."""

    async def main() -> None:
        async with shop.app, Tenure(shop.store_url) as other:
            store = await other.opened()
            assert await store.wait(["queue/default"], PATIENCE)  # whoever begins to listen is told to look once
            waiting = asyncio.ensure_future(store.wait(["queue/default"], PATIENCE))
            await asyncio.sleep(0)  # it waits now
            with psycopg.connect(shop.url) as connection:
                await shop.pay.options(connection=connection).enqueue(1)
            assert await waiting

    asyncio.run(main())


async def held_up(shop: Shop) -> None:
    """Until somebody waits for another's transaction to end."""
    async with asyncio.timeout(PATIENCE):
        with psycopg.connect(shop.url, autocommit=True) as connection:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'"
            while connection.execute(asked).fetchone() == (0,):
                await asyncio.sleep(0.01)


def test_an_open_transaction_holds_nobody_up(shop: Shop) -> None:
    """Others enqueue, claim and settle past it; only its own key waits for it."""

    async def main() -> None:
        async with shop.app as app:
            with psycopg.connect(shop.url) as connection:
                await shop.pay.options(connection=connection, key="mine").enqueue(1)
                async with app.worker():
                    others = [await shop.pay.options(key=f"{number}").enqueue(number) for number in range(20)]
                    assert [await other.result(PATIENCE) for other in others] == list(range(20))
                late = asyncio.ensure_future(shop.pay.options(key="mine").enqueue(1))
                await held_up(shop)
                connection.commit()
            assert not (await late).created

    asyncio.run(main())


def test_from_code_without_a_loop(shop: Shop) -> None:
    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.insert.encode())
        shop.pay.sync.options(connection=connection).enqueue(1)
    assert [job.payload for job in shop.app.sync.jobs()] == [{"order": 1}]
    shop.app.sync.close()


def test_a_connection_of_a_loop_is_for_the_loop(shop: Shop) -> None:
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(shop.url) as connection:
            with pytest.raises(InvalidValue, match="it belongs to an event loop; await the enqueue there"):
                shop.pay.sync.options(connection=connection).enqueue(1)

    asyncio.run(main())
    shop.app.sync.close()


def test_connections_that_wont_do(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app:
            loose_ends = pytest.raises(InvalidValue, match="in no transaction; begin one")
            with psycopg.connect(shop.url, autocommit=True) as connection, loose_ends:
                await shop.pay.options(connection=connection).enqueue(1)
            with psycopg.connect(shop.url) as connection:
                with pytest.raises(psycopg.Error):
                    connection.execute("SELECT nonsense")
                with pytest.raises(InvalidValue, match="its transaction has failed; roll it back first"):
                    await shop.pay.options(connection=connection).enqueue(1)
            with pytest.raises(InvalidValue, match="connection: it is closed"):
                await shop.pay.options(connection=connection).enqueue(1)
            loose = await asyncpg.connect(shop.url)
            with pytest.raises(InvalidValue, match="in no transaction; begin one"):
                await shop.pay.options(connection=loose).enqueue(1)
            await loose.close()
            with pytest.raises(InvalidValue, match="a dict isn't, and doesn't show, one of psycopg 3; give psycopg's"):
                await shop.pay.options(connection={}).enqueue(1)

    asyncio.run(main())


def test_a_connection_to_another_database_says_so(shop: Shop) -> None:
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {shop.schema}".encode())
    elsewhere = shop.url.rpartition("/")[0] + f"/{shop.schema}"

    async def main() -> None:
        async with shop.app:
            with psycopg.connect(elsewhere) as connection, pytest.raises(StoreUnavailable, match="has no schema yet"):
                await shop.pay.options(connection=connection).enqueue(1)

    asyncio.run(main())
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {shop.schema}".encode())


def test_djangos_connection(shop: Shop) -> None:
    known = psycopg.conninfo.conninfo_to_dict(shop.url)
    script = f"""
import json
from django.conf import settings
settings.configure(DATABASES={{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": {known["dbname"]!r},
    "USER": {known["user"]!r}, "HOST": {known["host"]!r}, "PORT": {str(known["port"])!r}}}}})
import django; django.setup()
from django.db import connection, transaction
from tenure import Tenure
app = Tenure({shop.store_url!r})
@app.job
def pay(order: int) -> int: return order
class Undo(Exception): pass
with transaction.atomic():
    pay.sync.options(connection=connection).enqueue(1)
try:
    with transaction.atomic():
        pay.sync.options(connection=connection).enqueue(2)
        raise Undo
except Undo: pass
print(json.dumps([job.payload for job in app.sync.jobs()]))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [{"order": 1}]


# ctx.transaction()


def with_handler(shop: Shop, **options: Any) -> Any:
    @shop.app.job(max_attempts=1, **options)
    async def book(ctx: Context, order: int, how: str) -> Any:
        async with ctx.transaction() as tx:
            await tx.connection.execute(f"INSERT INTO {shop.schema}.orders VALUES (%s)".encode(), (order,))
            tx.enqueue(shop.pay.build(order))
            tx.result = f"booked {order}"
            if how == "raise":
                raise RolledBackOnPurpose
            if how == "cancel":
                await ctx.app.handle(ctx.id).cancel()

    return book


@pytest.mark.parametrize("how", ["well", "raise", "cancel"])
def test_a_handlers_writes_and_its_success_are_one(shop: Shop, how: str) -> None:
    book = with_handler(shop)

    async def main() -> None:
        async with shop.app as app:
            handle = await book.enqueue(7, how)
            async with app.worker(queues=["default"]):
                if how == "well":
                    assert await handle.result(PATIENCE) == "booked 7"
                elif how == "raise":
                    with pytest.raises(JobFailed):
                        await handle.result(PATIENCE)
                else:
                    with pytest.raises(JobCancelled):
                        await handle.result(PATIENCE)
            assert shop.orders() == (1 if how == "well" else 0)
            paid = [job for job in await app.jobs() if job.job_type == "pay"]
            assert len(paid) == (1 if how == "well" else 0)
            wanted = {"well": State.SUCCEEDED, "raise": State.FAILED, "cancel": State.CANCELLED}[how]
            assert (await handle.get()).state is wanted

    asyncio.run(main())
