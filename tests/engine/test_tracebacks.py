"""Tracebacks: what a failed attempt raised is kept beside its record, wherever the handler ran."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from tenure import Backoff, Context, Fail, Job, Retry, Settings, Snooze, Tenure, Traceback
from tenure.domain import calls
from tenure.domain.job import Failure, NewJob
from tenure.domain.names import MAX_TRACEBACK
from tenure.domain.store import Store
from tenure.engine.worker.exchanger import BATCH_BYTES, Ended, Exchanger, size_of
from tenure.engine.worker.executors import Executors
from tenure.engine.worker.tracebacks import traceback_of
from tests.engine import process_app as jobs
from tests.engine.kit import Between

HERE = __name__
ID = "01900000-0000-7000-8000-000000000001"


class Declined(Exception):
    """Of the shop's own."""


def charge(amount: int) -> None:
    secret = f"card {amount + 4_110}"
    try:
        raise KeyError("limit")
    except KeyError as error:
        if secret:
            raise Declined("no money") from error


async def ended(app: Tenure, function: Callable[..., Any], *, executor: str = "inline", **options: Any) -> Job:
    """The one job of a handler, after its first attempt."""
    job = app.job(executor=executor, retry=Backoff.ladder(9))(function)  # type: ignore[call-overload]  # of any kind
    handle = await job.options(**options).enqueue()
    async with app.worker() as worker:
        await worker.idle()
    return cast(Job, await handle.get(tracebacks=True))


def only(job: Job) -> Traceback:
    assert len(job.tracebacks) == 1, job
    return job.tracebacks[0]


async def in_the_loop() -> None:
    charge(1)


def in_a_thread() -> None:
    charge(1)


@pytest.mark.parametrize(("function", "executor"), [(in_the_loop, "inline"), (in_a_thread, "thread")])
async def test_it_says_what_was_raised_and_where(app: Tenure, function: Any, executor: str) -> None:
    traceback = only(job := await ended(app, function, executor=executor))
    assert (traceback.class_path, traceback.message) == (f"{HERE}.Declined", "no money")
    assert traceback.lease_seq == job.history[-1].lease_seq == 1
    assert "KeyError: 'limit'\n\nThe above exception was the direct cause" in traceback.text
    end = f'in charge\n    raise Declined("no money") from error\n{HERE}.Declined: no money\n'
    assert traceback.text.endswith(end)
    assert job.to_dict()["tracebacks"] == [traceback.to_dict()]


async def test_it_has_neither_the_workers_frames_nor_values_of_local_variables(app: Tenure) -> None:
    text = only(await ended(app, in_a_thread, executor="thread")).text
    assert "in in_a_thread" in text
    assert "tenure/engine/worker" not in text
    assert "card 4111" not in text


async def test_a_payload_that_cant_be_decoded_has_one_too(app: Tenure) -> None:

    @app.job
    async def resize(size: int) -> None: ...

    job = NewJob(tenant="default", id=ID, queue="default", job_type="resize", payload=b'{"size": "large"}')
    await (await app.opened()).enqueue([job])
    async with app.worker() as worker:
        await worker.idle()
    traceback = only(await app.get(ID, tracebacks=True))
    assert traceback.class_path == "tenure.domain.errors.InvalidValue"
    assert traceback.message.startswith("resize(): payload: Expected `int`")


def test_what_the_worker_itself_raises_keeps_its_frames() -> None:
    with pytest.raises(AssertionError) as caught:
        Executors(1, Settings()).of("nowhere")
    assert "in test_what" in traceback_of(caught.value).text
    assert "engine/worker/executors.py" in traceback_of(caught.value).text


@pytest.mark.parametrize("signalled", [Fail, Retry])
async def test_an_ending_that_the_handler_chose_has_one_too(app: Tenure, signalled: type[Fail | Retry]) -> None:
    async def chooses() -> None:
        raise signalled("so be it")

    traceback = only(await ended(app, chooses))
    assert (traceback.class_path, traceback.message) == (f"tenure.engine.signals.{signalled.__name__}", "so be it")


async def test_other_ends_have_none(app: Tenure, between: Between) -> None:
    async def works() -> None: ...

    async def snoozes() -> None:
        raise Snooze(after=60)

    async def called_off(ctx: Context) -> None:
        await ctx.app.cancel(ctx.id)
        await asyncio.Event().wait()

    for function in (works, snoozes, called_off):
        assert (await ended(app, function)).tracebacks == ()


async def test_each_attempt_has_its_own_and_only_who_asks_sees_them(app: Tenure) -> None:
    tries = 0

    @app.job(retry=Backoff.none())
    async def wavers() -> None:
        nonlocal tries
        tries += 1
        raise LookupError(tries)

    handle = await wavers.enqueue()
    async with app.worker() as worker:
        await worker.idle()
    kept = (await app.get(handle.id, tracebacks=True)).tracebacks
    assert [(one.lease_seq, one.message) for one in kept] == [(1, "1"), (2, "2"), (3, "3")]
    assert [one.lease_seq for one in kept] == [one.lease_seq for one in (await handle.get()).history]
    assert (await handle.get()).tracebacks == (await app.get_many([handle.id]))[0].tracebacks == ()  # type: ignore[union-attr]  # it is there
    assert [job.tracebacks for job in await app.jobs()] == [()]
    assert (await asyncio.to_thread(handle.sync.get, tracebacks=True)).tracebacks == kept
    assert (await asyncio.to_thread(app.sync.get, handle.id, tracebacks=True)).tracebacks == kept
    assert (await app.tenant("default").get(handle.id, tracebacks=True)).tracebacks == kept


async def test_a_timeout_says_where_the_handler_hung(app: Tenure) -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    traceback = only(job := await ended(app, hangs, timeout=0.05))
    assert job.history[-1].reason == "timeout"
    assert traceback.class_path == "asyncio.exceptions.CancelledError"
    assert "in hangs\n    await asyncio.Event().wait()" in traceback.text


# What is raised may be anything


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def _deep(n: int) -> None:
    """Frames that Python doesn't fold: no two in a row are alike."""
    (_deep if n % 2 else _deeper)(n - 1)


def _deeper(n: int) -> None:
    if n <= 0:
        raise ValueError("at the bottom")
    _deep(n - 1)


def test_what_is_too_long_is_cut_out_of_the_middle() -> None:
    with pytest.raises(ValueError, match="at the bottom") as caught:
        _deep(300)
    text = traceback_of(caught.value).text
    assert MAX_TRACEBACK - 10 < len(text.encode()) <= MAX_TRACEBACK
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith("ValueError: at the bottom\n")
    assert text.count("bytes left out]") == 1


def test_a_cut_never_goes_through_a_character() -> None:
    for length in range(12_000, 12_004):
        kept = traceback_of(_raised(ValueError("x" + "é" * length)))
        assert len(kept.text.encode()) <= MAX_TRACEBACK
        assert "\ufffd" not in kept.text
        assert len(kept.message.encode()) <= 1_024


@pytest.mark.parametrize(
    ("error", "class_path"),
    [
        (Unprintable(), f"{HERE}.Unprintable"),
        (ValueError("\ud800"), "ValueError"),
        (type("Strange\nName", (Exception,), {"__module__": "m"})("x"), "m.Strange?Name"),
        (type("N" * 500, (Exception,), {"__module__": None})("x"), ("None." + "N" * 500)[:256]),
        (SystemExit(3), "SystemExit"),
    ],
    ids=["unprintable", "surrogate", "strange", "long", "exit"],
)
def test_whatever_is_raised_can_be_kept(error: BaseException, class_path: str) -> None:
    assert traceback_of(_raised(error)).class_path == class_path


def test_an_exception_that_breaks_when_it_is_shown_is_kept_without_a_text() -> None:
    class Broken(Exception):
        def __getattribute__(self, name: str) -> Any:
            if name == "__cause__":
                raise RuntimeError("no cause")
            return super().__getattribute__(name)

    kept = traceback_of(_raised(Broken("x")))
    assert (kept.message, kept.text) == ("x", "")


# In processes


@pytest.fixture
def elsewhere(between: Between, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenure]:
    """The app of a module, so that other processes find it; here it is on the test's store."""
    monkeypatch.setattr(jobs.app, "settings", Settings(pool=1, shutdown_grace=60, cancel_grace=60))
    with jobs.app.on_store(cast(Store, between)):
        yield jobs.app


async def failed_there(app: Tenure, enqueued: Awaitable[Any]) -> Job:
    handle = await enqueued
    async with app.worker() as worker:
        await worker.idle()
    return cast(Job, await handle.get(tracebacks=True))


@pytest.mark.parametrize("process", [jobs.plain, jobs.on_a_loop], ids=["plain", "async"])
async def test_a_handlers_process_tells_what_was_raised_there(elsewhere: Tenure, process: Any) -> None:
    """As plain data: no class is looked for here."""
    job = await failed_there(elsewhere, process.options(retry=Backoff.ladder(9)).enqueue("own after"))
    traceback = only(job)
    assert (traceback.class_path, traceback.message) == ("tests.engine.process_app.WithAfter", "x")
    assert "raise ERRORS[name]()\ntests.engine.process_app.WithAfter: x\n" in traceback.text
    assert "tenure/engine/worker" not in traceback.text


async def test_a_permanent_failure_there_keeps_its_own_class(elsewhere: Tenure) -> None:
    traceback = only(await failed_there(elsewhere, jobs.plain.enqueue("own fail")))
    assert traceback.class_path == "tests.engine.process_app.OwnFail"


async def test_a_process_that_died_told_nothing(elsewhere: Tenure, tmp_path: Any) -> None:
    job = await failed_there(elsewhere, jobs.dies_and_leaves.enqueue(str(tmp_path)))
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert (job.last_error and job.last_error.family, job.tracebacks) == ("Crashed", ())


# Many at once


async def test_a_flush_carries_no_more_bytes_than_it_may(app: Tenure, between: Between) -> None:
    """500 attempts fail together, each with as long a traceback as there can be."""
    count, begun, all_begun = 500, 0, asyncio.Event()

    @app.job(retry=Backoff.ladder(9))
    async def fails() -> None:
        nonlocal begun
        begun += 1
        if begun == count:
            all_begun.set()
        await all_begun.wait()
        raise ValueError("x" * MAX_TRACEBACK)

    handles = await app.enqueue_many([fails.build() for _ in range(count)])
    async with app.worker(concurrency=count + 100) as worker:
        await worker.idle()
    flushes = [args[0] for verb, args in between.calls if verb in ("settle", "exchange")]
    assert sum(len(flush) for flush in flushes) == count
    sizes = [sum(size_of(one.outcome) for one in flush) for flush in flushes]
    assert max(sizes) <= BATCH_BYTES < sum(sizes)
    store = await app.opened()
    views = await store.get([("default", one.id) for one in handles], calls.Reading(tracebacks=True))
    assert {len(view.tracebacks) for view in views if isinstance(view, calls.JobView)} == {1}


async def test_a_flush_is_full_by_its_bytes_and_carries_one_at_least(app: Tenure) -> None:
    large, small = calls.Succeed(bytes(1 << 16)), calls.Succeed()
    job = NewJob(tenant="t", id=ID, queue="q", job_type="j", payload=bytes(1 << 18))
    async with app.worker(["default"]) as worker:
        await worker.idle()
        assert worker._parts is not None
        exchanger = worker._parts.exchanger
        assert flushes(exchanger, [large] * 65 + [small] * 9) == [64, 10]
        assert flushes(exchanger, [small] * 501) == [500, 1]
        assert flushes(exchanger, [calls.Succeed(jobs=(job,) * 17), small, small]) == [1, 2]
        assert flushes(exchanger, [calls.Fail(Failure("E")), calls.Release(), small]) == [3]


def flushes(exchanger: Exchanger, outcomes: Sequence[calls.Outcome]) -> list[int]:
    """How many of the ends that wait together leave with each call."""
    nobody = cast(Any, None)
    exchanger._ended.extend(Ended(calls.Settle(nobody, outcome), nobody) for outcome in outcomes)
    found = []
    while exchanger._ended:
        found.append(len(exchanger._next_batch()))
    return found
