"""Waits of one process for what another does: told by name where that is known, and by the feed in any case."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tenure.domain.calls import Cancel, Claim, Claimed, Settle, Succeed
from tenure.domain.errors import Refused
from tenure.domain.job import Job, NewJob, Spec, Token, as_enqueued
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import State
from tenure.domain.store import CANCELS, EVERYTHING, FEED_TOPIC, job_topic, queue_topic
from tenure.stores.sql.postgres import awaited, wake, watch
from tenure.stores.sql.postgres import store as store_module
from tenure.stores.sql.postgres.awaited import (
    AWAITED,
    KNOWN_SECONDS,
    LATELY_SECONDS,
    MOST,
    Awaited,
    Lately,
    Recent,
)
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.store import PostgresStore
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.sql.postgres.wake import LONGEST, Wake, channel, payload
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory
from tenure.testing.proxy import FaultProxy

PATIENCE = 30.0
NEVER = 3_600.0
NOBODYS = queue_topic("nobodys")


def job(number: int) -> NewJob:
    id = f"01900000-0000-7000-8000-{number:012x}"
    return NewJob(tenant="acme", id=id, queue="mail", job_type="send", payload=b"{}")


class Processes:
    """Clients of one store, each as in a process of its own."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url = url
        self._stack = stack

    def client(self, url: str | None = None, options: str = "") -> PostgresStore:
        store = PostgresStore((url or self.url) + options, ManualClock())
        self._stack.push_async_callback(store.close)
        return store

    async def listening(self, url: str | None = None) -> PostgresStore:
        """A client that hears others."""
        store = self.client(url)
        assert await store.wait([NOBODYS], PATIENCE)  # whatever was told before it listened
        return store

    @contextmanager
    def overheard(self) -> Iterator["Overheard"]:
        with psycopg.connect(self.url.partition("?")[0], autocommit=True) as connection:
            connection.execute(f'LISTEN "{channel(Server(self.url))}"'.encode())
            yield Overheard(connection)


class Overheard:
    """What processes tell each other."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        self.all: list[set[str]] = []
        self._unread: list[set[str]] = []

    async def until(self, topic: str) -> set[str]:
        """The next notification with a topic."""
        while True:
            while self._unread:
                self.all.append(self._unread.pop(0))
                if topic in self.all[-1]:
                    return self.all[-1]
            heard = await asyncio.to_thread(self._hear)
            assert heard, f"nobody told {topic}"
            self._unread += [set(one.payload.split("\n")) for one in heard]

    def _hear(self) -> list[psycopg.Notify]:
        """Those that come together are given together."""
        return list(self._connection.notifies(timeout=PATIENCE, stop_after=1))


Story = Callable[[Processes], Awaitable[None]]


def ended(id: str) -> Job:
    """A job, as far as its reference is asked for."""
    spec = Spec("acme", id, 1, "mail", "send", "json", b"", 2, 0, 3, RetryPolicy(), 1_000, 1_000)
    return as_enqueued(spec, State.SUCCEEDED, 0, 0)


def told(url: str, story: Story) -> None:
    @asynccontextmanager
    async def processes() -> AsyncIterator[Processes]:
        factory = PostgresFactory(url)
        made = await factory.create(ManualClock())
        async with AsyncExitStack() as stack:
            yield Processes(f"{url}?schema={factory.schema_of(made)}", stack)
        await factory.destroy(made)

    async def main() -> None:
        async with processes() as found:
            await story(found)

    asyncio.run(main())


async def started(store: PostgresStore, *numbers: int) -> list[Token]:
    await store.enqueue([job(number) for number in numbers])
    claimed = await store.claim(Claim(claim_id=os.urandom(16), worker="w", queues=(("mail", None),), n=len(numbers)))
    assert isinstance(claimed, Claimed)
    return [one.token for one in claimed.jobs]


async def succeed(store: PostgresStore, *tokens: Token) -> None:
    replies = await store.settle([Settle(token, Succeed()) for token in tokens])
    assert not any(isinstance(reply, Refused) for reply in replies)


def waiting(store: PostgresStore, topic: str) -> "asyncio.Task[bool]":
    return asyncio.create_task(store.wait([topic], PATIENCE))


async def quiet(store: PostgresStore) -> None:
    """Until everything this process has to tell is told."""
    async with asyncio.timeout(PATIENCE):
        while store._opened().wake._topics:
            await asyncio.sleep(0.001)


@pytest.fixture
def without_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks when the feed is told: what is told by name must do."""
    monkeypatch.setattr(watch.Watch, "rouse", lambda self: None)


@pytest.fixture
def without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody announces that it waits: the feed must do."""
    monkeypatch.setattr(store_module, "ANNOUNCE_SECONDS", NEVER)


# By name


def test_the_end_of_a_job_that_another_process_announced_is_told_by_name(
    postgres_url: str, without_looks: None
) -> None:
    async def story(processes: Processes) -> None:
        worker, caller = await processes.listening(), await processes.listening()
        (token,) = await started(worker, 1)
        topic = job_topic(token.ref)
        with processes.overheard() as overheard:
            waiter = waiting(caller, topic)
            await overheard.until(AWAITED + topic)
            async with asyncio.timeout(PATIENCE):
                while not worker._opened()._awaited._elsewhere.among([token.ref]):
                    await asyncio.sleep(0.001)
            await succeed(worker, token)
            assert await waiter
            assert {topic, FEED_TOPIC} <= await overheard.until(topic)

    told(postgres_url, story)


def test_a_job_that_ended_before_its_announcement_was_heard_is_told_by_name(
    postgres_url: str, without_looks: None
) -> None:
    async def story(processes: Processes) -> None:
        worker, caller = await processes.listening(), await processes.listening()
        (token,) = await started(worker, 1)
        await succeed(worker, token)
        assert await waiting(caller, job_topic(token.ref))

    told(postgres_url, story)


def test_several_processes_wait_for_one_job(postgres_url: str, without_looks: None) -> None:
    async def story(processes: Processes) -> None:
        worker = await processes.listening()
        callers = [await processes.listening() for _ in range(3)]
        (token,) = await started(worker, 1)
        topic = job_topic(token.ref)
        with processes.overheard() as overheard:
            waiters = [waiting(caller, topic) for caller in callers]
            await overheard.until(AWAITED + topic)
            await succeed(worker, token)
            assert await asyncio.gather(*waiters) == [True, True, True]

    told(postgres_url, story)


def test_what_nobody_waits_for_is_told_as_ever(postgres_url: str) -> None:
    """A settle's notification names no job, whatever else is awaited."""

    async def story(processes: Processes) -> None:
        worker, caller = await processes.listening(), await processes.listening()
        first, second, third = await started(worker, 1, 2, 3)
        with processes.overheard() as overheard:
            waiter = waiting(caller, job_topic(third.ref))
            await overheard.until(AWAITED + job_topic(third.ref))
            await quiet(worker)
            overheard.all.clear()
            await succeed(worker, first, second)
            assert await overheard.until(FEED_TOPIC) == {FEED_TOPIC}
            await succeed(worker, third)
            assert await waiter

    told(postgres_url, story)


def test_a_wait_that_ends_at_once_is_not_announced(postgres_url: str) -> None:
    async def story(processes: Processes) -> None:
        caller = await processes.listening()
        with processes.overheard() as overheard:
            await caller.wait([job_topic(("acme", job(1).id))], 0)
            await started(caller, 2)
            await overheard.until(FEED_TOPIC)
            assert not [topic for heard in overheard.all for topic in heard if topic.startswith(AWAITED)]

    told(postgres_url, story)


def test_a_wait_is_announced_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("tenure.stores.sql.postgres.awaited.time.monotonic", lambda: now)
    known, ref = Awaited(), ("acme", "1")
    assert known.announce([ref]) == {AWAITED + job_topic(ref)}
    now += awaited.AGAIN_SECONDS - 1
    assert known.announce([ref]) == set()
    now += awaited.AGAIN_SECONDS + 1
    assert known.announce([ref]) == {AWAITED + job_topic(ref)}


def test_announcements_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("tenure.stores.sql.postgres.awaited.time.monotonic", lambda: now)
    known, job = Awaited(), ended("1")
    known.heard([job.ref])
    now += KNOWN_SECONDS - 1
    assert known.ended([job]) == {job_topic(job.ref)}
    now += 2 * KNOWN_SECONDS
    assert known.ended([job]) == set()


def test_what_ended_lately_is_known_for_a_while_and_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("tenure.stores.sql.postgres.awaited.time.monotonic", lambda: now)
    lately = Lately(LATELY_SECONDS)
    for number in range(5 * MOST):
        lately.add([ended(str(number))])
    assert sum(len(jobs) for _, jobs in lately._added) <= 2 * MOST
    assert lately.among([("acme", str(5 * MOST - 1)), ("acme", "0")]) == {("acme", str(5 * MOST - 1))}
    now += 3 * LATELY_SECONDS
    lately.add([ended("new")])
    assert lately.among([("acme", "new"), ("acme", str(5 * MOST - 1))]) == {("acme", "new")}


def test_what_is_remembered_has_a_limit() -> None:
    recent = Recent[int](NEVER)
    for number in range(5 * MOST):
        recent.add([number])
    assert len(recent._newer) + len(recent._older) <= 2 * MOST + 2
    assert recent.among([5 * MOST - 1, 0]) == {5 * MOST - 1}


# By the feed


def test_the_end_of_a_job_is_heard_without_any_announcement(postgres_url: str, without_names: None) -> None:
    async def story(processes: Processes) -> None:
        worker, caller = processes.client(), await processes.listening()
        first, second = await started(worker, 1, 2)
        await quiet(worker)
        waiters = [waiting(caller, job_topic(token.ref)) for token in (first, second)]
        await asyncio.sleep(0)
        await succeed(worker, first)
        assert await waiters[0]
        assert not waiters[1].done()
        await succeed(worker, second)
        assert await waiters[1]

    told(postgres_url, story)


def test_a_worker_that_started_after_the_announcement(postgres_url: str) -> None:
    async def story(processes: Processes) -> None:
        first, caller = processes.client(), await processes.listening()
        (token,) = await started(first, 1)
        topic = job_topic(token.ref)
        with processes.overheard() as overheard:
            waiter = waiting(caller, topic)
            await overheard.until(AWAITED + topic)
            late = await processes.listening()
            await succeed(late, token)
            assert await waiter

    told(postgres_url, story)


def test_a_process_that_listens_to_nothing_cancels(postgres_url: str) -> None:
    async def story(processes: Processes) -> None:
        caller, other = await processes.listening(), processes.client()
        await other.enqueue([job(1)])
        await quiet(other)
        waiter = waiting(caller, job_topic(("acme", job(1).id)))
        await asyncio.sleep(0)
        await other.command([Cancel(tenant="acme", id=job(1).id)])
        assert await waiter

    told(postgres_url, story)


def test_a_job_that_is_gone_has_ended(postgres_url: str) -> None:
    """Its caller had better look."""

    async def story(processes: Processes) -> None:
        caller, other = await processes.listening(), processes.client()
        waiter = waiting(caller, job_topic(("acme", job(9).id)))
        await asyncio.sleep(0)
        await other.enqueue([job(1)])
        assert await waiter

    told(postgres_url, story)


def test_a_look_that_fails_is_made_again(
    postgres_url: str, without_names: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "RECONNECT_SECONDS", 0.01)

    async def story(processes: Processes) -> None:
        worker, caller = processes.client(), await processes.listening()
        (token,) = await started(worker, 1)
        await quiet(worker)
        look, failed = watch.Watch._look, 0

        def failing(self: watch.Watch) -> None:
            nonlocal failed
            failed += 1
            if failed < 3:
                raise psycopg.OperationalError("gone")
            look(self)

        monkeypatch.setattr(watch.Watch, "_look", failing)
        waiter = waiting(caller, job_topic(token.ref))
        await asyncio.sleep(0)
        await succeed(worker, token)
        assert await waiter
        assert failed >= 3

    told(postgres_url, story)


def test_who_waits_while_a_job_of_this_process_is_committed_is_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read the job as it was before the commit, and its wait began after the job's end was written."""

    async def story(processes: Processes) -> None:
        store = await processes.listening()
        (token,) = await started(store, 1)
        keep, waiters = PostgresTables.keep, []

        def kept(tables: PostgresTables, unit: Any) -> None:
            keep(tables, unit)
            if unit.ended_jobs:
                waiters.append(loop.create_task(store.wait([job_topic(token.ref)], PATIENCE)))

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(watch.Watch, "rouse", lambda self: None)
        monkeypatch.setattr(PostgresTables, "keep", kept)
        monkeypatch.setattr(store_module, "finish", lambda *given: None)
        await succeed(store, token)
        assert await waiters[0]

    told(postgres_url, story)


# Behind a pooler


def test_who_waits_for_cancels_behind_a_pooler_is_told_to_look(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "DEAF_SECONDS", 0.01)

    async def story(processes: Processes) -> None:
        deaf = processes.client(options="&pooler=transaction")
        assert await deaf.wait([CANCELS], PATIENCE)
        assert not await deaf.wait([CANCELS], 0)
        assert not await deaf.wait([NOBODYS], 0.02)

    told(postgres_url, story)


# Connections that break


def test_who_waits_for_cancels_looks_when_its_connection_is_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancels may have been told meanwhile: once more than when it broke."""
    monkeypatch.setattr("tenure.stores.sql.postgres.ears.RECONNECT_SECONDS", 0.01)
    looked: list[bool] = []

    async def story(processes: Processes) -> None:
        store = await processes.listening()
        waiter = waiting(store, CANCELS)
        await asyncio.sleep(0)
        (ears,) = store._opened()._ears.values()
        broken, tell = ears._connection, ears._tell
        assert broken is not None

        def told(topics: Collection[str]) -> None:
            if CANCELS in topics:
                looked.append(ears._connection is not None)
            tell(topics)

        monkeypatch.setattr(ears, "_tell", told)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (broken.info.backend_pid,))
        assert await waiter
        async with asyncio.timeout(PATIENCE):
            while ears._connection is None:
                await asyncio.sleep(0.001)
        assert (looked[0], looked[-1]) == (False, True)

    told(postgres_url, story)


@pytest.mark.parametrize("by", ["a loop", "a thread"])
def test_who_waits_for_cancels_looks_while_nobody_can_listen(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(f"tenure.stores.sql.postgres.{'ears' if by == 'a loop' else 'wake'}.RECONNECT_SECONDS", 0.01)
    monkeypatch.setattr(store_module, "runs_on_loops", lambda *given: by == "a loop")
    parts = urlsplit(postgres_url)

    async def story(processes: Processes) -> None:
        with FaultProxy(parts.port or 5432) as proxy:
            store = await processes.listening(processes.url.replace(f":{parts.port}/", f":{proxy.port}/"))
            with proxy.away():
                for _ in range(3):
                    assert await store.wait([CANCELS], PATIENCE)
            await store.close()

    told(postgres_url, story)


def test_a_thread_that_listens_anew_looks_for_cancels_too(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[set[str]] = []
    listening = Wake(Server(f"{postgres_url}?schema=cancels"), lambda topics: heard.append(set(topics)))
    listening.listen()

    async def until_heard() -> None:
        async with asyncio.timeout(PATIENCE):
            while not heard:
                await asyncio.sleep(0.001)

    asyncio.run(until_heard())
    listening.close()
    assert heard == [{EVERYTHING, CANCELS}]


def test_what_was_to_be_told_when_the_connection_broke_is_told_by_the_next(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "RECONNECT_SECONDS", 0.01)
    parts = urlsplit(postgres_url)

    async def story(processes: Processes) -> None:
        with FaultProxy(parts.port or 5432) as proxy, processes.overheard() as overheard:
            url = processes.url.replace(f":{parts.port}/", f":{proxy.port}/")
            telling = Wake(Server(url), lambda topics: None)
            await asyncio.to_thread(telling.tell, {"first"})
            await overheard.until("first")
            proxy.cut(b"pg_notify")
            await asyncio.to_thread(telling.tell, {CANCELS})
            await overheard.until(CANCELS)
            await asyncio.to_thread(telling.close)

    told(postgres_url, story)


# What a notification says


def test_a_notification_that_would_be_too_long_says_less() -> None:
    announced = {AWAITED + job_topic(("acme", job(number).id)) for number in range(200)}
    jobs = {job_topic(("acme", job(number).id)) for number in range(200)}
    queues = {queue_topic("q" * 60 + str(number)) for number in range(200)}
    said = {CANCELS, FEED_TOPIC, queue_topic("mail")}
    assert payload(said | set(list(jobs)[:3])).count("\n") == 5
    assert set(payload(said | announced | set(list(jobs)[:3])).split("\n")) == said | set(list(jobs)[:3])
    assert set(payload(said | announced | jobs).split("\n")) == said
    assert payload(jobs) == EVERYTHING  # nothing else says that they have ended
    assert payload(queues) == EVERYTHING
    assert set(payload(queues | {CANCELS}).split("\n")) == {EVERYTHING, CANCELS}
    assert len(payload(announced | said)) <= LONGEST
