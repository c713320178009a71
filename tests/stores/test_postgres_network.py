"""The way to the server breaks exactly where it hurts: a reply is lost after the commit, a message before it, or nobody
answers at all. A call is sent again and happens once (§5a), or says that nobody knows.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

import psycopg
import pytest

from tenure import Tenure
from tenure.domain.calls import (
    Cancel,
    Claim,
    Claimed,
    ClaimedJob,
    Cursor,
    Document,
    Enqueued,
    Renewal,
    Renewed,
    RequestCancel,
    Retry,
    Settle,
    Settled,
    Stored,
    Succeed,
    Swept,
)
from tenure.domain.errors import OutcomeUnknown, StoreUnavailable
from tenure.domain.job import Failure, NewJob, Parent, Progress
from tenure.domain.states import State
from tenure.domain.store import Store
from tenure.stores.sql.postgres import PostgresStore, patience
from tenure.stores.sql.postgres import store as module
from tenure.stores.sql.postgres.connection import Server
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory
from tenure.testing.proxy import FaultProxy

T = TypeVar("T")

PATIENCE = 30.0
COMMIT = b"COMMIT"
IDLE = b"Z\0\0\0\5I"
"""The server's "ready for the next": what was sent is committed."""
SYNC = b"S\0\0\0\4"
GOING = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
GOING = b"E" + (len(GOING) + 4).to_bytes(4) + GOING
"""What a server says before it goes, asked or not."""
LEASE, GRACE = 60_000, 5_000


def uuid(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


def job(number: int, **fields: Any) -> NewJob:
    return NewJob(tenant="acme", id=uuid(number), queue="mail", job_type="send", payload=b"{}", **fields)


class Way:
    """A store at the end of a way that can break, and one beside it that looks on."""

    def __init__(self, url: str) -> None:
        known = psycopg.conninfo.conninfo_to_dict(url)
        self.proxy = FaultProxy(int(str(known["port"])), str(known["host"]))
        self._factory = PostgresFactory(url)
        self._far = re.sub(r"@[^/]+/", f"@127.0.0.1:{self.proxy.port}/", url)
        self.clock = ManualClock()

    async def open(self) -> None:
        self.near = await self._factory.create(self.clock)
        self.url = f"{self._far}?schema={self._factory.schema_of(self.near)}&connect_timeout=2"
        self.store: Store = PostgresStore(self.url, self.clock)
        await self.store.enqueue([job(0)])  # from here on it knows the configuration

    async def close(self) -> None:
        await self.store.close()
        self.proxy.close()
        await self._factory.destroy(self.near)

    async def claimed(self, number: int = 1, n: int = 10) -> Claimed:
        queues = (("mail", None),)
        reply = await self.store.claim(
            Claim(claim_id=number.to_bytes(16), worker="w", queues=queues, n=n, ttl=LEASE, grace=GRACE, cursor=Cursor())
        )
        assert isinstance(reply, Claimed)
        return reply

    async def running(self) -> ClaimedJob:
        """Job 1, claimed after job 0."""
        await self.store.enqueue([job(1)])
        return (await self.claimed(9)).jobs[1]

    async def kinds(self, number: int = 1) -> list[str]:
        """What the feed says of a job, seen from beside."""
        page: Any = await self.near.events()
        return [event.kind.value for event in page.events if event.job_id == uuid(number)]


Story = Callable[[Way], Coroutine[Any, Any, None]]


@pytest.fixture
def told(postgres_url: str) -> Callable[[Story], None]:
    """Runs a story on a store of its own, and looks at what it left."""

    def run(story: Story) -> None:
        async def main() -> None:
            way = Way(postgres_url)
            await way.open()
            try:
                await story(way)
                assert await way.near.verify() == []  # type: ignore[attr-defined]
            finally:
                await way.close()

        asyncio.run(main())

    return run


Told = Callable[[Story], None]
Call = Callable[[], Awaitable[Any]]


class Case(NamedTuple):
    """A call that changes something: what makes it ready, by which bytes it is known, what it leaves of job 1."""

    name: str
    asked: bytes
    prepare: Callable[[Way], Awaitable[tuple[Call, Any]]]
    """The call, and its answer."""
    kinds: list[str]


async def enqueue(way: Way) -> tuple[Call, Any]:
    return lambda: way.store.enqueue([job(1)]), [Enqueued(uuid(1))]


async def enqueue_by_the_model(way: Way) -> tuple[Call, Any]:
    return lambda: way.store.enqueue([job(1, parents=(Parent(uuid(0)),))]), [Enqueued(uuid(1))]


async def claim(way: Way, **fields: Any) -> tuple[Call, Any]:
    await way.claimed(9)
    await way.store.enqueue([job(1, max_attempts=1, **fields)])

    async def call() -> list[tuple[str, int]]:
        return [(one.token.job_id, one.job.attempt) for one in (await way.claimed(1)).jobs]

    return partial(until_some, call), [(uuid(1), 1)]


async def until_some(call: Callable[[], Awaitable[T]]) -> T:
    """Jobs of a claim that was cut off stay locked until the server has noticed: one that comes at once sees none."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await call()):
            await asyncio.sleep(0.01)
    return found


async def succeed(way: Way) -> tuple[Call, Any]:
    token = (await way.running()).token
    return lambda: way.store.settle([Settle(token, Succeed(b"1"))]), [Settled(State.SUCCEEDED)]


async def retry(way: Way) -> tuple[Call, Any]:
    token = (await way.running()).token
    return lambda: way.store.settle([Settle(token, Retry(Failure("E", "")))]), [Settled(State.PENDING)]


async def exchange(way: Way) -> tuple[Call, Any]:
    token = (await way.running()).token
    await way.store.enqueue([job(2)])
    request = Claim(
        claim_id=bytes(16), worker="w", queues=(("mail", None),), n=5, ttl=LEASE, grace=GRACE, cursor=Cursor()
    )

    async def call() -> Any:
        reply: Any = await way.store.exchange([Settle(token, Succeed())], request)
        return reply.claimed.jobs and (reply.settled, [one.token.job_id for one in reply.claimed.jobs])

    return partial(until_some, call), ([Settled(State.SUCCEEDED)], [uuid(2)])


async def renew(way: Way) -> tuple[Call, Any]:
    token = (await way.running()).token
    way.clock.advance(1_000)
    return lambda: way.store.renew([Renewal(token)]), [Renewed(way.clock.now + LEASE, False)]


async def cancel(way: Way) -> tuple[Call, Any]:
    await way.running()

    async def call() -> bool:
        await way.store.command([Cancel(tenant="acme", id=uuid(1))])
        return True

    return call, True


async def sweep(way: Way) -> tuple[Call, Any]:
    await way.running()
    way.clock.advance(LEASE + GRACE + 1)

    async def call() -> bool:
        reply = await way.store.sweep(0)
        return isinstance(reply, Swept) and reply.turn

    return call, True


CASES = [
    Case("enqueue", uuid(1).encode(), enqueue, ["enqueued"]),
    Case("enqueue by the model", COMMIT, enqueue_by_the_model, ["enqueued"]),
    Case("claim", COMMIT, partial(claim, labels={"not": "plain"}), ["enqueued", "claimed"]),
    Case("claim by one statement", b'"kind":"claimed"', claim, ["enqueued", "claimed"]),
    Case("succeed", uuid(1).encode(), succeed, ["enqueued", "claimed", "succeeded"]),
    Case("retry", COMMIT, retry, ["enqueued", "claimed", "retry_scheduled"]),
    Case("exchange", COMMIT, exchange, ["enqueued", "claimed", "succeeded"]),
    Case("renew", COMMIT, renew, ["enqueued", "claimed"]),
    Case("cancel", COMMIT, cancel, ["enqueued", "claimed", "cancelled"]),
    Case("sweep", COMMIT, sweep, ["enqueued", "claimed", "lease_lost"]),
]
every_call = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@every_call
def test_a_reply_that_is_lost_after_the_commit(told: Told, case: Case) -> None:
    async def story(way: Way) -> None:
        call, answer = await case.prepare(way)
        lost = way.proxy.lose(case.asked, answered=IDLE)
        assert await call() == answer
        lost.wait()
        assert await way.kinds() == case.kinds

    told(story)


@every_call
def test_a_call_that_is_cut_off_before_its_commit(told: Told, case: Case) -> None:
    async def story(way: Way) -> None:
        call, answer = await case.prepare(way)
        cut = way.proxy.cut(case.asked)
        assert await call() == answer
        cut.wait()
        assert await way.kinds() == case.kinds

    told(story)


@every_call
def test_a_server_that_goes_right_after_its_answer(told: Told, case: Case) -> None:
    """What it says then belongs to no call: neither is the answer lost, nor the connection good for another."""

    async def story(way: Way) -> None:
        call, answer = await case.prepare(way)
        gone = way.proxy.add(case.asked, answered=IDLE, more=GOING)
        assert await call() == answer
        gone.wait()
        assert await call() == answer
        assert await way.kinds() == case.kinds

    told(story)


@every_call
def test_a_server_that_says_that_it_goes_instead_of_answering(told: Told, case: Case) -> None:
    async def story(way: Way) -> None:
        call, answer = await case.prepare(way)
        gone = way.proxy.say(case.asked, instead=GOING)
        assert await call() == answer
        gone.wait()
        assert await way.kinds() == case.kinds

    told(story)


@every_call
def test_a_server_that_goes_between_its_answer_and_the_end_of_the_call(told: Told, case: Case) -> None:
    """psycopg asks once more before a pipeline ends; what is refused then was done. On a loop nobody asks, but the
    next call in a thread will.
    """

    async def story(way: Way) -> None:
        call, answer = await case.prepare(way)
        held = way.proxy.hold(case.asked)
        calling = asyncio.ensure_future(call())
        await asyncio.to_thread(held.wait)
        gone = way.proxy.say(SYNC, instead=GOING)
        held.release()
        assert await calling == answer
        await way.store.get([("t", uuid(0))])
        gone.wait()
        assert await way.kinds() == case.kinds

    told(story)


@every_call
def test_a_reply_that_is_lost_and_nobody_there_any_more(
    told: Told, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRY_SECONDS", 0.2)

    async def story(way: Way) -> None:
        call, answer = await case.prepare(way)
        await way.store.get([("t", uuid(0))])  # so that a connection is open wherever the call goes
        lost = way.proxy.lose(case.asked, answered=IDLE)
        with way.proxy.refusing(), pytest.raises(OutcomeUnknown):
            await call()
        lost.wait()
        assert await way.kinds() == case.kinds
        assert await call() == answer
        assert await way.kinds() == case.kinds

    told(story)


@every_call
def test_a_call_that_nobody_answers(told: Told, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-open: the bytes are taken, and then nothing. The server never saw them, or it did; the call can't know."""
    monkeypatch.setattr(patience, "SILENT_SECONDS", 0.2)

    async def story(way: Way) -> None:
        call, answer = await case.prepare(way)
        swallowed = way.proxy.swallow(case.asked)
        assert await call() == answer
        swallowed.wait()
        assert await way.kinds() == case.kinds

    told(story)


def test_a_claim_whose_reply_is_lost_takes_no_more(told: Told) -> None:
    async def story(way: Way) -> None:
        await way.store.enqueue([job(number) for number in range(1, 5)])
        lost = way.proxy.lose(COMMIT, answered=IDLE)
        claimed = await way.claimed(1, n=2)
        lost.wait()
        assert [(one.token.job_id, one.job.attempt) for one in claimed.jobs] == [(uuid(0), 1), (uuid(1), 1)]
        assert await way.kinds(2) == ["enqueued"]

    told(story)


def test_a_renewal_doesnt_write_back_what_it_read_before_a_cancel_was_asked_for(told: Told) -> None:
    async def story(way: Way) -> None:
        token = (await way.running()).token
        held = way.proxy.hold(b".running SET deadline")
        renewing = asyncio.ensure_future(way.store.renew([Renewal(token, Progress(0.5))]))
        await asyncio.to_thread(held.wait)
        await way.near.command([RequestCancel(tenant="acme", id=uuid(1))])
        held.release()
        assert await renewing == [Renewed(way.clock.now + LEASE, True)]
        assert await way.kinds() == ["enqueued", "claimed", "cancel_requested", "progress"]

    told(story)


def test_nobody_answers_on_any_connection(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(module, "TRY_SECONDS", 0.2)

    async def story(way: Way) -> None:
        with way.proxy.mute():
            with pytest.raises(OutcomeUnknown):
                await way.store.enqueue([job(1)])
            stranger = PostgresStore(way.url)
            with pytest.raises(StoreUnavailable, match="timeout"):
                await stranger.enqueue([job(1)])
            await stranger.close()
        assert await way.store.enqueue([job(1)]) == [Enqueued(uuid(1))]
        assert await way.kinds() == ["enqueued"]

    told(story)


def test_a_call_that_never_got_to_its_commit_did_nothing(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """No doubt about it: nothing is to be asked again."""
    monkeypatch.setattr(module, "TRY_SECONDS", 0.2)

    async def story(way: Way) -> None:
        way.proxy.cut(b"BEGIN")
        with way.proxy.refusing(), pytest.raises(StoreUnavailable, match=r"connection (broke|failed)"):
            await way.claimed()
        assert await way.kinds(0) == ["enqueued"]

    told(story)


@pytest.mark.parametrize("fault", ["cut", "lose", "swallow"])
def test_a_question_whose_answer_is_lost_is_asked_again(
    told: Told, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "SILENT_SECONDS", 0.2)

    async def story(way: Way) -> None:
        happened = getattr(way.proxy, fault)(COMMIT)
        (view,) = await way.store.get([("acme", uuid(0))])
        assert view.job.spec.id == uuid(0)  # type: ignore[union-attr]
        happened.wait()
        way.proxy.cut_all()
        assert await way.store.verify() == []  # type: ignore[attr-defined]

    told(story)


def test_a_question_is_never_of_unknown_outcome(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRY_SECONDS", 0.2)

    async def story(way: Way) -> None:
        way.proxy.lose(COMMIT, answered=IDLE)
        with way.proxy.refusing(), pytest.raises(StoreUnavailable, match=r"connection (broke|failed)"):
            await way.store.get([("acme", uuid(0))])

    told(story)


def test_a_document_whose_reply_is_lost_is_put_once(told: Told) -> None:
    async def story(way: Way) -> None:
        lost = way.proxy.lose(COMMIT, answered=IDLE)
        reply = await way.store.put_document(Document(tenant="acme", kind="note", name="n", body=b"here"))
        lost.wait()
        assert isinstance(reply, Stored)
        (found,) = await way.near.list_documents("acme", "note")
        assert (found.version, found.body) == (reply.version, b"here")

    told(story)


def test_the_server_looks_for_clients_that_vanished(postgres_url: str) -> None:
    with Server(postgres_url).connect() as connected:
        asked = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
        found = [connected.execute(f"SHOW {name}".encode()).fetchone() for name in asked]
    assert found == [("10",), ("5",), ("3",), ("25000",)]


def test_a_slow_server_is_waited_for(told: Told) -> None:
    """A message that is late by less than the longest silence breaks nothing: no call is sent twice."""

    async def story(way: Way) -> None:
        held = way.proxy.hold(COMMIT)
        claiming = asyncio.ensure_future(way.claimed())
        await asyncio.to_thread(held.wait)
        assert not claiming.done()
        held.release()
        assert [one.token.job_id for one in (await claiming).jobs] == [uuid(0)]

    told(story)


@pytest.mark.parametrize("fault", ["away", "mute"])
def test_a_worker_finds_its_way_again(told: Told, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SILENT_SECONDS", 0.5)

    async def story(way: Way) -> None:
        app = Tenure(way.url)

        @app.job
        async def double(number: int) -> int:
            return 2 * number

        async with app, app.worker():
            assert await (await double.enqueue(1)).result(PATIENCE) == 2
            with getattr(way.proxy, fault)():
                enqueued = asyncio.ensure_future(double.enqueue(2))
                await asyncio.to_thread(way.proxy.refused.wait, PATIENCE)
            assert await (await enqueued).result(PATIENCE) == 4

    told(story)
