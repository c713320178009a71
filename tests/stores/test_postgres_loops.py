"""Calls on the event loop itself: in order where that matters, told with their transaction, and never given up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from tenure.domain.calls import Claim, Claimed, Enqueued
from tenure.domain.errors import StoreFrozen
from tenure.domain.job import NewJob
from tenure.domain.store import FEED_TOPIC, queue_topic
from tenure.stores.sql.postgres import wake as module
from tenure.stores.sql.postgres.arriving import MANY
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.fibers import LoopConnections, waited
from tenure.stores.sql.postgres.store import PostgresStore
from tenure.stores.sql.postgres.wake import NEWS_SECONDS, Wake, channel
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory

PATIENCE = 30.0

Story = Callable[[PostgresStore, str], Awaitable[None]]


def job(number: int, **fields: Any) -> NewJob:
    id = f"01900000-0000-7000-8000-{number:012x}"
    return NewJob(**{"tenant": "acme", "id": id, "queue": "mail", "job_type": "send", "payload": b"{}", **fields})


def told(url: str, story: Story) -> None:
    async def main() -> None:
        factory = PostgresFactory(url)
        store = await factory.create(ManualClock())
        assert isinstance(store, PostgresStore)
        try:
            await story(store, f"{url}?schema={factory.schema_of(store)}")
        finally:
            await factory.destroy(store)

    asyncio.run(main())


def calling(wake: Wake) -> set[int]:
    """The server's processes that calls go to, not those that only tell."""
    found = {pid for owner, pid in wake.own.items() if owner != id(wake)}
    assert found
    return found


def late_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several calls that open connections at once, the first gets its own last."""
    connect, begun = LoopConnections._connected, 0

    def connected(connections: LoopConnections) -> Any:
        nonlocal begun
        begun += 1
        number, found = begun, connect(connections)
        if number == 1:
            waited(asyncio.sleep(0.2))
        return found

    monkeypatch.setattr(LoopConnections, "_connected", connected)


async def claimed(store: PostgresStore, n: int) -> list[str]:
    request = Claim(claim_id=bytes(16), worker="w", queues=(("mail", None),), n=n)
    found = await store.claim(request)
    assert isinstance(found, Claimed)
    return [one.token.job_id for one in found.jobs]


def test_large_calls_arrive_in_the_order_in_which_they_were_made(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_first(monkeypatch)

    async def story(store: PostgresStore, url: str) -> None:
        batches = [[job(MANY * number + one) for one in range(MANY)] for number in range(4)]
        replies = await asyncio.gather(*(store.enqueue(batch) for batch in batches))
        expected = [one.id for batch in batches for one in batch]
        assert [reply for batch in replies for reply in batch] == [Enqueued(id) for id in expected]
        assert await claimed(store, len(expected)) == expected
        assert await store.verify() == []

    told(postgres_url, story)


def test_a_large_call_that_cant_be_written_at_once_keeps_its_place(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_first(monkeypatch)

    async def story(store: PostgresStore, url: str) -> None:
        first = [job(number, key=f"k{number}") for number in range(MANY)]
        second = [job(MANY + number) for number in range(MANY)]
        await asyncio.gather(store.enqueue(first), store.enqueue(second))
        assert await claimed(store, 2 * MANY) == [one.id for one in (*first, *second)]

    told(postgres_url, story)


def test_a_call_whose_caller_gave_up_goes_on(postgres_url: str) -> None:
    async def story(store: PostgresStore, url: str) -> None:
        await store.enqueue([job(0)])
        calling = asyncio.create_task(store.enqueue([job(1)]))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        for number in range(2, 10):
            await store.enqueue([job(number)])
        assert job(1).id in await claimed(store, 10)

    told(postgres_url, story)


def test_the_first_notification_comes_with_its_transaction(postgres_url: str) -> None:
    """Its sender is a connection that jobs go over, and nobody tells it again."""

    async def story(store: PostgresStore, url: str) -> None:
        server = Server(url)
        await store.enqueue([job(0)])
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(f'LISTEN "{channel(server)}"'.encode())
            opened = store._opened()
            while opened.wake.may_carry(set()) is None:
                await asyncio.sleep(NEWS_SECONDS)
            await store.enqueue([job(1)])
            (first,) = other.notifies(timeout=PATIENCE, stop_after=1)
            assert set(first.payload.split("\n")) >= {FEED_TOPIC, queue_topic("mail")}
            assert first.pid in calling(opened.wake)
            other.execute("SELECT pg_notify(%s, 'last')", (channel(server),))
            (following,) = other.notifies(timeout=PATIENCE, stop_after=1)
            assert following.payload == "last"

    told(postgres_url, story)


@pytest.mark.parametrize("closes", [False, True], ids=["while it is open", "when it closes"])
def test_what_no_transaction_took_along_is_told_by_itself(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, closes: bool
) -> None:
    """By a thread that isn't there before, and that listens to nothing."""

    async def story(store: PostgresStore, url: str) -> None:
        server, wake = Server(url), store._opened().wake
        await store.enqueue([job(0)])
        assert wake._thread is None
        monkeypatch.setattr(module, "NEWS_SECONDS", 3_600.0)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(f'LISTEN "{channel(server)}"'.encode())
            await store.enqueue([job(1, queue="post")])
            if closes:
                await store.close()
            told = await asyncio.to_thread(lambda: list(other.notifies(timeout=PATIENCE, stop_after=1)))
            assert queue_topic("post") in told[0].payload.split("\n")
            assert told[0].pid == wake.own[id(wake)]
            assert not wake._listening

    told(postgres_url, story)


def test_a_connection_whose_server_goes_while_nobody_asks_is_let_go(postgres_url: str) -> None:
    """The loop hears of it, whether or not a call comes."""

    async def story(store: PostgresStore, url: str) -> None:
        await store.enqueue([job(0)])
        (connections,) = store._opened()._loops.values()
        (idle,) = connections._idle
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (idle.connection.info.backend_pid,))
        async with asyncio.timeout(PATIENCE):
            while not idle.connection.closed:
                await asyncio.sleep(0.001)
        assert await store.enqueue([job(1)]) == [Enqueued(job(1).id)]

    told(postgres_url, story)


def test_what_wasnt_enqueued_isnt_told(postgres_url: str) -> None:
    async def story(store: PostgresStore, url: str) -> None:
        server, wake = Server(url), store._opened().wake
        await store.enqueue([job(0)])
        await store.freeze()
        while wake.may_carry(set()) is None:
            await asyncio.sleep(NEWS_SECONDS)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(f'LISTEN "{channel(server)}"'.encode())
            assert await store.enqueue([job(1)]) == [StoreFrozen()]
            other.execute("SELECT pg_notify(%s, 'last')", (channel(server),))
            heard: list[psycopg.Notify] = []
            while not heard or heard[-1].payload != "last":
                heard += other.notifies(timeout=PATIENCE, stop_after=1)
            assert not [one for one in heard if one.pid in calling(wake)]

    told(postgres_url, story)


def test_a_claim_that_finds_nothing_writes_nothing(postgres_url: str) -> None:
    """Also where one tenant has jobs that nobody may take yet: here because somebody else is about to."""

    async def story(store: PostgresStore, url: str) -> None:
        await store.enqueue([job(0)])
        schema = Server(url).schema
        with psycopg.connect(postgres_url) as other:
            other.execute(f"SELECT * FROM {schema}.ready FOR UPDATE".encode())
            assert await claimed(store, 10) == []
            written = other.execute(f"SELECT body FROM {schema}.inbox ORDER BY seq".encode()).fetchall()
        assert len(written) == 1
        assert b'"enqueued"' in written[0][0]

    told(postgres_url, story)
