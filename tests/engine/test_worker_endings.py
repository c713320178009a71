"""How an attempt ends: whatever a handler does, its job gets one outcome and the worker goes on."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure import Backoff, Context, Fail, Job, JobFailed, Retry, Snooze, Tenure
from tenure.domain.errors import JobCancelled
from tenure.engine.hooks import Told
from tenure.engine.worker.exchanger import ClaimTerms, Exchanger
from tenure.engine.worker.hand import Hands
from tenure.stores.memory import MemoryStore
from tenure.testing.clock import START, ManualClock
from tests.engine.kit import Between, claim, happened

NOW = datetime.fromtimestamp(START / 1_000, UTC)

PATIENCE = 60
"""Seconds."""
SHORT = 0.6
"""Seconds: a lease that is renewed so often that a worker soon learns of a cancel."""


async def ended(app: Tenure, function: Callable[..., Any], **options: Any) -> Job:
    """A job of this handler after one attempt; the worker must be able to go on."""
    work: Any = app.job(name="work", **options)(function)

    @app.job
    async def check() -> str:
        return "alive"

    handle = await work.enqueue()
    async with app.worker() as worker:
        await worker.idle()
        assert await check.call() == "alive"
        await worker.idle()
    job: Job = await handle.get()
    return job


def raising(error: BaseException, *, threaded: bool) -> Callable[[], Any]:
    def plain() -> None:
        raise error

    async def inline() -> None:
        raise error

    return plain if threaded else inline


BOTH = pytest.mark.parametrize("threaded", [False, True], ids=["inline", "thread"])


# Chosen endings


@BOTH
async def test_an_error_is_tried_again_after_its_policys_delay(app: Tenure, threaded: bool) -> None:
    error = ValueError("boom")
    job = await ended(app, raising(error, threaded=threaded), retry=Backoff.exponential(base=7, cap=60))
    assert (job.status, job.attempt, job.run_at) == ("retrying", 1, NOW + timedelta(seconds=7))
    assert job.last_error is not None
    assert (job.last_error.family, job.last_error.message) == ("ValueError", "boom")
    assert (job.history[-1].outcome, job.history[-1].reason) == ("retry_scheduled", "error")


async def test_delays_grow_with_the_attempts_until_they_are_spent(app: Tenure, clock: ManualClock) -> None:
    @app.job(max_attempts=3, retry=Backoff.exponential(base=5, cap=300))
    async def work() -> None:
        raise ValueError

    handle = await work.enqueue()
    delays = []
    async with app.worker() as worker:
        for _ in range(2):
            await worker.idle()
            job = await handle.get()
            delays.append((job.run_at - NOW).total_seconds() * 1_000 - (clock.now - START))
            clock.advance(round(delays[-1]))
        with pytest.raises(JobFailed, match="exhausted"):
            await worker.idle()
            await handle.result(5)
    assert delays == [5_000, 10_000]


async def test_the_default_policy_waits_between_half_its_base_and_its_base_first(app: Tenure) -> None:
    job = await ended(app, raising(ValueError(), threaded=False))
    assert timedelta(seconds=2.5) <= job.run_at - NOW <= timedelta(seconds=5)


@BOTH
async def test_a_retry_says_its_own_delay(app: Tenure, threaded: bool) -> None:
    job = await ended(app, raising(Retry("greylisted", after=60), threaded=threaded))
    assert (job.status, job.attempt, job.run_at) == ("retrying", 1, NOW + timedelta(seconds=60))
    assert job.last_error is not None
    assert job.last_error.message == "greylisted"


async def test_a_retry_without_a_delay_takes_the_policys(app: Tenure) -> None:
    job = await ended(app, raising(Retry("again"), threaded=False), retry=Backoff.ladder(9))
    assert job.run_at == NOW + timedelta(seconds=9)


async def test_a_delay_beyond_a_day_is_a_day(app: Tenure) -> None:
    job = await ended(app, raising(Retry("again", after=timedelta(days=9)), threaded=False))
    assert job.run_at == NOW + timedelta(days=1)


@BOTH
async def test_a_fail_is_final(app: Tenure, threaded: bool) -> None:
    job = await ended(app, raising(Fail("no such mailbox"), threaded=threaded), max_attempts=5)
    assert (job.state, job.reason, job.attempt, job.dead_letter) == ("failed", "permanent", 1, "open")


@BOTH
async def test_a_snooze_costs_no_attempt(app: Tenure, threaded: bool) -> None:
    job = await ended(app, raising(Snooze("not now", after=60), threaded=threaded), max_attempts=1)
    assert (job.status, job.attempt, job.run_at) == ("scheduled", 0, NOW + timedelta(seconds=60))
    assert job.history[-1].reason == "snooze"


@pytest.mark.parametrize("after", [0, 5])
async def test_nobody_snoozes_for_ever(app: Tenure, clock: ManualClock, after: int) -> None:
    times = 0

    @app.job
    async def work() -> None:
        nonlocal times
        times += 1
        clock.advance(5_000)
        raise Snooze(after=after)

    handle = await work.enqueue()
    async with app.worker() as worker:
        while (await handle.get()).state != "failed":
            clock.advance(5_000)
            await worker.idle()
    assert times == 101
    assert (await handle.get()).reason == "snooze"


# Everything else that can be raised


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


STRANGE = type("Strange\nName", (Exception,), {})
LONG = type("é" * 200, (Exception,), {})


@BOTH
@pytest.mark.parametrize(
    ("error", "family"),
    [
        (SystemExit(3), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (BaseException("bare"), "BaseException"),
        (asyncio.CancelledError(), "CancelledError"),
        (StopIteration(1), "RuntimeError"),
        (StopAsyncIteration(), "(StopAsyncIteration|RuntimeError)"),
        (MemoryError(), "MemoryError"),
        (RecursionError(), "RecursionError"),
        (TimeoutError("own"), "TimeoutError"),
        (Unprintable(), "Unprintable"),
        (STRANGE("x"), "InvalidError"),
        (LONG("x"), "InvalidError"),
        (ValueError("x" * 5_000), "ValueError"),
        (ValueError("\ud800"), "ValueError"),
        (Retry(after=-1), "InvalidError"),
        (Retry(after="soon"), "InvalidError"),  # type: ignore[arg-type]  # the subject of the test
        (Snooze(after=float("nan")), "InvalidError"),
        (ExceptionGroup("many", [ValueError(1)]), "ExceptionGroup"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_whatever_is_raised_is_an_error_of_the_attempt_and_harms_nobody(
    app: Tenure, error: BaseException, family: str, threaded: bool
) -> None:
    job = await ended(app, raising(error, threaded=threaded))
    assert (job.status, job.attempt) == ("retrying", 1)
    assert job.last_error is not None
    assert job.last_error.family in family
    assert len(job.last_error.message.encode()) <= 1_024


async def test_a_task_that_a_handler_leaves_behind_is_its_own_affair(app: Tenure) -> None:
    left: list[asyncio.Task[None]] = []
    go = asyncio.Event()

    async def background() -> None:
        await go.wait()
        raise RuntimeError("nobody's business")

    async def leaks() -> int:
        left.append(asyncio.create_task(background()))
        return 1

    job = await ended(app, leaks)
    assert job.state == "succeeded"
    go.set()
    with pytest.raises(RuntimeError, match="nobody's business"):
        await left[0]


# Forks


@pytest.mark.parametrize("how", ["returns", "raises", "yields", "thread"])
def test_a_handler_that_forks_comes_back_once(tmp_path: Path, how: str) -> None:
    """The copy ends as soon as it comes back: it neither settles nor goes on as a worker."""
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")
    children: list[int] = []

    def fork() -> bool:
        child = os.fork()
        if child:
            children.append(child)
        else:
            signal.alarm(PATIENCE)  # one that goes on is ended, and seen
        return child == 0

    async def inline() -> str:
        if fork():
            if how == "raises":
                raise ValueError("in the child")
            if how == "yields":
                await asyncio.sleep(0)
            return "child"
        return "parent"

    def plain() -> str:
        return "child" if fork() else "parent"

    work: Any = app.job(name="work")(plain if how == "thread" else inline)

    async def main() -> None:
        async with app, app.worker() as worker:
            for _ in range(4):
                assert await work.call() == "parent"
            await worker.idle()

    home = os.getpid()
    try:
        asyncio.run(main())
    finally:
        if os.getpid() != home:
            os._exit(99)  # a copy that came this far must not go on as pytest
    assert len(children) == 4
    assert {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children} == {70}
    events = asyncio.run(_kinds(app))
    assert events.count("claimed") == events.count("succeeded") == 4


def test_a_copy_that_waits_for_what_was_there_before_neither_claims_nor_settles() -> None:
    """It needs no running loop for that, and the loop's other tasks go on in it."""
    terms = ClaimTerms("w", 1_000, 0, None, (1, 1))
    hands = Hands(1, {"default": None})
    exchanger = Exchanger(MemoryStore(), hands, terms, ("default",), lambda *_: [], lambda *_: None, lambda *_: None)
    child = os.fork()
    if not child:
        try:
            asyncio.run(exchanger._turn())
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 70


async def _kinds(app: Tenure) -> list[str]:
    async with app:
        return [event.kind.value async for event in app.events(follow=False)]


# Time-outs


async def test_a_timeout_is_an_error_that_is_tried_again(app: Tenure) -> None:
    told: list[str | None] = []

    async def hangs(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append(ctx.cancelled.reason)

    job = await ended(app, hangs, timeout=0.05, retry=Backoff.ladder(9))
    assert (job.status, job.attempt, job.run_at) == ("retrying", 1, NOW + timedelta(seconds=9))
    assert (job.history[-1].reason, told) == ("timeout", ["timeout"])
    assert job.last_error is not None
    assert (job.last_error.family, job.last_error.message) == ("Timeout", "the handler hadn't ended after 0.05 s")


async def test_a_handler_that_swallows_the_cancellation_once_is_timed_out_all_the_same(app: Tenure) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "too late"

    job = await ended(app, stubborn, timeout=0.05)
    assert (job.status, job.history[-1].reason) == ("retrying", "timeout")


async def test_a_thread_is_told_of_its_timeout_and_its_slot_stays_taken_until_it_ends(app: Tenure) -> None:
    told, go = threading.Event(), threading.Event()

    @app.job(timeout=0.05)
    def hangs(ctx: Context) -> None:
        if ctx.cancelled.wait_sync(5):
            told.set()
        go.wait(5)

    @app.job
    async def other() -> int:
        return 7

    first = await hangs.enqueue()
    second = await other.options(priority=-1).enqueue()
    async with app.worker(concurrency=1):
        assert await asyncio.to_thread(told.wait, 5)
        assert ((await first.get()).state, (await second.get()).state) == ("running", "pending")
        go.set()
        assert await second.result(5) == 7
    assert (await first.get()).history[-1].reason == "timeout"


# Cancelled while it runs


@BOTH
async def test_a_cancelled_handler_is_told_and_its_place_is_free_once_it_ended(app: Tenure, threaded: bool) -> None:
    await app.queue("work").configure(mode="keyed", group_limit=1)
    started, told, go = threading.Event(), threading.Event(), threading.Event()
    reasons: list[str | None] = []

    def plain(ctx: Context, n: int) -> int:
        if n:
            return n
        started.set()
        ctx.cancelled.wait_sync(5)
        reasons.append(ctx.cancelled.reason)
        told.set()
        go.wait(5)
        return n

    async def inline(ctx: Context, n: int) -> int:
        if n:
            return n
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            reasons.append(ctx.cancelled.reason)
            told.set()
            await asyncio.to_thread(go.wait, 5)
            raise
        return n

    work: Any = app.job(name="work", queue="work", group="g", lease=SHORT)(plain if threaded else inline)
    first, second, third = [await work.enqueue(n) for n in range(3)]
    async with app.worker():
        await asyncio.to_thread(started.wait, 5)
        result = await first.cancel()
        assert (result.cancelled, result.was_running) == (True, True)
        await asyncio.to_thread(told.wait, 5)
        assert (await second.get(explain=True)).gates == ("group_limit",), "its handler still runs"
        go.set()
        assert await second.result(5) == 1
        assert await third.result(5) == 2
        with pytest.raises(JobCancelled):
            await first.result(5)
    assert reasons == ["cancelled"]
    kinds = [event.kind async for event in app.events(follow=False) if event.job_id == first.id]
    assert kinds == ["enqueued", "claimed", "cancelled"]


async def test_a_freed_place_is_freed_once(app: Tenure) -> None:
    """Two jobs of the group never run together, though the first was cancelled and confirmed."""
    await app.queue("work").configure(mode="keyed", group_limit=1)
    started = asyncio.Event()
    running, most = 0, 0

    @app.job(queue="work", group="g", lease=SHORT)
    async def work(n: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            if n == 0:
                started.set()
                await asyncio.Event().wait()
            await asyncio.sleep(0)
        finally:
            running -= 1

    handles = [await work.enqueue(n) for n in range(6)]
    async with app.worker() as worker:
        await started.wait()
        await handles[0].cancel()
        await happened(app, "succeeded", job_id=handles[5].id)
        await worker.idle()
    assert most == 1
    assert await claim(app, "work", 10) == []


async def test_a_request_lets_the_handler_decide(app: Tenure) -> None:
    started = [asyncio.Event() for _ in range(3)]

    @app.job(lease=SHORT)
    async def work(ctx: Context, n: int) -> str | None:
        started[n].set()
        reason = await ctx.cancelled.wait()
        if n == 0:
            return reason  # it finished what it did
        if n == 1:
            ctx.check_cancelled()
        raise ValueError("or it just broke")

    handles = [await work.enqueue(n) for n in range(3)]
    async with app.worker():
        for n, handle in enumerate(handles):
            await started[n].wait()
            assert (await handle.cancel(mode="request")).state == "running"
        assert await handles[0].result(5) == "cancel_requested"
        for handle in handles[1:]:
            with pytest.raises(JobCancelled):
                await handle.result(5)


async def test_a_plain_handler_sees_a_request_too(app: Tenure) -> None:
    started = threading.Event()

    @app.job(lease=SHORT)
    def work(ctx: Context) -> None:
        started.set()
        assert ctx.cancelled.wait_sync(5)
        ctx.check_cancelled()

    handle = await work.enqueue()
    async with app.worker():
        await asyncio.to_thread(started.wait, 5)
        await handle.cancel(mode="request")
        with pytest.raises(JobCancelled):
            await handle.result(5)


async def test_a_job_cancelled_after_it_succeeded_here_stays_cancelled(app: Tenure, between: Between) -> None:
    """Cancel wins: the settle on its way is refused, and whoever listens is told."""
    refused: list[Told] = []
    app.on("job_refused")(refused.append)

    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    held = between.hold("exchange")
    async with app.worker():
        await held.came.wait()
        assert (await handle.cancel()).was_running
        held.let_go()
        with pytest.raises(JobCancelled):
            await handle.result(5)
    assert [one.refused for one in refused] == [JobCancelled()]


async def test_a_job_told_to_end_before_it_began_never_begins(app: Tenure) -> None:
    """Its slot is free all the same, although a listener kept it waiting."""
    started, ran = asyncio.Event(), []

    @app.on("job_started")
    async def slow(told: Told) -> None:
        if told.job_type == "work":
            started.set()
            await asyncio.Event().wait()

    @app.job(lease=SHORT)
    async def work() -> None:
        ran.append("work")

    @app.job
    async def other() -> int:
        return 7

    handle = await work.enqueue()
    async with app.worker(concurrency=1) as worker:
        await started.wait()
        await handle.cancel()
        assert await other.call() == 7
        await worker.idle()
    assert ran == []
