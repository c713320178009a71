"""Calls on the event loop itself: in order where that matters, told with their transaction, and never given up."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import msgspec
import psycopg
import pytest
from msgspec.structs import replace

from tenure.domain.calls import Claim, Claimed, Document, Enqueued, JobView, Settle, Succeed
from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.errors import IdConflict, QueueFull, StoreFrozen
from tenure.domain.job import NewJob
from tenure.domain.states import Mode
from tenure.domain.store import FEED_TOPIC, queue_topic
from tenure.stores.fibers import waited
from tenure.stores.sql.postgres import wake as module
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.enqueue_direct import MANY
from tenure.stores.sql.postgres.loop_connections import LoopConnections
from tenure.stores.sql.postgres.patience import PatientConnection
from tenure.stores.sql.postgres.store import PostgresStore
from tenure.stores.sql.postgres.wake import NEWS_SECONDS, Wake, channel
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory

PATIENCE = 30.0

Story = Callable[[PostgresStore, str], Awaitable[None]]


def job(number: int, **fields: Any) -> NewJob:
    id = f"01900000-0000-7000-8000-{number:012x}"
    return NewJob(**{"tenant": "acme", "id": id, "queue": "mail", "job_type": "send", "payload": b"{}", **fields})


def told(url: str, story: Story, options: str = "") -> None:
    async def main() -> None:
        factory = PostgresFactory(url, options)
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


async def configured_elsewhere(url: str, config: QueueConfig) -> None:
    """Another client of the store says how a queue is to be."""
    other = PostgresStore(url, ManualClock())
    await other.put_document(Document(tenant="acme", kind=QUEUE, name="mail", body=msgspec.json.encode(config)))
    await other.close()


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
        async with asyncio.timeout(PATIENCE):
            while not isinstance((await store.get([("acme", job(1).id)]))[0], JobView):
                await asyncio.sleep(0.001)
        assert await claimed(store, 10) == [job(0).id, job(1).id]

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


async def warm(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> LoopConnections:
    """Two jobs later, one that is like them can be sent at once."""
    await store.enqueue([job(0)])
    monkeypatch.setattr(module, "NEWS_SECONDS", 3_600.0)
    await store.enqueue([job(1)])
    (connections,) = store._opened()._loops.values()
    return connections


def test_one_job_of_many_like_it_is_sent_without_a_fiber(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: PostgresStore, url: str) -> None:
        await warm(store, monkeypatch)
        with monkeypatch.context() as patched:
            patched.setattr("tenure.stores.fibers.start", None)
            assert await store.enqueue([job(2)]) == [Enqueued(job(2).id)]
        again, other = await store.enqueue([job(2)]), await store.enqueue([replace(job(2), payload=b"[]")])
        assert again == [Enqueued(job(2).id)]
        assert isinstance(other[0], IdConflict)
        await store.freeze()
        assert await store.enqueue([job(3)]) == [StoreFrozen()]
        await store.thaw()
        assert await store.enqueue([job(3)]) == [Enqueued(job(3).id)]
        assert await claimed(store, 10) == [job(number).id for number in range(4)]

    told(postgres_url, story)


def test_a_single_job_that_the_socket_takes_in_parts(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: PostgresStore, url: str) -> None:
        (idle,) = (await warm(store, monkeypatch))._idle
        with socket.socket(fileno=os.dup(idle.connection.pgconn.socket)) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        with monkeypatch.context() as patched:
            patched.setattr("tenure.stores.fibers.start", None)
            for number in range(2, 5):
                large = job(number, payload=json.dumps("x" * 250_000).encode())
                assert await store.enqueue([large]) == [Enqueued(large.id)]
        assert await claimed(store, 10) == [job(number).id for number in range(5)]

    told(postgres_url, story)


def test_a_single_job_whose_caller_gives_up_goes_on(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its connection is free again."""

    async def story(store: PostgresStore, url: str) -> None:
        connections = await warm(store, monkeypatch)
        calling = asyncio.create_task(store.enqueue([job(2)]))
        await asyncio.sleep(0)
        assert not connections._idle
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        async with asyncio.timeout(PATIENCE):
            while not connections._idle:
                await asyncio.sleep(0.001)
        assert connections._room == Server(url).connections
        assert queue_topic("mail") in store._opened().wake._topics
        assert job(2).id in await claimed(store, 10)

    told(postgres_url, story)


@pytest.mark.parametrize("first", [False, True], ids=["quickly", "in a fiber"])
@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends"])
def test_a_connection_in_use_is_closed_with_the_store(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, first: bool, ends: bool
) -> None:
    """When its call has ended, or at once if that never will: its loop is gone."""

    async def main() -> None:
        store = await factory.create(ManualClock())
        assert isinstance(store, PostgresStore)
        stores.append(store)
        if not first:
            await warm(store, monkeypatch)
        with psycopg.connect(postgres_url) as other:
            other.execute(f'LOCK TABLE "{factory.schema_of(store)}".job IN SHARE MODE'.encode())
            calling = asyncio.create_task(store.enqueue([job(2)]))
            async with asyncio.timeout(PATIENCE):
                while not store._opened()._loops or not in_use(store):
                    await asyncio.sleep(0.001)
            used.extend(in_use(store))
            if ends:
                return  # which gives up the call
            await store.close()
            assert not used[0].connection.closed
        assert await calling == [Enqueued(job(2).id)]

    def in_use(store: PostgresStore) -> list[Any]:
        (connections,) = store._opened()._loops.values()
        return list(connections._lent.values())

    factory, stores, used = PostgresFactory(postgres_url), list[PostgresStore](), list[Any]()
    asyncio.run(main())
    asyncio.run(stores[0].close())
    assert [one.connection.closed for one in used] == [True]
    asyncio.run(factory.destroy(stores[0]))


@pytest.mark.parametrize("listens", [False, True], ids=["to ask", "to listen"])
@pytest.mark.parametrize("late", [False, True], ids=["then", "before"])
def test_a_connection_that_is_opened_for_a_loop_that_ended_is_closed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, listens: bool, late: bool
) -> None:
    """With the store, or as soon as it is open if the store was closed before."""

    def connect(server: Server) -> PatientConnection:
        connection = connects(server)
        opened.append(connection)
        connected.set()
        assert go_on.wait(PATIENCE)
        return connection

    async def main() -> None:
        store = await factory.create(ManualClock())
        assert isinstance(store, PostgresStore)
        stores.append(store)
        monkeypatch.setattr(Server, "connect", connect)
        waiting = asyncio.create_task(store.wait({FEED_TOPIC}, PATIENCE) if listens else store.enqueue([job(1)]))
        await asyncio.to_thread(connected.wait, PATIENCE)
        assert not waiting.done()

    async def close() -> None:
        closing = asyncio.create_task(stores[0].close())
        if late:
            while stores[0]._open is not None:
                await asyncio.sleep(0)
            go_on.set()
        await closing

    connects, opened = Server.connect, list[PatientConnection]()
    connected, go_on = threading.Event(), threading.Event()
    factory, stores = PostgresFactory(postgres_url), list[PostgresStore]()
    asyncio.run(main())
    if not late:
        go_on.set()
        stores[0]._opened().pool.shutdown()  # waits for its threads
    asyncio.run(close())
    assert [connection.closed for connection in opened] == [True]
    monkeypatch.undo()
    asyncio.run(factory.destroy(stores[0]))


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


@pytest.mark.parametrize("on_a_loop", [False, True], ids=["by a thread", "on another loop"])
def test_who_tells_after_a_loop_that_stopped_is_heard(postgres_url: str, on_a_loop: bool) -> None:
    """Whatever that loop had still to tell goes along."""

    async def story(store: PostgresStore, url: str) -> None:
        wake, topics = store._opened().wake, {queue_topic("mail"), queue_topic("post")}

        def leave() -> None:
            wake.carried(set())  # so that the next may not leave at once
            wake.tell(topics)
            stopped.stop()

        def left() -> None:
            stopped.call_soon(leave)
            stopped.run_forever()

        with closing(asyncio.new_event_loop()) as stopped, psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(f'LISTEN "{channel(Server(url))}"'.encode())
            await asyncio.to_thread(left)
            assert wake._topics == topics
            if on_a_loop:
                wake.tell({queue_topic("mail")})
            else:
                await asyncio.to_thread(wake.tell, {queue_topic("mail")})
            told = await asyncio.to_thread(lambda: list(other.notifies(timeout=PATIENCE, stop_after=1)))
            assert set(told[0].payload.split("\n")) == topics

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


def test_what_one_statement_refused_is_told_all_the_same(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took a notification along and was refused, for somebody else had configured the store; another way then wrote
    the jobs.
    """
    monkeypatch.setattr(module, "NEWS_SECONDS", 0.0)
    for pause in ("PAUSE_SECONDS", "FEED_PAUSE_SECONDS"):
        monkeypatch.setattr(module, pause, 3_600.0)

    async def story(store: PostgresStore, url: str) -> None:
        await store.enqueue([job(0)])
        await configured_elsewhere(url, QueueConfig(weight=2))
        wake = store._opened().wake
        assert await store.enqueue([job(1), job(2)]) == [Enqueued(job(1).id), Enqueued(job(2).id)]
        assert queue_topic("mail") in wake._topics
        await store.enqueue([job(3), job(4)])
        assert not wake._topics

    told(postgres_url, story)


@pytest.mark.parametrize(
    "jobs",
    [[job(1)], [job(1), job(2)], [job(number) for number in range(1, MANY + 1)], [job(1), job(2, priority=1)]],
    ids=["one", "alike", "numbered", "mixed"],
)
def test_jobs_arrive_by_the_rules_that_hold(postgres_url: str, jobs: list[NewJob]) -> None:
    """Also if somebody else made them, and this process remembers others."""

    async def story(store: PostgresStore, url: str) -> None:
        for number in range(1_000, 1_003):
            await store.enqueue([job(number)])
        await configured_elsewhere(url, QueueConfig(max_depth=3))
        assert {type(reply) for reply in await store.enqueue(jobs)} == {QueueFull}

    told(postgres_url, story)


def test_more_calls_than_connections(postgres_url: str) -> None:
    """Each waits for one that is given back, and there are never more than may be."""

    async def story(store: PostgresStore, url: str) -> None:
        calls = [store.enqueue([job(2 * number), job(2 * number + 1)]) for number in range(20)]
        async with asyncio.timeout(PATIENCE):
            replies = await asyncio.gather(*calls)
        assert [reply for batch in replies for reply in batch] == [Enqueued(job(number).id) for number in range(40)]
        (connections,) = store._opened()._loops.values()
        assert len(connections._idle) == connections._room == 2

    told(postgres_url, story, "connections=2")


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


@pytest.mark.parametrize(
    ("config", "group", "scarce"),
    [
        (QueueConfig(), None, False),
        (QueueConfig(limit=1), None, True),
        (QueueConfig(mode=Mode.KEYED, group_limit=1), "g", True),
    ],
    ids=["no limit", "a limit", "a group"],
)
@pytest.mark.parametrize("exchanged", [False, True], ids=["settled", "exchanged"])
def test_a_success_wakes_others_only_where_a_place_was_scarce(
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    config: QueueConfig,
    group: str | None,
    scarce: bool,
    exchanged: bool,
) -> None:
    for pause in ("NEWS_SECONDS", "PAUSE_SECONDS", "FEED_PAUSE_SECONDS"):
        monkeypatch.setattr(module, pause, 3_600.0)

    async def story(store: PostgresStore, url: str) -> None:
        body = msgspec.json.encode(config)
        await store.put_document(Document(tenant="acme", kind=QUEUE, name="mail", body=body))
        await store.enqueue([job(0, group=group)])
        request = Claim(claim_id=bytes(16), worker="w", queues=(("mail", None),), n=1)
        taken, wake = await store.claim(request), store._opened().wake
        assert isinstance(taken, Claimed)
        settlements = [Settle(one.token, Succeed(None)) for one in taken.jobs]
        wake._topics.clear()
        if exchanged:
            await store.exchange(settlements, replace(request, claim_id=b"2" * 16))
        else:
            await store.settle(settlements)
        assert wake._topics == ({FEED_TOPIC, queue_topic("mail")} if scarce else {FEED_TOPIC})

    told(postgres_url, story)
