"""Several clients of one PostgreSQL store at once, held where it matters until all have come that far."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import msgspec
import psycopg
import pytest

from tenure.domain.calls import (
    Cancel,
    Claim,
    Claimed,
    Cursor,
    Document,
    Enqueued,
    Settle,
    Settled,
    Succeed,
)
from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.errors import JobCancelled, LeaseLost, StoreUnavailable
from tenure.domain.job import NewJob, Parent, Token
from tenure.domain.rate import Rate
from tenure.domain.states import Mode, State
from tenure.domain.store import Store
from tenure.stores.sql.postgres import store as postgres_store
from tenure.stores.sql.postgres.pipeline import Pipeline
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory

T = TypeVar("T")

TENANT, MAIL, LEASE, GRACE = "acme", "mail", 60_000, 5_000


def uuid(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


def job(number: int, **fields: Any) -> NewJob:
    return NewJob(tenant=TENANT, id=uuid(number), queue=MAIL, job_type="send", payload=b"{}", **fields)


def claim(number: int, n: int = 1) -> Claim:
    return Claim(
        claim_id=number.to_bytes(16),
        worker=f"w{number}",
        queues=((MAIL, None),),
        n=n,
        ttl=LEASE,
        grace=GRACE,
        cursor=Cursor(),
    )


class Clients:
    """A store, as many clients of it as are wanted, and a connection that can hold them up."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.factory = PostgresFactory(url)
        self.clock = ManualClock()
        self.stores: list[Store] = []

    async def open(self, count: int) -> None:
        self.stores.append(await self.factory.create(self.clock))
        for _ in range(count - 1):
            self.stores.append(await self.factory.second(self.stores[0], self.clock))

    async def close(self) -> None:
        for store in reversed(self.stores):
            await self.factory.destroy(store)

    @property
    def schema(self) -> str:
        return self.factory.schema_of(self.stores[0])

    @contextmanager
    def held(self, statement: str) -> Iterator["psycopg.Connection[Any]"]:
        """Nobody gets past what the statement locks until the block ends."""
        with psycopg.connect(self.url) as connection:
            connection.execute(statement.replace("tenure.", f"{self.schema}.").encode())
            yield connection
            connection.commit()

    async def waiting(self, count: int) -> None:
        """Until so many of the store's connections wait for a lock."""
        asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'tenure'"
        async with asyncio.timeout(30):
            with psycopg.connect(self.url, autocommit=True) as connection:
                while connection.execute(asked).fetchone() != (count,):
                    await asyncio.sleep(0.01)

    async def state(self, number: int) -> State:
        (view,) = await self.stores[0].get([(TENANT, uuid(number))])
        return view.job.state  # type: ignore[union-attr]

    async def kinds(self, number: int) -> list[tuple[int | None, str]]:
        page: Any = await self.stores[0].events()
        return [(event.version, event.kind.value) for event in page.events if event.job_id == uuid(number)]

    async def tokens(self, number: int, n: int) -> list[Token]:
        claimed: Any = await self.stores[0].claim(claim(number, n))
        return [one.token for one in claimed.jobs]


@pytest.fixture
def together(postgres_url: str) -> "Together":
    def run(count: int, story: Callable[[Clients], Coroutine[Any, Any, None]]) -> None:
        async def told() -> None:
            clients = Clients(postgres_url)
            await clients.open(count)
            try:
                await story(clients)
                assert await clients.stores[0].verify() == []  # type: ignore[attr-defined]
            finally:
                await clients.close()

        asyncio.run(told())

    return run


Together = Callable[[int, Callable[[Clients], Coroutine[Any, Any, None]]], None]


def success(token: Token) -> list[Settle]:
    return [Settle(token, Succeed())]


def started(*calls: Awaitable[T]) -> "list[asyncio.Future[T]]":
    return [asyncio.ensure_future(call) for call in calls]


def test_of_two_parents_that_end_together_one_frees_the_child(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        await one.enqueue([job(9)])
        await one.settle(success(*await clients.tokens(9, 1)))  # the day's first: the next two needn't wait for it
        await one.enqueue([job(1), job(2), job(3, parents=(Parent(uuid(1)), Parent(uuid(2))))])
        first, second = await clients.tokens(1, 2)
        with clients.held("LOCK TABLE tenure.edge IN SHARE MODE"):
            calls = started(one.settle(success(first)), two.settle(success(second)))
            await clients.waiting(2)
        assert await asyncio.gather(*calls) == [[Settled(State.SUCCEEDED)]] * 2
        assert await clients.state(3) is State.PENDING

    together(2, story)


def test_a_child_tied_while_its_parent_ends_is_found_by_the_sweeper(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        await one.enqueue([job(1)])
        (token,) = await clients.tokens(1, 1)
        with clients.held("LOCK TABLE tenure.edge IN SHARE MODE"):
            (tied,) = started(two.enqueue([job(2, parents=(Parent(uuid(1)),))]))
            await clients.waiting(1)
            assert await one.settle(success(token)) == [Settled(State.SUCCEEDED)]
        assert await tied == [Enqueued(uuid(2))]
        assert await clients.state(2) is State.BLOCKED
        await one.sweep(0)
        assert await clients.state(2) is State.PENDING

    together(2, story)


def test_a_parent_that_ends_sees_a_child_that_was_tied_meanwhile(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        await one.enqueue([job(1)])
        (token,) = await clients.tokens(1, 1)
        with clients.held("LOCK TABLE tenure.running IN SHARE MODE"):
            (settled,) = started(one.settle(success(token)))
            await clients.waiting(1)
            assert await two.enqueue([job(2, parents=(Parent(uuid(1)),))]) == [Enqueued(uuid(2))]
        assert await settled == [Settled(State.SUCCEEDED)]
        assert await clients.state(2) is State.PENDING

    together(2, story)


def test_a_group_of_one_has_one_holder_whoever_claims(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        body = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1))
        await one.put_document(Document(tenant=TENANT, kind=QUEUE, name=MAIL, body=body))
        await one.enqueue([job(number, group="g") for number in range(1, 4)])
        with clients.held("LOCK TABLE tenure.running IN SHARE MODE"):
            (first,) = started(one.claim(claim(1, 5)))
            await clients.waiting(1)
            second = await two.claim(claim(2, 5))
            assert isinstance(second, Claimed)
            assert (second.jobs, second.wake_after) == ((), postgres_store.BUSY_MS)
        taken = await first
        assert isinstance(taken, Claimed)
        assert [one.token.job_id for one in taken.jobs] == [uuid(1)]

    together(2, story)


def test_a_group_is_counted_when_nobody_else_is_at_it(together: Together, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was at it until then may have taken the last place after this claim began to look."""

    async def story(clients: Clients) -> None:
        (one,) = clients.stores
        body = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1))
        await one.put_document(Document(tenant=TENANT, kind=QUEUE, name=MAIL, body=body))
        await one.enqueue([job(1, group="g")])
        ahead = Pipeline.ahead_many

        def taken_meanwhile(pipeline: Pipeline, name: str, given: Any, *more: Any) -> None:
            if name == "group_counts":
                for found in pipeline._ahead.values():
                    found.fetchall = partial(lambda rows: rows, found.fetchall())
                with psycopg.connect(clients.url, autocommit=True) as connection:
                    slot = f"INSERT INTO {clients.schema}.slot VALUES ('{TENANT}', '{uuid(2)}', 1, '{MAIL}', 'g', 9)"
                    connection.execute(slot.encode())
            ahead(pipeline, name, given, *more)

        with monkeypatch.context() as patch:
            patch.setattr(Pipeline, "ahead_many", taken_meanwhile)
            assert await clients.tokens(1, 5) == []
        with psycopg.connect(clients.url, autocommit=True) as connection:
            connection.execute(f"DELETE FROM {clients.schema}.slot".encode())
        assert [token.job_id for token in await clients.tokens(2, 5)] == [uuid(1)]

    together(1, story)


def test_a_group_that_is_full_is_left_to_others(together: Together) -> None:
    async def story(clients: Clients) -> None:
        (one,) = clients.stores
        body = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1))
        await one.put_document(Document(tenant=TENANT, kind=QUEUE, name=MAIL, body=body))
        await one.enqueue([job(1, group="g"), job(2, group="g")])
        assert [token.job_id for token in await clients.tokens(1, 5)] == [uuid(1)]
        await one.enqueue([job(3, group="h")])
        locks = (
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' "
            "AND wait_event_type = 'Lock' AND application_name = 'tenure'"
        )
        with clients.held("LOCK TABLE tenure.running IN SHARE MODE") as connection:
            (taking,) = started(clients.tokens(2, 5))
            await clients.waiting(1)
            assert connection.execute(locks).fetchone() == (1,), "of the other group alone"
        assert [token.job_id for token in await taking] == [uuid(3)]

    together(1, story)


def test_a_limit_of_one_has_one_holder_whoever_claims(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        body = msgspec.json.encode(QueueConfig(limit=1))
        await one.put_document(Document(tenant=TENANT, kind=QUEUE, name=MAIL, body=body))
        await one.enqueue([job(number) for number in range(1, 4)])
        with clients.held("LOCK TABLE tenure.running IN SHARE MODE"):
            (first,) = started(one.claim(claim(1, 5)))
            await clients.waiting(1)
            second = await two.claim(claim(2, 5))
            assert isinstance(second, Claimed)
            assert second.jobs == ()
        taken = await first
        assert isinstance(taken, Claimed)
        assert len(taken.jobs) == 1

    together(2, story)


def test_a_claim_that_is_sent_twice_takes_once(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        await one.enqueue([job(number) for number in range(1, 10)])
        with clients.held("LOCK TABLE tenure.running IN SHARE MODE"):
            calls = started(one.claim(claim(1, 3)), two.claim(claim(1, 3)))
            await clients.waiting(2)
        first, second = await asyncio.gather(*calls)
        assert isinstance(first, Claimed)
        assert isinstance(second, Claimed)
        tokens = [job.token for job in first.jobs]
        assert [job.token for job in second.jobs] == tokens
        assert len(tokens) == 3

    together(2, story)


def test_claims_at_once_take_different_jobs_in_order(together: Together) -> None:
    async def story(clients: Clients) -> None:
        await clients.stores[0].enqueue([job(number) for number in range(1, 10)])
        with clients.held("LOCK TABLE tenure.running IN SHARE MODE"):
            calls = started(*(store.claim(claim(number, 3)) for number, store in enumerate(clients.stores, 1)))
            await clients.waiting(3)
        taken: list[Any] = await asyncio.gather(*calls)
        assert sorted([one.token.job_id for one in claimed.jobs] for claimed in taken) == [
            [uuid(number) for number in range(first, first + 3)] for first in (1, 4, 7)
        ]

    together(3, story)


def test_a_key_that_two_take_at_once_goes_to_one(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        for key in "abcdef":  # of two that meet, one waits for the other no longer than 20 ms, and then looks
            mine, other = job(ord(key), key=key), job(1_000 + ord(key), key=key)
            with clients.held("LOCK TABLE tenure.job IN SHARE MODE"):
                calls = started(one.enqueue([mine]), two.enqueue([other]))
                await clients.waiting(2)
            (first,), (second,) = await asyncio.gather(*calls)
            assert isinstance(first, Enqueued)
            assert isinstance(second, Enqueued)
            assert {first.created, second.created} == {True, False}
            assert first.id == second.id

    together(2, story)


def test_an_id_that_is_sent_twice_at_once_is_one_job(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        with clients.held("LOCK TABLE tenure.job IN SHARE MODE"):
            calls = started(one.enqueue([job(1)]), two.enqueue([job(1)]))
            await clients.waiting(2)
        assert await asyncio.gather(*calls) == [[Enqueued(uuid(1))]] * 2
        assert await clients.kinds(1) == [(1, "enqueued")]

    together(2, story)


def test_an_id_with_a_key_that_is_sent_many_times_at_once_is_created_by_each(together: Together) -> None:
    """Whoever finds the key taken by this very job finds the job too."""

    async def story(clients: Clients) -> None:
        for number in range(1, 11):
            one = job(number, key=f"k{number}")
            sent = (store.enqueue([one]) for store in clients.stores for _ in range(4))
            assert await asyncio.gather(*sent) == [[Enqueued(one.id)]] * 8

    together(2, story)


def test_a_cancel_that_a_claim_overtakes_cancels_what_runs(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        await one.enqueue([job(1)])
        with clients.held("LOCK TABLE tenure.running IN SHARE MODE"):
            (claimed,) = started(one.claim(claim(1)))
            await clients.waiting(1)
            (cancelled,) = started(two.command([Cancel(tenant=TENANT, id=uuid(1))]))
            await clients.waiting(2)
        await asyncio.gather(claimed, cancelled)
        assert await clients.state(1) is State.CANCELLED
        assert await clients.kinds(1) == [(1, "enqueued"), (2, "claimed"), (3, "cancelled")]

    together(2, story)


@pytest.mark.parametrize("others", [0, 2], ids=["alone", "with others"])
def test_a_settle_that_another_clients_cancel_came_before_is_refused(together: Together, others: int) -> None:
    """The one who settles remembers that the job runs: it doesn't any more."""

    async def story(clients: Clients) -> None:
        one, two = clients.stores
        await one.enqueue([job(number) for number in range(1, 2 + others)])
        tokens = await clients.tokens(1, 1 + others)
        await two.command([Cancel(tenant=TENANT, id=uuid(1))])
        replies = await one.settle([Settle(token, Succeed()) for token in tokens])
        assert replies == [JobCancelled()] + [Settled(State.SUCCEEDED)] * others
        assert await clients.kinds(1) == [(1, "enqueued"), (2, "claimed"), (3, "cancelled")]

    together(2, story)


def test_a_settle_of_a_lease_that_another_client_has_by_now_is_refused(together: Together) -> None:
    """The one who settles remembers that the job runs: it does, but for somebody else."""

    async def story(clients: Clients) -> None:
        one, two = clients.stores
        await one.enqueue([job(1)])
        (stale,) = await clients.tokens(1, 1)
        clients.clock.advance(LEASE + GRACE + 1)
        await two.sweep(0)
        taken: Any = await two.claim(claim(2))
        assert [again.token.job_id for again in taken.jobs] == [uuid(1)]
        clients.clock.advance(-LEASE)  # the stale one's call took its time before the lease was lost
        assert await one.settle(success(stale)) == [LeaseLost()]
        assert await clients.kinds(1) == [(1, "enqueued"), (2, "claimed"), (3, "lease_lost"), (4, "claimed")]
        assert await two.settle(success(taken.jobs[0].token)) == [Settled(State.SUCCEEDED)]

    together(2, story)


def test_a_rate_is_spent_once_whoever_claims(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        body = msgspec.json.encode(QueueConfig(rate=Rate(1, 60_000)))
        await one.put_document(Document(tenant=TENANT, kind=QUEUE, name=MAIL, body=body))
        await one.enqueue([job(number) for number in range(1, 100)])  # more than one claim looks at
        with clients.held("LOCK TABLE tenure.running IN SHARE MODE"):
            (first,) = started(one.claim(claim(1)))
            await clients.waiting(1)
            async with asyncio.timeout(20):
                second: Any = await two.claim(claim(2))
            assert second.jobs == ()
        taken: Any = await first
        assert len(taken.jobs) == 1

    together(2, story)


def test_two_who_read_the_feed_at_once_lose_nothing(together: Together) -> None:
    """The second comes when the first is about to give chunks their places, and sees more of them."""

    async def story(clients: Clients) -> None:
        one, two = clients.stores
        await one.enqueue([job(1)])
        taken = "INSERT INTO tenure.feed (position, tenant, at, body) VALUES (1, 'x', 0, '')"
        with clients.held(taken) as connection:
            (first,) = started(one.events())
            await clients.waiting(1)
            await one.enqueue([job(2)])
            (second,) = started(two.events())
            await clients.waiting(2)
            connection.rollback()
        await asyncio.gather(first, second)
        for store in (one, two):
            page: Any = await store.events()
            assert [event.job_id for event in page.events] == [uuid(1), uuid(2)]

    together(2, story)


def test_documents_are_put_as_they_were_called_whoever_gave_up(together: Together) -> None:
    async def story(clients: Clients) -> None:
        one, two = clients.stores
        here = Document(tenant=TENANT, kind="note", name="n", body=b"here")
        with clients.held("LOCK TABLE tenure.document IN SHARE MODE"):
            (given_up,) = started(two.put_document(here))
            await clients.waiting(1)
            given_up.cancel()
            (gone,) = started(two.put_document(msgspec.structs.replace(here, body=None)))
            ended, _ = await asyncio.wait([gone], timeout=0.5)
            assert not ended, "it came before the one that was called first"
        await gone
        await two.close()  # waits for whatever is on its way
        assert await one.list_documents(TENANT, "note") == []

    together(2, story)


PLAIN: dict[str, Any] = {}
LATER, LABELLED = {"delay": 60_000}, {"labels": {"to": "you"}}


@pytest.mark.parametrize(
    "kinds", [[PLAIN], [LATER], [PLAIN] * 200, [LATER, LABELLED]], ids=["one", "alike", "many", "of several kinds"]
)
def test_a_freeze_waits_for_whoever_is_writing(together: Together, kinds: list[dict[str, Any]]) -> None:
    """By each of the statements that an enqueue may be."""

    async def story(clients: Clients) -> None:
        one, two = clients.stores
        first, second, last = (
            [job(1_000 * call + number, **fields) for number, fields in enumerate(kinds)] for call in range(3)
        )
        for jobs in (first, second):
            await one.enqueue(jobs)  # its connection has seen the statement: the next call is nothing else
        with clients.held("LOCK TABLE tenure.job IN SHARE MODE"):
            (enqueued,) = started(one.enqueue(last))
            await clients.waiting(1)
            (frozen,) = started(two.freeze())
            await clients.waiting(2)
            assert not frozen.done()
        assert await enqueued == [Enqueued(given.id) for given in last]
        await frozen
        page: Any = await two.dump()
        assert "job" in {item.kind for item in page.items}
        await two.thaw()

    together(2, story)


def test_whoever_is_overtaken_for_too_long_is_told(together: Together, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_store, "TRY_SECONDS", 0.3)

    async def story(clients: Clients) -> None:
        (store,) = clients.stores
        refused = pytest.raises(StoreUnavailable, match="or an open transaction holds what this call needs")
        with clients.held("LOCK TABLE tenure.meta IN ROW SHARE MODE"), refused:
            await store.freeze()

    together(1, story)
