"""Hooks and middleware: told in order, and harmless when they break."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenure import Context, Fail, InvalidValue, JobFailed, Retry, Tenure
from tenure.domain.calls import Succeed
from tenure.engine.hooks import Next, Told


async def test_a_jobs_hooks_come_in_order(app: Tenure) -> None:
    told: list[Told] = []
    for hook in ("worker_started", "job_started", "job_ended", "job_settled", "job_refused", "worker_stopped"):
        app.on(hook)(told.append)

    @app.job(queue="mail")
    async def work(n: int) -> int:
        return n

    async with app.worker(name="w1"):
        handle = await work.options(tenant="acme").enqueue(7)
        assert await handle.result(5) == 7
    assert [one.hook for one in told] == ["worker_started", "job_started", "job_ended", "job_settled", "worker_stopped"]
    assert {one.worker for one in told} == {"w1"}
    started, ended, settled = told[1:4]
    assert (started.tenant, started.job_id, started.job_type, started.queue) == ("acme", handle.id, "work", "mail")
    assert (started.attempt, started.run_seconds, started.outcome) == (1, None, None)
    assert ended.outcome == Succeed(b"7")
    assert (settled.outcome, settled.refused) == (Succeed(b"7"), None)
    assert ended.run_seconds is not None
    assert 0 <= ended.run_seconds < 5


async def test_a_listener_may_wait_and_may_break(app: Tenure, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    @app.on("job_ended")
    async def breaks(told: Told) -> None:
        raise RuntimeError("a broken listener")

    @app.on("job_ended")
    async def waits(told: Told) -> None:
        await asyncio.sleep(0)
        heard.append("waited")

    @app.on("job_started")
    def breaks_too(told: Told) -> None:
        raise RuntimeError("another")

    @app.job
    async def work() -> int:
        return 1

    with caplog.at_level(logging.ERROR, "tenure.hooks"):
        async with app.worker():
            assert await work.call() == 1
    assert heard == ["waited"]
    assert [record.getMessage() for record in caplog.records] == [
        "a listener of job_started failed",
        "a listener of job_ended failed",
    ]


def test_a_hook_that_doesnt_exist_is_refused(app: Tenure) -> None:
    with pytest.raises(InvalidValue, match="hook 'job_done': give one of worker_started, "):
        app.on("job_done")(lambda told: None)


async def test_middlewares_stand_around_the_handler_the_first_outermost(app: Tenure) -> None:
    trail: list[str] = []

    @app.middleware
    async def outer(ctx: Context, call_next: Next) -> Any:
        trail.append(f"outer in {ctx.job_type}")
        result = await call_next()
        trail.append("outer out")
        return result + 100

    @app.middleware
    async def inner(ctx: Context, call_next: Next) -> Any:
        trail.append("inner in")
        try:
            return await call_next() * 2
        finally:
            trail.append("inner out")

    @app.job
    async def work(n: int) -> int:
        trail.append("handler")
        return n

    @app.job
    def threaded(n: int) -> int:
        trail.append("handler")
        return n

    async with app.worker():
        assert await work.call(7) == 114
        assert await threaded.call(8) == 116
    way = ["inner in", "handler", "inner out", "outer out"]
    assert trail == ["outer in work", *way, "outer in threaded", *way]
    trail.clear()
    assert await app.execute_now(work.build(1)) == 102
    assert trail == ["outer in work", *way]


async def test_a_middleware_may_answer_itself_or_turn_an_error_into_another(app: Tenure) -> None:
    @app.middleware
    async def guard(ctx: Context, call_next: Next) -> Any:
        if ctx.labels.get("skip"):
            return -1
        try:
            return await call_next()
        except ZeroDivisionError as error:
            raise Fail("never divide by zero") from error

    @app.job
    async def divide(n: int) -> int:
        return 10 // n

    async with app.worker():
        assert await divide.call(2) == 5
        assert await divide.options(labels={"skip": "yes"}).call(0) == -1
        with pytest.raises(JobFailed, match="never divide by zero"):
            await divide.call(0)


async def test_a_middleware_that_breaks_costs_the_attempt_only(app: Tenure) -> None:
    @app.middleware
    async def breaks(ctx: Context, call_next: Next) -> Any:
        raise Retry("not today", after=60)

    @app.job
    async def work() -> None: ...

    handle = await work.enqueue()
    async with app.worker() as worker:
        await worker.idle()
    job = await handle.get()
    assert (job.status, job.attempt) == ("retrying", 1)


# Lifespan


async def test_what_the_lifespan_gives_is_the_handlers_state(app: Tenure) -> None:
    trail: list[str] = []

    @app.lifespan
    async def services() -> AsyncIterator[dict[str, int]]:
        trail.append("up")
        yield {"answer": 42}
        trail.append("down")

    @app.job
    async def work(ctx: Context) -> int:
        trail.append("work")
        answer: int = ctx.state["answer"]
        return answer

    async with app.worker():
        assert await work.call() == 42
        assert await work.call() == 42
    assert trail == ["up", "work", "work", "down"]
    assert await app.execute_now(work.build()) == 42


async def test_a_lifespan_may_take_the_app_and_be_a_context_manager(app: Tenure) -> None:
    @app.lifespan
    @asynccontextmanager
    async def services(given: Tenure) -> AsyncIterator[Tenure]:
        yield given

    @app.job
    async def work(ctx: Context) -> bool:
        return ctx.state is ctx.app

    async with app.worker():
        assert await work.call()
    with pytest.raises(InvalidValue, match="lifespan: there is one already"):
        app.lifespan(services)


async def test_a_lifespan_that_breaks_keeps_the_worker_from_starting(app: Tenure) -> None:
    @app.lifespan
    async def services() -> AsyncIterator[None]:
        if app.definitions:
            raise ConnectionError("no database")
        yield

    @app.job
    async def work() -> None: ...

    handle = await work.enqueue()
    with pytest.raises(ConnectionError, match="no database"):
        async with app.worker():
            raise AssertionError("it must not start")
    assert (await handle.get()).state == "pending"


async def test_a_lifespan_ends_after_the_last_job(app: Tenure) -> None:
    trail: list[str] = []
    started = asyncio.Event()

    @app.lifespan
    async def services() -> AsyncIterator[None]:
        yield
        trail.append("down")

    @app.job
    async def work(ctx: Context) -> None:
        started.set()
        await ctx.cancelled.wait()
        await asyncio.sleep(0)
        trail.append("done")

    await work.enqueue()
    async with app.worker():
        await started.wait()
    assert trail == ["done", "down"]
