"""Events: each seen once, in order, and gone on with from any cursor."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from tenure import InvalidValue, Tenure
from tenure.domain.errors import CursorExpired
from tenure.domain.event import Event
from tenure.domain.names import DAY
from tenure.testing.clock import ManualClock
from tests.engine.kit import Between, Meddle


@pytest.fixture
def work(app: Tenure) -> Any:
    @app.job
    async def work(n: int = 0) -> int:
        return n

    return work


async def test_a_jobs_story_in_order(app: Tenure, work: Any) -> None:
    handle = await work.enqueue(1)
    async with app.worker():
        await handle.result(5)
    events = [event async for event in app.events(follow=False)]
    assert [(event.kind, event.version) for event in events] == [("enqueued", 1), ("claimed", 2), ("succeeded", 3)]
    assert {(event.tenant, event.job_id) for event in events} == {("default", handle.id)}


async def test_who_follows_sees_what_comes(app: Tenure, work: Any) -> None:
    seen: list[Event] = []
    enough = asyncio.Event()

    async def follow() -> None:
        async for event in app.events():
            seen.append(event)
            if len(seen) == 6:
                enough.set()

    following = asyncio.create_task(follow())
    async with app.worker():
        for n in range(2):
            assert await work.call(n) == n
    await enough.wait()
    following.cancel()
    assert sorted(event.kind for event in seen) == ["claimed"] * 2 + ["enqueued"] * 2 + ["succeeded"] * 2


@pytest.mark.parametrize("taken", [1, 2, 7, 9, 10])
async def test_a_cursor_goes_on_after_the_last_event_that_was_given(app: Tenure, work: Any, taken: int) -> None:
    """Also in the middle of what one call to the store gave, and again from there."""
    for _ in range(3):
        await app.enqueue_many([work.build(n) for n in range(3)])
    await work.enqueue()
    whole = [event.job_id async for event in app.events(follow=False)]
    assert len(whole) == 10

    seen: list[str | None] = []
    cursor: str | None = None
    while len(seen) < len(whole):
        feed = app.events(after=cursor, follow=False)
        async with aclosing(feed.__aiter__()) as events:  # type: ignore[type-var]  # an async generator
            async for event in events:
                seen.append(event.job_id)
                cursor = feed.cursor
                if len(seen) % taken == 0:
                    break
    assert seen == whole
    assert [event async for event in app.events(after=cursor, follow=False)] == []


async def test_one_who_stays_away_too_long_is_told_so_wherever_it_stopped(
    clock: ManualClock, app: Tenure, work: Any
) -> None:
    """It began at the beginning and stopped inside what one call enqueued; retention took the rest of that."""
    await app.enqueue_many([work.build(n) for n in range(5)])
    feed = app.events(follow=False)
    async with aclosing(feed.__aiter__()) as events:  # type: ignore[type-var]  # an async generator
        for _ in range(3):
            await anext(events)
    clock.now += 15 * DAY
    await (await app.store()).sweep(0)
    await app.enqueue_many([work.build(n) for n in range(5)])
    with pytest.raises(CursorExpired):
        await anext(feed.__aiter__())
    assert len([event async for event in app.events(follow=False)]) == 5


async def test_one_who_comes_back_sees_what_happened_meanwhile(app: Tenure, work: Any) -> None:
    feed = app.events(follow=False)
    assert [event async for event in feed] == []
    handle = await work.enqueue()
    assert [event.job_id async for event in feed] == [handle.id]
    assert [event async for event in feed] == []


async def test_a_lost_hint_delays_no_event_for_long(app: Tenure, work: Any, between: Between) -> None:
    async def deaf(verb: Meddle, topics: Any, timeout_seconds: float) -> bool:
        await asyncio.sleep(min(timeout_seconds, 0.05))
        return False

    between.meddle["wait"] = deaf

    async def first() -> Event:
        return await anext(app.events().__aiter__())

    following = asyncio.create_task(first())
    handle = await work.enqueue()
    assert (await following).job_id == handle.id


@pytest.mark.parametrize(
    "cursor", ["nonsense", "1:5", "0:99999999", "0:0~x", "~", "0:0~-1", "~3", "0:1~1", "0:0~", "latest~1"]
)
async def test_a_cursor_of_somewhere_else_is_refused(app: Tenure, work: Any, cursor: str) -> None:
    await work.enqueue()
    with pytest.raises(InvalidValue, match="cursor"):
        await anext(app.events(after=cursor).__aiter__())


async def test_events_that_are_gone_are_never_passed_over_in_silence(app: Tenure, between: Between) -> None:
    async def expired(verb: Meddle, **_: Any) -> Any:
        return CursorExpired()

    between.meddle["events"] = expired
    with pytest.raises(CursorExpired, match="past retention"):
        await anext(app.events(after="0:0").__aiter__())


async def test_one_who_starts_at_the_end_sees_only_what_comes(app: Tenure, work: Any, between: Between) -> None:
    await app.enqueue_many([work.build(n) for n in range(5)])
    looked = between.hold("wait")

    async def first() -> Event:
        return await anext(app.events(after="latest").__aiter__())

    following = asyncio.create_task(first())
    await looked.came.wait()
    handle = await work.enqueue()
    looked.let_go()
    assert (await following).job_id == handle.id
    feed = app.fleet.events(after="latest", follow=False)
    assert [event async for event in feed] == []
    other = await app.tenant("acme").send("work")
    assert [event.job_id async for event in feed] == [other.id]
