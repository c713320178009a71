"""A queue's mode changes only where no job is, committed or not; and nobody who enqueues waits for it."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from uuid import uuid4

import msgspec
import psycopg
import pytest

from tenure.domain.calls import Claim, Claimed, Cursor, Document, Enqueued, Settle, Stored, Succeed
from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.errors import GroupNeedsKeyed, GroupRequired, ModeConflict, Refused, StoreUnavailable
from tenure.domain.job import Alike, NewJob, Parent
from tenure.domain.names import EVERYONE
from tenure.domain.states import Mode
from tenure.stores.clock import system_clock
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres.enqueue_direct import MANY, arrive
from tenure.stores.sql.postgres.modes import MANY_LANES
from tenure.stores.sql.postgres.place import Place
from tenure.stores.sql.postgres.runners import PsycopgRunner
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.ways import Way
from tenure.testing.factories import PostgresFactory

ACME, BOLT, MAIL, OTHER = "acme", "bolt", "mail", "other"
SOON = 5.0
"""Seconds in which everything here answers that doesn't wait for anybody's transaction."""


def job(tenant: str = ACME, queue: str = MAIL, **fields: Any) -> NewJob:
    return NewJob(tenant=tenant, id=str(uuid4()), queue=queue, job_type="send", payload=b"{}", **fields)


def config(tenant: str, mode: Mode | None, queue: str = MAIL, **fields: Any) -> Document:
    return Document(tenant=tenant, kind=QUEUE, name=queue, body=msgspec.json.encode(QueueConfig(mode=mode, **fields)))


def without(tenant: str, queue: str = MAIL) -> Document:
    return Document(tenant=tenant, kind=QUEUE, name=queue, body=None)


class Clients:
    """Stores of several processes, and users' connections."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.factory = PostgresFactory(url)
        self.stores: list[PostgresStore] = []

    async def open(self, number: int) -> None:
        self.stores.append(await self.factory.create(system_clock))  # type: ignore[arg-type]
        for _ in range(number - 1):
            self.stores.append(await self.factory.second(self.stores[0], system_clock))  # type: ignore[arg-type]

    async def close(self) -> None:
        for store in reversed(self.stores):
            await self.factory.destroy(store)

    @property
    def schema(self) -> str:
        return self.factory.schema_of(self.stores[0])

    @asynccontextmanager
    async def transaction(self, *jobs: NewJob) -> AsyncIterator["psycopg.AsyncConnection[Any]"]:
        """A user's, open until the block ends, that has enqueued."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            replies = await self.stores[-1].enqueue_in_async(connection, jobs)
            assert all(isinstance(reply, Enqueued) for reply in replies)
            yield connection

    async def drain(self) -> None:
        """Runs all jobs that are there."""
        claim = Claim(claim_id=uuid4().bytes, worker="w", queues=((MAIL, None), (OTHER, None)), n=500, cursor=Cursor())
        claimed = await self.stores[0].claim(claim)
        assert isinstance(claimed, Claimed)
        await self.stores[0].settle([Settle(one.token, Succeed()) for one in claimed.jobs])


Story = Callable[[Clients], Coroutine[Any, Any, None]]


@pytest.fixture
def together(postgres_url: str) -> Callable[[int, Story], None]:
    def run(number: int, story: Story) -> None:
        async def told() -> None:
            clients = Clients(postgres_url)
            await clients.open(number)
            try:
                await story(clients)
                assert await clients.stores[0].verify() == []
            finally:
                await clients.close()

        asyncio.run(told())

    return run


async def soon(call: Awaitable[Any]) -> Any:
    async with asyncio.timeout(SOON):
        return await call


def parents(number: int) -> list[NewJob]:
    first = job()
    return [first, *(job(parents=(Parent(first.id),)) for _ in range(number))]


WAYS: dict[str, Callable[[], list[NewJob]]] = {
    "one": lambda: [job()],
    "with a key": lambda: [job(key="k")],
    "later": lambda: [job(delay=3_600_000)],
    "blocked": lambda: parents(2),
    "many": lambda: [job() for _ in range(MANY + 1)],
    "to many lanes": lambda: [job(tenant=f"t{number}") for number in range(MANY_LANES)] + [job()],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("whose", [ACME, EVERYONE])
def test_an_open_enqueue_keeps_the_mode(together: Any, way: str, whose: str) -> None:
    async def story(clients: Clients) -> None:
        one, _ = clients.stores
        jobs = WAYS[way]()
        async with clients.transaction(*jobs) as connection:
            assert await soon(one.put_document(config(whose, Mode.KEYED))) == ModeConflict("plain")
            await connection.rollback()
        assert await one.put_document(config(whose, Mode.KEYED)) == Stored(1)
        assert await one.enqueue([job()]) == [GroupRequired(MAIL)]

    together(2, story)


def test_an_open_enqueue_keeps_the_mode_that_a_document_gives(together: Any) -> None:
    """Neither the document that says so may go, nor what everyone gets without one of their own change."""

    async def story(clients: Clients) -> None:
        one, _ = clients.stores
        assert await one.put_document(config(EVERYONE, Mode.KEYED)) == Stored(1)
        async with clients.transaction(job(group="g")):
            assert await soon(one.put_document(without(EVERYONE))) == ModeConflict("keyed")
            assert await soon(one.put_document(config(EVERYONE, None))) == ModeConflict("keyed")
            assert await soon(one.put_document(config(ACME, Mode.PLAIN))) == ModeConflict("keyed")
            assert await soon(one.put_document(config(ACME, Mode.KEYED, limit=3))) == Stored(1)
        assert await soon(one.put_document(without(EVERYONE))) == Stored(0)
        assert await soon(one.put_document(without(ACME))) == ModeConflict("keyed")
        await clients.drain()
        assert await soon(one.put_document(without(ACME))) == Stored(0)

    together(2, story)


def test_other_enqueues_keep_nothing(together: Any) -> None:
    """Of another tenant, or of another queue; nor does an enqueue keep anything but the mode."""

    async def story(clients: Clients) -> None:
        one, _ = clients.stores
        assert await one.put_document(config(BOLT, Mode.PLAIN)) == Stored(1)
        async with clients.transaction(job(BOLT), job(queue=OTHER), *(job(BOLT) for _ in range(5))):
            assert await soon(one.put_document(config(ACME, Mode.KEYED))) == Stored(1)
            assert await soon(one.put_document(config(BOLT, Mode.PLAIN, limit=5, weight=2))) == Stored(2)
            assert await soon(one.put_document(without(BOLT))) == Stored(0)
            assert await soon(one.put_document(config(EVERYONE, Mode.KEYED))) == ModeConflict("plain")
        assert await one.put_document(config(BOLT, Mode.KEYED)) == ModeConflict("plain")
        assert await one.put_document(config(EVERYONE, Mode.KEYED, queue="third")) == Stored(1)

    together(2, story)


def test_a_change_of_the_mode_holds_nobody_up(together: Any) -> None:
    """Held in the middle, it lets every enqueue pass, which then keeps the mode."""

    async def story(clients: Clients) -> None:
        one, two = clients.stores
        with psycopg.connect(clients.url) as held:
            held.execute(f"SELECT * FROM {clients.schema}.meta FOR UPDATE".encode())
            changing = asyncio.create_task(one.put_document(config(ACME, Mode.KEYED)))
            async with asyncio.timeout(SOON):
                waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                with psycopg.connect(clients.url, autocommit=True) as watching:
                    while watching.execute(waiting).fetchone() == (0,):
                        await asyncio.sleep(0.01)
                for way in WAYS.values():
                    assert all(isinstance(reply, Enqueued) for reply in await two.enqueue(way()))
                async with clients.transaction(job()):
                    pass
            assert not changing.done()
            held.rollback()
        assert await changing == ModeConflict("plain")

    together(2, story)


def alike(number: int) -> Sequence[NewJob]:
    kind = job()
    return Alike(kind, [str(uuid4()) for _ in range(number)], [b"{}"] * number)


STATEMENTS: dict[Way, Callable[[], Sequence[NewJob]]] = {
    Way.ENQUEUE_ONE: lambda: [job()],
    Way.ENQUEUE_ALIKE: lambda: [job(), job()],
    Way.ENQUEUE_NUMBERED: lambda: alike(MANY),
    Way.ENQUEUE_MIXED: lambda: [job(), job(priority=3)],
}


@pytest.mark.parametrize("way", STATEMENTS)
def test_a_statement_that_looked_before_the_mode_changed_does_nothing(together: Any, way: Way) -> None:
    """It gets its lock afterwards, and sees neither the change nor the lock that whoever changed the mode had."""

    async def story(clients: Clients) -> None:
        (one,) = clients.stores
        with psycopg.connect(clients.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            taken: list[Way] = []
            tables = PostgresTables(PsycopgRunner(connection), Place(clients.schema, 0))
            tables.ways.heard = taken.append
            tables.begin(writing=False)
            assert tables.rules(ACME, MAIL).mode is Mode.PLAIN
            assert await one.put_document(config(ACME, Mode.KEYED)) == Stored(1)
            assert not arrive(tables, STATEMENTS[way](), None)
            assert taken == [way]
        assert await one.put_document(without(ACME)) == Stored(0)
        with psycopg.connect(clients.url) as connection:
            tables = PostgresTables(PsycopgRunner(connection), Place(clients.schema, 0))
            tables.begin(writing=False)
            assert arrive(tables, STATEMENTS[way](), None)
            assert await one.put_document(config(ACME, Mode.KEYED)) == ModeConflict("plain")

    together(1, story)


def test_a_transaction_with_one_view_for_all_cant_miss_it(together: Any) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        async with await psycopg.AsyncConnection.connect(clients.url) as connection:
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await connection.execute("SELECT 1")
            assert await one.put_document(config(ACME, Mode.KEYED)) == Stored(1)
            with pytest.raises(StoreUnavailable, match="under REPEATABLE READ"):
                await two.enqueue_in_async(connection, [job()])
            await connection.rollback()
            assert await two.enqueue_in_async(connection, [job()]) == [GroupRequired(MAIL)]

    together(2, story)


def test_a_limit_waits_for_no_users_transaction(together: Any) -> None:
    async def story(clients: Clients) -> None:
        one, _ = clients.stores
        async with clients.transaction(job(), job(BOLT)):
            assert await soon(one.put_document(config(ACME, None, limit=1))) == Stored(1)
            assert await soon(one.put_document(config(EVERYONE, None, queue=OTHER, limit=1))) == Stored(1)

    together(2, story)


# Everything at once


class Crowd:
    """Producers, a worker, and one who changes modes: after each change every job there must suit it."""

    def __init__(self, clients: Clients, seed: int) -> None:
        self.clients = clients
        self.dice = random.Random(seed)
        self.changed: dict[str, int] = {"Stored": 0, "ModeConflict": 0}
        self.over = False

    async def produce(self, store: PostgresStore, number: int) -> None:
        dice = random.Random(number)
        group: str | None = None
        while not self.over:
            tenant = dice.choice([ACME, BOLT])
            jobs = [job(tenant, group=group) for _ in range(dice.choice([1, 1, 2, 5, MANY]))]
            if dice.random() < 0.3:
                async with await psycopg.AsyncConnection.connect(self.clients.url) as connection:
                    replies = await store.enqueue_in_async(connection, jobs[:2])
                    await asyncio.sleep(dice.random() / 50)
                    await (connection.commit() if dice.random() < 0.7 else connection.rollback())
            else:
                replies = await store.enqueue(jobs)
            refused = next((reply for reply in replies if isinstance(reply, Refused)), None)
            group = "g" if isinstance(refused, GroupRequired) else None if refused is not None else group
            assert refused is None or isinstance(refused, GroupRequired | GroupNeedsKeyed)
            await asyncio.sleep(dice.random() / 50)

    async def work(self) -> None:
        while not self.over:
            await self.clients.drain()

    async def change(self, store: PostgresStore, changes: int) -> None:
        for _ in range(changes):
            whose, mode = self.dice.choice([ACME, BOLT, EVERYONE]), self.dice.choice([Mode.KEYED, Mode.PLAIN, None])
            document = config(whose, mode) if mode is not None else without(whose)
            reply = await soon(store.put_document(document))
            self.changed[type(reply).__name__] += 1
            wrong = await asyncio.to_thread(self.wrong)
            assert wrong == [], (document, reply)
            await asyncio.sleep(self.dice.random() / 25)
        self.over = True

    def wrong(self) -> list[Any]:
        """Jobs that don't suit their queue, of which only `change` changes the mode."""
        with psycopg.connect(self.clients.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            asked = f"SELECT tenant, body FROM {self.clients.schema}.document WHERE kind = 'queue'"
            said = {
                tenant: msgspec.json.decode(body, type=QueueConfig).mode
                for tenant, body in connection.execute(asked.encode()).fetchall()
            }
            places = " UNION ALL ".join(
                f"SELECT tenant, grp <> '', seq FROM {self.clients.schema}.{place}"
                for place in ("ready", "scheduled", "running")
            )
            jobs = connection.execute(places.encode()).fetchall()
        keyed = {tenant: (said.get(tenant) or said.get(EVERYONE)) is Mode.KEYED for tenant in (ACME, BOLT)}
        return [(*one, said) for one in jobs if keyed[one[0]] is not one[1]]


def test_whoever_enqueues_meanwhile_no_job_is_in_a_queue_of_another_mode(together: Any) -> None:
    async def story(clients: Clients) -> None:
        crowd, numbers = Crowd(clients, seed=0), count()
        async with asyncio.TaskGroup() as group:
            for store in clients.stores[1:]:
                group.create_task(crowd.produce(store, next(numbers)))
                group.create_task(crowd.produce(store, next(numbers)))
            group.create_task(crowd.work())
            group.create_task(crowd.change(clients.stores[0], 80))
        assert min(crowd.changed.values()) > 5, crowd.changed

    together(3, story)
