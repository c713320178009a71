"""Stopping: no new jobs, those in hand may end, the rest is given back as if it had never been taken."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from tenure import Context, Job, Retry, Settings, Snooze, Tenure
from tenure.domain.errors import StoreUnavailable
from tenure.engine.worker import exchanger
from tests.engine.kit import Between, Meddle, claim


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanger, "RETRY_SECONDS", (0.01, 0.05))


class Started:
    """Counts handlers in."""

    def __init__(self, expected: int) -> None:
        self._left = expected
        self.all = asyncio.Event()

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.all.set()


LONG = 3_600
"""Seconds: a grace that a test which waits for its end doesn't survive."""


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=0.2, cancel_grace=LONG)])
async def test_of_a_hundred_jobs_in_flight_none_is_lost(app: Tenure) -> None:
    """Those that end in the grace settle; the others are released, their attempt refunded, and can be claimed again."""
    started = Started(100)
    reasons: set[str | None] = set()

    @app.job(max_attempts=1)
    async def work(ctx: Context, n: int) -> int:
        started.one()
        reasons.add(await ctx.cancelled.wait())
        if n % 2:
            await asyncio.Event().wait()
        return n

    handles = await app.enqueue_many([work.build(n) for n in range(100)])
    async with app.worker(concurrency=100):
        await started.all.wait()
    jobs = [await handle.get() for handle in handles]
    assert reasons == {"shutdown"}
    assert [job.state for job in jobs[::2]] == ["succeeded"] * 50
    assert [(job.status, job.attempt, job.history[-1].reason) for job in jobs[1::2]] == [("ready", 0, "shutdown")] * 50
    assert len(await claim(app, n=100)) == 50


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=60, cancel_grace=5)])
async def test_a_hard_stop_ends_the_grace_at_once(app: Tenure) -> None:
    started, told = Started(1), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        started.one()
        await ctx.cancelled.wait()
        told.set()
        await asyncio.Event().wait()

    handle = await work.enqueue()
    async with app.worker() as worker:
        await started.all.wait()
        worker.stop()
        await told.wait()
        assert (await handle.get()).state == "running"
        worker.stop(hard=True)
    job = await handle.get()
    assert (job.status, job.attempt) == ("ready", 0)


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=LONG, cancel_grace=LONG)])
async def test_a_stopping_worker_asks_for_nothing_new(app: Tenure, between: Between) -> None:
    started, go = Started(1), asyncio.Event()

    def asked() -> int:
        return len(between.of("claim")) + len(between.of("exchange"))

    @app.job
    async def work(n: int) -> int:
        started.one()
        await go.wait()
        return n

    first = await work.enqueue(1)
    async with app.worker() as worker:
        await started.all.wait()
        worker.stop()
        for _ in range(10):
            await asyncio.sleep(0)  # it hears of it
        before = asked()
        second = await work.enqueue(2)
        go.set()
        assert await first.result(5) == 1
    assert asked() == before
    assert (await second.get()).status == "ready"


async def test_what_a_claim_on_its_way_still_brings_is_given_back(app: Tenure, between: Between) -> None:
    ran: list[int] = []
    started, told = Started(1), asyncio.Event()

    @app.job(max_attempts=1)
    async def work(ctx: Context, n: int) -> None:
        ran.append(n)
        started.one()
        await ctx.cancelled.wait()
        told.set()

    await work.enqueue(0)
    async with app.worker() as worker:
        await started.all.wait()
        held = between.hold("claim")
        handles = await app.enqueue_many([work.build(n) for n in range(1, 4)])
        await held.came.wait()
        worker.stop()
        await told.wait()
        held.let_go()
    jobs = [await handle.get() for handle in handles]
    assert [(job.status, job.attempt, job.history[-1].reason) for job in jobs] == [("ready", 0, "shutdown")] * 3
    assert ran == [0]


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=LONG, cancel_grace=LONG)])
async def test_a_hint_at_the_moment_of_stopping_hangs_nobody(app: Tenure) -> None:
    @app.job
    async def work() -> None: ...

    for steps in range(12):
        async with app.worker() as worker:
            await worker.idle()
            await work.enqueue()
            for _ in range(steps):
                await asyncio.sleep(0)


# How a handler ends in the grace


async def ended_in_grace(app: Tenure, function: Any, **options: Any) -> Job:
    """A job whose worker was told to stop while it ran."""
    started = Started(1)

    @app.middleware
    async def note(ctx: Context, call_next: Any) -> Any:
        started.one()
        return await call_next()

    work: Any = app.job(name="work", **options)(function)
    handle = await work.enqueue()
    async with app.worker():
        await started.all.wait()
    job: Job = await handle.get()
    return job


async def test_an_error_in_the_grace_is_an_error(app: Tenure) -> None:
    async def work(ctx: Context) -> None:
        await ctx.cancelled.wait()
        raise ValueError("boom")

    job = await ended_in_grace(app, work)
    assert (job.status, job.attempt, job.history[-1].reason) == ("retrying", 1, "error")


@pytest.mark.parametrize(
    ("signal", "status", "attempt"), [(Snooze(after=60), "scheduled", 0), (Retry(after=60), "retrying", 1)]
)
async def test_an_ending_that_the_handler_chose_holds(
    app: Tenure, signal: Exception, status: str, attempt: int
) -> None:
    async def work(ctx: Context) -> None:
        await ctx.cancelled.wait()
        raise signal

    job = await ended_in_grace(app, work)
    assert (job.status, job.attempt) == (status, attempt)


async def test_one_who_checks_is_released(app: Tenure) -> None:
    async def work(ctx: Context) -> None:
        await ctx.cancelled.wait()
        ctx.check_cancelled()

    job = await ended_in_grace(app, work)
    assert (job.status, job.attempt, job.history[-1].reason) == ("ready", 0, "shutdown")


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=0.05, cancel_grace=5)])
async def test_one_who_breaks_when_cancelled_is_released(app: Tenure) -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("broken off") from None

    job = await ended_in_grace(app, work)
    assert (job.status, job.attempt) == ("ready", 0)


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=0.05, cancel_grace=5)])
async def test_a_thread_that_still_finishes_has_finished(app: Tenure) -> None:
    """It can't be stopped, so what it did is done: running it again would be doing it twice."""

    def work(ctx: Context) -> str | None:
        ctx.cancelled.wait_sync(5)
        threading.Event().wait(0.1)  # longer than the grace
        return ctx.cancelled.reason

    job = await ended_in_grace(app, work)
    assert job.state == "succeeded"


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=0.05, cancel_grace=0.1)])
async def test_one_that_wont_end_is_left_to_its_lease(app: Tenure) -> None:
    """Nothing is settled for it: it may still be running."""
    go = asyncio.Event()

    async def work() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    job = await ended_in_grace(app, work)
    assert (job.state, job.attempt) == ("running", 1)
    go.set()


# A store that is away


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=0.05, cancel_grace=5)])
async def test_the_last_words_are_said_again_until_they_are_heard(app: Tenure, between: Between) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    between.fail("settle", times=3)
    job = await ended_in_grace(app, work)
    assert (job.status, job.attempt) == ("ready", 0)


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=0.05, cancel_grace=0.2)])
async def test_a_store_that_stays_away_keeps_nobody_from_stopping(app: Tenure, between: Between) -> None:
    started = Started(1)

    @app.job
    async def work() -> None:
        started.one()
        await asyncio.Event().wait()

    async def away(verb: Meddle, *args: Any, **kwargs: Any) -> Any:
        raise StoreUnavailable("the store is away")

    handle = await work.enqueue()
    async with app.worker():
        await started.all.wait()
        between.meddle |= dict.fromkeys(("claim", "exchange", "settle", "renew", "put_document", "wait"), away)
    between.meddle.clear()
    assert (await handle.get()).state == "running", "its lease will run out"


# Ways to stop


async def test_a_cancelled_run_stops_as_asked(app: Tenure) -> None:
    started = Started(1)

    @app.job
    async def work(ctx: Context) -> str | None:
        started.one()
        return await ctx.cancelled.wait()

    handle = await work.enqueue()
    running = asyncio.create_task(app.worker().run())
    await started.all.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await handle.result(0) == "shutdown"


async def test_a_run_returns_when_it_is_stopped(app: Tenure) -> None:
    worker = app.worker(["default"])
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    assert not worker.stopping
    worker.stop()
    await running
    assert worker.stopping


async def test_an_error_in_the_block_stops_the_worker_and_comes_out(app: Tenure) -> None:
    @app.job
    async def work() -> None: ...

    with pytest.raises(ZeroDivisionError):
        async with app.worker():
            raise ZeroDivisionError
    store = await app.opened()
    assert await store.list_documents("_system", "worker") == []


async def test_a_start_that_is_cancelled_leaves_nothing_running(app: Tenure, between: Between) -> None:
    @app.job
    async def work() -> None: ...

    await app.opened()
    held = between.hold("list_documents")
    starting = asyncio.create_task(app.worker().run())
    await held.came.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    held.let_go()


NEVER_RETURNS = """
import asyncio, threading
from tenure import Settings, Tenure

app = Tenure("memory://", settings=Settings(cancel_grace=0.1))
started = threading.Event()

@app.job
def never_returns():
    started.set()
    threading.Event().wait()

async def main():
    await never_returns.enqueue()
    async with app.worker() as worker:
        await asyncio.to_thread(started.wait)
        worker.stop(hard=True)
    print("stopped", flush=True)

asyncio.run(main())
"""


def test_a_thread_that_never_returns_keeps_no_program_from_ending() -> None:
    ran = subprocess.run([sys.executable, "-c", NEVER_RETURNS], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "stopped\n"
    assert "goes on although it was told to end" in ran.stderr
