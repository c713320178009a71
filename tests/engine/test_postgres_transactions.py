"""In the user's transaction on PostgreSQL, by every driver: rolled back means never enqueued and never told."""

import asyncio
import copy
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tenure import Context, InvalidValue, JobFailed, Tenure
from tenure.domain.errors import JobCancelled
from tenure.domain.states import State
from tenure.stores.sql.postgres import home

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


@pytest.fixture
def elsewhere(shop: Shop) -> Iterator[str]:
    """Another database of the same server."""
    name = f"other_{shop.schema}"
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield shop.url.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@asynccontextmanager
async def by_pool(shop: Shop, commit: bool) -> AsyncIterator[Any]:
    with ConnectionPool(shop.url, min_size=1, max_size=1, open=True) as pool, pool.connection() as connection:
        yield connection
        connection.commit() if commit else connection.rollback()


@pytest.mark.parametrize("made_there", [True, False], ids=["with the same schema", "without"])
@pytest.mark.parametrize("opened", [by_psycopg, by_async_psycopg, by_asyncpg, by_asyncpg_pool, by_sqlalchemy, by_pool])
def test_a_job_goes_to_no_other_database(shop: Shop, elsewhere: str, opened: Opened, made_there: bool) -> None:
    """Neither where there is a schema of the same name, which isn't this one's, nor where there is none."""
    other = Tenure(f"{elsewhere}?schema={shop.schema}")
    away = copy.copy(shop)
    away.url = elsewhere

    async def main() -> None:
        if made_there:
            async with other:
                pass
        with psycopg.connect(elsewhere) as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {shop.schema}".encode())
            connection.execute(f"CREATE TABLE {shop.schema}.orders (id int)".encode())
        said = f"open on database other_{shop.schema} at .*, the jobs are in tenure at .*: give one on that database"
        async with shop.app as app:
            async with opened(away, True) as connection:
                for _ in range(2):
                    with pytest.raises(InvalidValue, match=said):
                        await shop.pay.options(connection=connection).enqueue(1)
            assert await app.jobs() == []
        if made_there:
            async with other:
                assert await other.jobs() == []

    asyncio.run(main())


def test_a_job_goes_to_no_other_server(shop: Shop, quiet_postgres_url: str) -> None:
    """One whose database has the same name, the same number, and a schema of the same name."""
    store_url = f"{quiet_postgres_url}?schema={shop.schema}"

    async def main() -> None:
        async with Tenure(store_url) as other, shop.app as app:
            with (
                psycopg.connect(quiet_postgres_url) as connection,
                pytest.raises(InvalidValue, match=r"open on database tenure at .*, the jobs are in tenure at "),
            ):
                await shop.pay.options(connection=connection).enqueue(1)
            assert await app.jobs() == await other.jobs() == []

    asyncio.run(main())
    with psycopg.connect(quiet_postgres_url) as connection:
        connection.execute(f"DROP SCHEMA {shop.schema} CASCADE".encode())


def test_a_connection_is_looked_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[home.Database] = []
    look = home.database

    def counted(ask: home.Ask) -> home.Database:
        looked.append(look(ask))
        return looked[-1]

    monkeypatch.setattr(home, "database", counted)

    async def main() -> None:
        async with shop.app, by_async_psycopg(shop, True) as one, by_psycopg(shop, False) as two:
            for connection in (one, two, one, two, one):
                await shop.pay.options(connection=connection).enqueue(1)

    with psycopg.connect(shop.url) as connection:
        connection.execute(f"ALTER TABLE {shop.schema}.orders DROP CONSTRAINT orders_pkey".encode())
    asyncio.run(main())
    assert len(looked) == 3, "the store's own, and each connection"


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


# A key that an open transaction holds


def others(shop: Shop) -> list[Any]:
    """Enqueues that want nothing of a held key: without a key, of another tenant, queue or type, with another key."""
    pay = shop.pay
    return [
        pay.options(),
        pay.options(tenant="bolt"),
        pay.options(queue="other"),
        pay.options(tenant="bolt", key="mine"),
        pay.options(queue="other", key="mine"),
        *(pay.options(key=f"other {number}") for number in range(20)),
    ]


def test_only_those_wait_for_a_key_who_want_it(shop: Shop) -> None:
    """They leave together, with those who want the key among them."""

    async def main() -> None:
        async with shop.app:
            with psycopg.connect(shop.url) as connection:
                first = await shop.pay.options(connection=connection, key="mine").enqueue(0)
                late = [asyncio.create_task(shop.pay.options(key="mine").enqueue(0)) for _ in range(3)]
                rest = [asyncio.create_task(one.enqueue(n)) for n, one in enumerate(others(shop))]
                late += [asyncio.create_task(shop.pay.options(key="mine").enqueue(0)) for _ in range(3)]
                async with asyncio.timeout(PATIENCE):
                    handles = await asyncio.gather(*rest)
                    handles += [await one.options(labels={"a": "b"}).enqueue(1) for one in others(shop)[:3]]
                assert all(handle.created for handle in handles)
                assert not any(one.done() for one in late)
                connection.commit()
            assert {(await one).id for one in late} == {first.id}

    asyncio.run(main())


def test_a_key_is_free_again_when_its_holder_rolls_back(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app as app:
            with psycopg.connect(shop.url) as connection:
                await shop.pay.options(connection=connection, key="mine").enqueue(0)
                late = [asyncio.create_task(shop.pay.options(key="mine").enqueue(0)) for _ in range(3)]
                await held_up(shop)
                connection.rollback()
            handles = await asyncio.gather(*late)
            assert [job.id for job in await app.jobs()] == [handles[0].id]
            assert sorted(handle.created for handle in handles) == [False, False, True]

    asyncio.run(main())


def test_held_keys_keep_no_connection(shop: Shop) -> None:
    """More of them than the store has connections: all the same, others enqueue, claim and settle."""
    app = Tenure(f"{shop.store_url}&connections=2")

    @app.job
    async def pay(order: int) -> int:
        return order

    async def main() -> None:
        async with app:
            with psycopg.connect(shop.url) as connection:
                for order in range(10):
                    await pay.options(connection=connection, key=f"{order}").enqueue(order)
                late = [asyncio.create_task(pay.options(key=f"{order}").enqueue(order)) for order in range(10)]
                await held_up(shop)
                async with app.worker(), asyncio.timeout(PATIENCE):
                    handles = [await pay.enqueue(order) for order in range(20)]
                    assert [await handle.result(PATIENCE) for handle in handles] == list(range(20))
                assert not any(one.done() for one in late)
                connection.commit()
            assert [(await one).created for one in late] == [False] * 10

    asyncio.run(main())


def test_a_request_in_a_thread_doesnt_wait_for_itself(shop: Shop) -> None:
    """Another thread wants its key: that one waits, and what the request enqueues besides doesn't wait with it."""
    with ThreadPoolExecutor(1) as other, psycopg.connect(shop.url) as connection:
        first = shop.pay.sync.options(connection=connection, key="mine").enqueue(0)
        late = other.submit(shop.pay.sync.options(key="mine").enqueue, 0)
        asyncio.run(held_up(shop))
        handles = [shop.pay.sync.enqueue(order) for order in range(3)]
        connection.commit()
        assert late.result(PATIENCE).id == first.id
        assert all(handle.created for handle in handles)
    shop.app.sync.close()


def test_connections_of_a_loop_that_wait_for_a_key_take_no_threads(shop: Shop) -> None:
    """More of them than there are threads to wait in: whoever holds the key can still enqueue, and commit."""

    async def wait(order: int) -> bool:
        async with await psycopg.AsyncConnection.connect(shop.url) as connection:
            return bool((await shop.pay.options(connection=connection, key="mine").enqueue(0)).created)

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with shop.app, await psycopg.AsyncConnection.connect(shop.url) as holder:
            await shop.pay.options(connection=holder, key="mine").enqueue(0)
            late = [asyncio.create_task(wait(order)) for order in range(4)]
            await held_up(shop)
            async with asyncio.timeout(PATIENCE):
                await shop.pay.options(connection=holder).enqueue(1)
            await holder.commit()
            assert await asyncio.gather(*late) == [False] * 4

    asyncio.run(main())


def test_a_success_that_waits_for_a_key_holds_up_no_other(shop: Shop) -> None:
    """It carries a job whose key is held. The worker goes on claiming and settling meanwhile."""

    @shop.app.job(max_attempts=1)
    async def carry(ctx: Context, order: int) -> int:
        carried = ctx.enqueue(shop.pay.options(key="mine").build(0))
        return order if carried.id else -1

    async def main() -> None:
        async with shop.app as app, app.worker():
            with psycopg.connect(shop.url) as connection:
                first = await shop.pay.options(connection=connection, key="mine").enqueue(0)
                late = [await carry.enqueue(order) for order in range(3)]
                await held_up(shop)
                handles = [await shop.pay.enqueue(order) for order in range(20)]
                async with asyncio.timeout(PATIENCE):
                    assert [await handle.result() for handle in handles] == list(range(20))
                assert [(await one.get()).state for one in late] == [State.RUNNING] * 3
                connection.commit()
            assert [await one.result(PATIENCE) for one in late] == [0, 1, 2]
            assert [job.id for job in await app.jobs(job_type="pay", queue="default")][-1] == first.id

    asyncio.run(main())
