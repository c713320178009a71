"""Renewal, in real time: what runs longer than its lease keeps it, whatever the handler does to the event loop."""

import asyncio
import threading
import time

import pytest

from tenure import Context, Tenure
from tenure.domain.calls import Renewal
from tenure.engine.worker import renewer as module
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Hand
from tenure.engine.worker.renewer import Renewer
from tests.engine.kit import REAL, Between, claim, happened

LEASE = 0.5
"""Seconds."""

pytestmark = pytest.mark.parametrize("clock", [REAL])


async def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_its_job(app: Tenure, between: Between) -> None:
    """Another worker sweeps all the while, from a thread of its own, and finds nothing to take."""
    ran: list[int] = []

    @app.job
    async def blocks(ctx: Context) -> int:
        ran.append(ctx.attempt)
        time.sleep(3 * LEASE)  # the subject of the test
        return ctx.attempt

    stop = threading.Event()

    async def sweep() -> int:
        lost = 0
        while not stop.is_set():
            lost += (await app.fleet.sweep()).counts.lost
            await asyncio.sleep(LEASE / 10)
        return lost

    sweeping = asyncio.create_task(asyncio.to_thread(asyncio.run, sweep()))
    async with app.worker(lease=LEASE, grace=0):
        assert await blocks.call() == 1
        await asyncio.sleep(0)
    stop.set()
    assert await sweeping == 0
    assert ran == [1]
    assert len(between.of("renew")) >= 6


async def test_a_long_handler_keeps_its_job_and_is_seen_by_no_other_worker(app: Tenure) -> None:
    ran: list[str] = []

    @app.job
    async def long(ctx: Context) -> str:
        ran.append(ctx.id)
        await asyncio.sleep(3 * LEASE)  # the subject of the test
        return ctx.id

    async with app.worker(lease=LEASE, grace=0), app.worker(lease=LEASE, grace=0):
        handles = [await long.enqueue() for _ in range(4)]
        assert [await handle.result(5) for handle in handles] == [handle.id for handle in handles]
    assert sorted(ran) == sorted(handle.id for handle in handles)


async def test_a_lease_is_renewed_every_third_of_it_and_many_in_one_call(app: Tenure, between: Between) -> None:
    go = asyncio.Event()

    @app.job(lease=LEASE)
    async def work() -> None:
        await go.wait()

    await app.enqueue_many([work.build() for _ in range(20)])
    loop = asyncio.get_running_loop()
    async with app.worker(concurrency=20):
        await between.called("renew", 1)
        start = loop.time()
        await between.called("renew", 5)
        took = loop.time() - start
        go.set()
    batches = [len(batch) for batch in between.of("renew")]
    assert batches[1:4] == [20, 20, 20]
    assert 3 * LEASE / 3 <= took <= 4 * LEASE


async def test_a_job_of_another_lease_is_renewed_at_its_own_pace(app: Tenure, between: Between) -> None:
    """One that comes while the renewer sleeps for a long lease wakes it in time. The other's cancel is asked for once
    at most, when hints of other processes begin to arrive.
    """
    go, started = asyncio.Event(), asyncio.Event()

    @app.job
    async def work() -> int:
        started.set()
        await go.wait()
        return 1

    async with app.worker():
        long = await work.options(lease=3_600).enqueue()
        await started.wait()
        short = await work.options(lease=LEASE).enqueue()
        await between.called("renew", 5)
        go.set()
        assert await short.result(5) == 1
    renewed = [one.token.job_id for batch in between.of("renew") for one in batch if isinstance(one, Renewal)]
    assert set(renewed) <= {short.id, long.id}
    assert renewed.count(long.id) <= 1
    assert renewed.count(short.id) >= 4


async def test_a_job_that_comes_while_the_renewer_counts_isnt_looked_past(
    app: Tenure, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job(lease=LEASE)
    async def work() -> None: ...

    await work.enqueue()
    (claimed,) = await claim(app)
    hand, counted, count = Hand(claimed, work, boottime(), boottime(), lambda hand: None), 0, Renewer._all

    def counting(renewer: Renewer) -> list[Hand]:
        nonlocal counted
        found, counted = count(renewer), counted + 1
        if counted == 4:  # the second time that it looks when to wake
            renewer.added([hand])
        return found

    monkeypatch.setattr(Renewer, "_all", counting)
    monkeypatch.setattr(module, "IDLE_SECONDS", 3_600)
    renewer = Renewer(await app.opened())
    await renewer.start()
    renewer._look()
    await between.called("renew", 1)
    await renewer.stop()


async def test_a_handler_past_its_time_is_let_go(app: Tenure, between: Between) -> None:
    """One that won't end isn't renewed for ever: its lease ends, and another attempt begins."""
    go, told = threading.Event(), threading.Event()
    attempts: list[int] = []

    @app.job(timeout=0.1, lease=LEASE, grace=0)
    def stuck(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            ctx.cancelled.wait_sync(5)
            told.set()
            go.wait(5)
        return ctx.attempt

    handle = await stuck.enqueue()
    async with app.worker(lease=LEASE):
        await asyncio.to_thread(told.wait, 5)
        await happened(app, "lease_lost", job_id=handle.id)
        assert await handle.result(5) == 2
        go.set()
    assert attempts == [1, 2]
    kinds = [event.kind.value async for event in app.events(follow=False)]
    assert kinds == ["enqueued", "claimed", "lease_lost", "claimed", "succeeded"], "the first one settled nothing"


async def test_nothing_is_renewed_after_the_worker_stopped(app: Tenure, between: Between) -> None:
    go = asyncio.Event()

    @app.job(lease=LEASE)
    async def work() -> None:
        await go.wait()

    await work.enqueue()
    async with app.worker():
        await between.called("renew", 1)
        go.set()
    assert [thread.name for thread in threading.enumerate() if thread.name == "tenure-renewer"] == []
