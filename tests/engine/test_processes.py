"""Handlers in processes of their own: they end as any other, and their process is theirs alone while they run."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

import pytest

from tenure import Backoff, Context, Job, JobFailed, Settings, Tenure
from tenure.domain.store import Store
from tenure.engine.hooks import Next
from tests.engine import process_app as jobs
from tests.engine.kit import Between
from tests.engine.process_jobs import of_another_module

PATIENCE = 60
ONE = Settings(pool=1, shutdown_grace=0, cancel_grace=5)


@pytest.fixture
def settings() -> Settings:
    return Settings(pool=1, shutdown_grace=PATIENCE, cancel_grace=PATIENCE)


@pytest.fixture
def app(between: Between, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenure]:
    """The app of a module, so that other processes find it; here it is on the test's store."""
    monkeypatch.setattr(jobs.app, "settings", settings)
    with jobs.app.on_store(cast(Store, between)):
        yield jobs.app


async def there(path: Path) -> None:
    """Waits for a file that another process makes."""
    while not path.exists():
        await asyncio.sleep(0.01)


def fate(job: Job) -> tuple[Any, ...]:
    return job.status, job.attempt, job.run_at, job.reason, job.last_error, [one.reason for one in job.history]


@pytest.mark.parametrize("process", [jobs.plain, jobs.on_a_loop], ids=["plain", "async"])
async def test_whatever_is_raised_ends_the_job_as_it_does_inline(app: Tenure, process: Any) -> None:
    policy = Backoff.ladder(7)
    there = [await process.options(retry=policy).enqueue(name) for name in jobs.ERRORS]
    here = [await jobs.inline.options(retry=policy).enqueue(name) for name in jobs.ERRORS]
    async with app.worker() as worker:
        await worker.idle()
    for name, one, other in zip(jobs.ERRORS, there, here, strict=True):
        assert (name, fate(await one.get())) == (name, fate(await other.get()))


@pytest.mark.parametrize("job", [jobs.makes, jobs.makes_plainly], ids=["async", "plain"])
async def test_what_a_handler_makes_is_its_tenants(app: Tenure, job: Any) -> None:
    async with app.worker():
        assert await job.options(tenant="acme").call() == "acme"
        assert await job.call() == "default"


async def test_a_job_is_found_by_the_app_that_includes_it(app: Tenure) -> None:
    async with app.worker():
        assert await of_another_module.call() == "found"


async def test_a_result_that_cant_be_kept_fails_its_job(app: Tenure) -> None:
    handle = await jobs.unkept.enqueue()
    async with app.worker() as worker:
        await worker.idle()
    job = await handle.get()
    assert (job.state, job.reason) == ("failed", "invalid_result")
    assert job.last_error is not None
    assert job.last_error.message == "the result of unkept can't be kept: no way to write 7"


async def test_a_copy_that_comes_back_says_nothing(app: Tenure) -> None:
    """Else the next handler of the process would get its answer."""
    async with app.worker():
        assert [await jobs.forks.call() for _ in range(3)] == ["parent"] * 3
        assert isinstance(await jobs.number.call(), int)


async def test_a_process_that_died_is_missed_whatever_it_left_behind(app: Tenure, tmp_path: Path) -> None:
    handle = await jobs.dies_and_leaves.enqueue(str(tmp_path))
    try:
        async with app.worker():
            with pytest.raises(JobFailed, match="killed by SIGKILL"):
                await handle.result(PATIENCE)
    finally:
        os.kill(int((tmp_path / "left").read_text(encoding="ascii")), signal.SIGKILL)


async def test_a_transaction_is_refused_with_the_reason(app: Tenure) -> None:
    async with app.worker():
        assert "use executor='inline'" in await jobs.in_a_transaction.call()


async def test_an_interrupt_of_the_terminal_is_the_workers_affair(app: Tenure) -> None:
    async with app.worker():
        process = await jobs.number.call()
        os.kill(process, signal.SIGINT)
        assert await jobs.number.call() == process


@pytest.mark.parametrize("job", [jobs.sets_a_variable, jobs.sets_one_on_a_loop], ids=["plain", "async"])
async def test_what_a_handler_sets_in_a_context_variable_is_gone_with_it(app: Tenure, job: Any) -> None:
    async with app.worker():
        assert [await job.call() for _ in range(3)] == [None] * 3


async def test_a_process_keeps_nothing_of_the_job_that_it_was_started_for(
    app: Tenure, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[weakref.ref[frozenset[str]]] = []
    variable: ContextVar[Any] = ContextVar("set for a job")

    async def sets(ctx: Context, call_next: Next) -> Any:
        value = frozenset({ctx.id})
        variable.set(value)
        kept.append(weakref.ref(value))
        return await call_next()

    monkeypatch.setattr(app, "middlewares", [sets])
    async with app.worker() as worker:
        await jobs.number.enqueue()
        await worker.idle()
        gc.collect()
        assert [value() for value in kept] == [None]


# Told to end


@pytest.mark.parametrize("job", [jobs.told, jobs.told_plainly], ids=["async", "plain"])
async def test_a_handler_is_told_of_the_shutdown(app: Tenure, tmp_path: Path, job: Any) -> None:
    handle = await job.enqueue(str(tmp_path))
    async with app.worker():
        await there(tmp_path / "started")
    assert await handle.result(0) == "shutdown"


@pytest.mark.parametrize("settings", [ONE])
async def test_what_is_saved_when_it_is_broken_off_counts(app: Tenure, tmp_path: Path) -> None:
    handle = await jobs.broken_off.enqueue(str(tmp_path))
    async with app.worker():
        await there(tmp_path / "started")
    assert await handle.result(0) == "saved: shutdown"


@pytest.mark.parametrize("settings", [Settings(pool=1, shutdown_grace=0, cancel_grace=0.2)])
async def test_one_that_hears_nothing_is_killed_and_given_back(app: Tenure, tmp_path: Path) -> None:
    handle = await jobs.deaf.enqueue(str(tmp_path))
    async with app.worker():
        await there(tmp_path / "started")
    job = await handle.get()
    assert (job.status, job.attempt, job.history[-1].reason) == ("ready", 0, "shutdown")


@pytest.mark.parametrize("settings", [Settings(pool=1, shutdown_grace=PATIENCE, cancel_grace=0.2)])
async def test_one_that_is_told_twice_keeps_its_process_until_it_ends(app: Tenure, tmp_path: Path) -> None:
    """Else the next handler would get its answer."""
    await jobs.deaf.enqueue(str(tmp_path))
    async with app.worker() as worker:
        await there(tmp_path / "started")
        assert worker._parts is not None
        (hand,) = worker._parts.hands
        assert hand.task is not None
        hand.task.cancel()
        await asyncio.sleep(0)
        hand.task.cancel()
        assert isinstance(await jobs.number.call(), int)


def test_a_process_ends_with_a_worker_that_had_not_heard_it_out() -> None:
    """A line that is closed with something unread in it is a reset for the other end, not an end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-m", "tenure.engine.worker.processes.child", str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        assert ours.recv(1, socket.MSG_PEEK)
        ours.close()
    try:
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
