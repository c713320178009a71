"""Purge and clean-up read page by page: what is spared in one page hides nothing behind it."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import cast

import msgspec
import pytest

from tenure.domain.calls import Claim, Claimed, Discard, Enqueued, Fail, Outcome, Purged, Settle, Succeed, Swept
from tenure.domain.errors import Refused
from tenure.domain.job import Failure, NewJob, Parent
from tenure.domain.model import FinishedBatch, retention
from tenure.domain.model.retention import Due, Ended
from tenure.domain.names import DAY, HOUR
from tenure.domain.states import State, Unique
from tenure.domain.store import Store
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.testing.clock import ManualClock
from tenure.testing.factories import MemoryFactory, PostgresFactory, SqliteFactory
from tenure.testing.factory import StoreFactory
from tenure.testing.fsck import fsck


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def factory(request: pytest.FixtureRequest) -> StoreFactory:
    if request.param == "postgres":
        return PostgresFactory(request.getfixturevalue("postgres_url"))
    return cast(StoreFactory, MemoryFactory() if request.param == "memory" else SqliteFactory())


def ident(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


def job(number: int, *parents: int) -> NewJob:
    return NewJob(
        tenant="acme",
        id=ident(number),
        queue="mail",
        job_type="send",
        payload=b"1",
        parents=tuple(Parent(ident(parent)) for parent in parents),
    )


async def ended(store: Store, count: int, outcome: Outcome) -> None:
    """So many jobs, numbered from 1, that ended alike."""
    await store.enqueue([job(number) for number in range(1, count + 1)])
    claimed = await store.claim(Claim(claim_id=os.urandom(16), worker="w", queues=(("mail", None),), n=count))
    assert isinstance(claimed, Claimed)
    replies = await store.settle([Settle(one.token, outcome) for one in claimed.jobs])
    assert len(replies) == count
    assert not any(isinstance(reply, Refused) for reply in replies)


def on(factory: StoreFactory, story: Callable[[Store, ManualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = ManualClock()
        store = await factory.create(clock)
        await story(store, clock)
        assert not await fsck(store)
        await factory.destroy(store)

    asyncio.run(main())


def test_a_purge_goes_through_all_pages(factory: StoreFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAGE", 2)

    async def story(store: Store, clock: ManualClock) -> None:
        await ended(store, 7, Fail(Failure("ValueError", "no")))
        await store.command([Discard(tenant="acme", id=ident(number)) for number in (4, 5, 7)])
        clock.advance(60 * DAY)
        purged = await store.purge()
        assert isinstance(purged, Purged)
        assert (purged.state, purged.count) == (State.FAILED, 3)
        left = [not isinstance(one, Refused) for one in await store.get([("acme", ident(n)) for n in range(1, 8)])]
        assert left == [True, True, True, False, False, True, False]
        assert await store.purge() is None

    on(factory, story)


def test_results_that_stay_hide_none_behind_them(factory: StoreFactory) -> None:
    """A sweep looks further than its limit when what it sees first must stay."""

    async def story(store: Store, clock: ManualClock) -> None:
        await ended(store, 6, Succeed(b"1"))
        await store.enqueue([job(11, 1), job(12, 2), job(13, 3)])
        clock.advance(2 * HOUR)
        for left in (5, 4, 3, 3):
            assert isinstance(await store.sweep(0, limit=1), Swept)
            await store.freeze()
            page = await store.dump()
            assert not isinstance(page, Refused)
            assert sum(item.kind == "result" for item in page.items) == left
            await store.thaw()

    on(factory, story)


def aside(
    factory: StoreFactory, store: Store, clock: ManualClock, call: Callable[[Store], Awaitable[object]]
) -> object:
    """What another client is answered while this one is in a call."""

    async def main() -> None:
        other = await factory.second(store, clock)
        answers.append(await call(other))
        await other.close()

    answers: list[object] = []
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()
    return answers[0]


def test_of_two_purges_that_meet_one_counts_a_job(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second finds its jobs gone, and begins again."""
    factory = PostgresFactory(postgres_url)
    read = PostgresTables.ended
    counts: list[object] = []
    others: list[Callable[[], object]] = []

    def then_another(tables: PostgresTables, batch: FinishedBatch, after: int, limit: int) -> list[Ended]:
        found = read(tables, batch, after, limit)
        while others:
            counts.append(others.pop()())
        return found

    monkeypatch.setattr(PostgresTables, "ended", then_another)

    async def story(store: Store, clock: ManualClock) -> None:
        await ended(store, 3, Succeed(b"1"))
        clock.advance(60 * DAY)
        others.append(lambda: aside(factory, store, clock, lambda other: other.purge()))
        counts.append(await store.purge())
        assert [one.count if isinstance(one, Purged) else None for one in counts] == [3, None]

    on(factory, story)


def test_a_key_that_was_taken_again_isnt_cleaned(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time had passed as the sweep saw it; by the time it deletes, another job has it."""
    factory = PostgresFactory(postgres_url)
    read = PostgresTables.due
    others: list[Callable[[], object]] = []

    def then_another(tables: PostgresTables, kind: str, until: int, after: Due | None, limit: int) -> list[Due]:
        found = read(tables, kind, until, after, limit)
        while kind == "binding" and found and others:
            others.pop()()
        return found

    monkeypatch.setattr(PostgresTables, "due", then_another)

    async def story(store: Store, clock: ManualClock) -> None:
        def keyed(number: int) -> NewJob:
            return msgspec.structs.replace(job(number), key="k", unique=Unique.WINDOW, unique_for=HOUR)

        await store.enqueue([keyed(1)])
        claimed = await store.claim(Claim(claim_id=os.urandom(16), worker="w", queues=(("mail", None),), n=1))
        assert isinstance(claimed, Claimed)
        await store.settle([Settle(claimed.jobs[0].token, Succeed())])
        clock.advance(2 * HOUR)
        others.append(lambda: aside(factory, store, clock, lambda other: other.enqueue([keyed(2)])))
        assert isinstance(await store.sweep(0), Swept)
        assert not others
        (again,) = await store.enqueue([keyed(3)])
        assert isinstance(again, Enqueued)
        assert (again.id, again.created) == (ident(2), False)

    on(factory, story)
