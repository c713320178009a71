"""Jobs share a task for as long as nobody can tell."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from tenure import Tenure
from tenure.engine.hooks import Told

SEEN: ContextVar[Any] = ContextVar("seen")


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise ValueError("which of them?")

    __hash__ = object.__hash__


async def test_jobs_that_wait_for_nothing_share_a_task(app: Tenure) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @app.job
    async def work() -> None:
        tasks.append(asyncio.current_task())

    await app.enqueue_many([work.build() for _ in range(5)])
    async with app.worker() as worker:
        await worker.idle()
    assert len(tasks) == 5
    assert len(set(tasks)) == 1


@pytest.mark.parametrize("short", [False, True], ids=["for another", "for a moment"])
async def test_one_that_waits_keeps_nobody_waiting(app: Tenure, short: bool) -> None:
    """It goes on in the task in which it began, and that takes no other job any more."""
    last, tasks = asyncio.Event(), list[tuple[int, asyncio.Task[Any] | None]]()

    @app.job
    async def work(number: int) -> None:
        tasks.append((number, asyncio.current_task()))
        if number == 3:
            last.set()
        await (asyncio.sleep(0) if short else last.wait())
        tasks.append((number, asyncio.current_task()))

    await app.enqueue_many([work.build(number) for number in range(4)])
    async with app.worker() as worker:
        await worker.idle()
    assert len(tasks) == 8
    assert len(set(tasks)) == 4
    assert len({task for _, task in tasks}) == 4


@pytest.mark.parametrize("value", [1, Incomparable()], ids=["a number", "what can't be compared"])
@pytest.mark.parametrize("known", [False, True], ids=["new", "known before"])
async def test_what_a_handler_sets_is_its_own(app: Tenure, value: Any, known: bool) -> None:
    seen: list[Any] = []
    before = Incomparable() if known else None

    @app.job
    async def work() -> None:
        seen.append(SEEN.get(None))
        SEEN.set(value)

    await app.enqueue_many([work.build() for _ in range(3)])
    if known:
        SEEN.set(before)
    async with app.worker() as worker:
        await worker.idle()
    assert [one is before for one in seen] == [True] * 3


async def test_one_that_cancels_itself_cancels_nobody_else(app: Tenure) -> None:
    @app.job
    async def first() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    @app.job
    async def second() -> None:
        await asyncio.sleep(0)

    handles = [await first.enqueue(), await second.enqueue()]
    async with app.worker() as worker:
        await worker.idle()
    assert [(await handle.get()).status for handle in handles] == ["succeeded"] * 2


async def test_who_hears_of_a_start_makes_jobs_of_the_jobs_own_tenant(app: Tenure) -> None:
    @app.job
    async def work() -> None: ...

    @app.job(queue="later")
    async def made() -> None: ...

    @app.on("job_started")
    async def started(told: Told) -> None:
        tenants.append((told.tenant, (await (await app.enqueue(made.build())).get()).tenant))

    tenants = list[tuple[str | None, str]]()
    for tenant in ("a", "b"):
        await app.tenant(tenant).enqueue(work.build())
    async with app.worker(["default"]) as worker:
        await worker.idle()
    assert sorted(tenants) == [("a", "a"), ("b", "b")]
