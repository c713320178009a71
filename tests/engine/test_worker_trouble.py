"""A worker in trouble: leases that are lost, a store that is away, answers that don't come. It resumes, and never
settles what may be someone else's.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tenure import Backoff, Context, JobFailed, OutcomeUnknown, Settings, Tenure
from tenure.domain.calls import Claim, Renewal, Settle, Succeed
from tenure.domain.errors import LeaseLost, StoreUnavailable
from tenure.domain.store import Store
from tenure.engine.hooks import Told
from tenure.engine.worker import exchanger
from tenure.engine.worker.sweeper import Sweeper
from tenure.stores.memory import MemoryStore
from tenure.testing.clock import ManualClock
from tests.engine.kit import Between, Meddle, claim, happened

SHORT = 0.5
"""Seconds: a lease that is soon renewed, and soon lost."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanger, "RETRY_SECONDS", (0.01, 0.05))


class Watched:
    """A handler that waits, and what became of it."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self.go = asyncio.Event()
        self.reason: str | None = None
        self.cancelled = False

    async def run(self, ctx: Context) -> int:
        self.started.set()
        try:
            await self.go.wait()
            return 1
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.reason = ctx.cancelled.reason
            self.ended.set()


async def settled(between: Between) -> list[str]:
    """What was sent to be settled, by tag."""
    sent = [one for verb, args in between.calls if verb in ("settle", "exchange") for one in args[0]]
    return [one.outcome.tag for one in sent if isinstance(one, Settle)]


# Leases


async def test_a_lease_that_is_refused_ends_the_handler_and_settles_nothing(app: Tenure, between: Between) -> None:
    watched = Watched()

    @app.job(lease=SHORT)
    async def work(ctx: Context) -> int:
        return await watched.run(ctx)

    async def refused(verb: Meddle, renewals: Sequence[Renewal]) -> list[Any]:
        return [LeaseLost() for _ in renewals]

    await work.enqueue()
    between.meddle["renew"] = refused
    async with app.worker() as worker:
        await watched.ended.wait()
        await worker.idle()
    assert (watched.cancelled, watched.reason) == (True, "lease_lost")
    assert await settled(between) == []


async def test_a_lease_that_cant_be_renewed_in_time_ends_the_handler_at_its_deadline(
    app: Tenure, between: Between
) -> None:
    """Counted from when the claim was sent; after it the job may be someone else's."""
    watched = Watched()

    @app.job(lease=SHORT)
    async def work(ctx: Context) -> int:
        return await watched.run(ctx)

    handle = await work.enqueue()
    between.fail("renew", times=1_000)
    async with app.worker() as worker:
        await watched.started.wait()
        await watched.ended.wait()
        assert (watched.cancelled, watched.reason) == (True, "lease_lost")
        await worker.idle()
    assert await settled(between) == []
    assert len(between.of("renew")) > 3, "it was tried again and again"
    assert (await handle.get()).state == "running"


async def test_a_renewal_that_fails_once_costs_nothing_not_even_its_progress(app: Tenure, between: Between) -> None:
    watched = Watched()

    @app.job(lease=SHORT)
    async def work(ctx: Context) -> int:
        await ctx.progress(0.5, "half")
        return await watched.run(ctx)

    handle = await work.enqueue()
    over = between.fail("renew", times=2)
    async with app.worker():
        await over.wait()
        await happened(app, "progress", progress=0.5)
        watched.go.set()
        assert await handle.result(5) == 1
    assert not watched.cancelled


@pytest.mark.parametrize("error", [ValueError("a bug"), OutcomeUnknown()], ids=["bug", "unknown"])
async def test_whatever_a_renewal_raises_the_next_one_comes(app: Tenure, between: Between, error: Exception) -> None:
    watched = Watched()

    @app.job(lease=SHORT)
    async def work(ctx: Context) -> int:
        return await watched.run(ctx)

    async def fails_once(verb: Meddle, renewals: Sequence[Renewal]) -> Any:
        if len(between.of("renew")) == 1:
            raise error
        return await verb(renewals)

    handle = await work.enqueue()
    between.meddle["renew"] = fails_once
    async with app.worker():
        await between.called("renew", 3)
        watched.go.set()
        assert await handle.result(5) == 1
    assert not watched.cancelled


async def test_progress_that_isnt_text_breaks_no_renewal(app: Tenure, between: Between) -> None:
    @app.job(lease=SHORT)
    async def work(ctx: Context) -> int:
        ctx.report(0.5, "half \ud800")
        return await watched.run(ctx)

    watched = Watched()
    handle = await work.enqueue()
    async with app.worker():
        await happened(app, "progress", progress=0.5)
        progress = (await handle.get()).progress
        assert progress is not None
        assert progress.message == "half ?"
        watched.go.set()
        assert await handle.result(5) == 1


async def test_a_lost_job_is_run_again_by_whoever_sweeps_it(app: Tenure, clock: ManualClock) -> None:
    """Its worker never came back: the lease and its grace pass, and the next attempt gets a larger fence."""

    @app.job
    async def work(ctx: Context) -> tuple[int, int]:
        return ctx.attempt, ctx.fence.lease_seq

    handle = await work.enqueue()
    await claim(app)
    clock.advance(65_000)
    await app.fleet.sweep()
    assert (await handle.get()).state == "running"
    clock.advance(1)
    await app.fleet.sweep()
    async with app.worker():
        assert await handle.result(5) == (2, 2)
    assert [one.outcome for one in (await handle.get()).history] == ["lease_lost", "succeeded"]


# A store that is away


@pytest.mark.parametrize("settings", [Settings(poll=0.02, poll_at_most=0.05)])
@pytest.mark.parametrize("verb", ["claim", "exchange", "sweep", "wait"])
async def test_a_store_that_fails_for_a_while_is_waited_for(app: Tenure, between: Between, verb: str) -> None:
    @app.job(lease=60)
    async def work(n: int) -> int:
        return n

    handles = await app.enqueue_many([work.build(n) for n in range(10)])
    async with app.worker(concurrency=3, lease=SHORT) as worker:
        over = between.fail(verb, times=4)
        assert [await handle.result(5) for handle in handles] == list(range(10))
        await over.wait()
        await worker.idle()
    assert [(await handle.get()).attempt for handle in handles] == [1] * 10


async def test_a_store_that_is_away_at_the_start_keeps_the_worker_from_starting(app: Tenure, between: Between) -> None:
    @app.job
    async def work() -> None: ...

    between.fail("list_documents", "put_document", times=1_000)
    with pytest.raises(StoreUnavailable, match="the store is away"):
        async with app.worker():
            raise AssertionError("it must not start")


async def test_an_unknown_claim_is_asked_again_before_a_new_one(app: Tenure, between: Between) -> None:
    """The store gave out jobs and its answer was lost: the same claim gives the same jobs, and no attempt is spent."""

    @app.job(max_attempts=1)
    async def work(n: int) -> int:
        return n

    async def lost(verb: Meddle, request: Claim) -> Any:
        answer = await verb(request)
        if len(between.of("claim")) < 3:
            raise OutcomeUnknown()
        return answer

    handles = await app.enqueue_many([work.build(n) for n in range(5)])
    between.meddle["claim"] = lost
    async with app.worker() as worker:
        assert [await handle.result(5) for handle in handles] == list(range(5))
        await worker.idle()
    first, second, third, *others = between.of("claim")
    assert first == second == third
    used = [request.claim_id for request in others] + [args[1].claim_id for v, args in between.calls if v == "exchange"]
    assert first.claim_id not in used
    assert [(await handle.get()).attempt for handle in handles] == [1] * 5


async def test_jobs_claimed_after_a_long_outage_are_run(app: Tenure, between: Between) -> None:
    """Their lease counts from the claim that was answered, not from the first one that wasn't."""
    ran: list[int] = []

    @app.job(lease=SHORT, max_attempts=1)
    async def work(n: int) -> None:
        ran.append(n)

    async def away(verb: Meddle, request: Claim) -> Any:
        if loop.time() < back_at:
            raise StoreUnavailable("the store is away")
        return await verb(request)

    loop = asyncio.get_running_loop()
    back_at = loop.time() + 2 * SHORT
    handle = await work.enqueue(7)
    between.meddle["claim"] = away
    async with app.worker(lease=SHORT):
        await handle.result(10)
    assert ran == [7]
    assert [one.outcome for one in (await handle.get()).history] == ["succeeded"]


async def test_a_job_whose_claim_was_answered_too_late_is_given_back_unrun(
    app: Tenure, between: Between, clock: ManualClock
) -> None:
    """The first answer was lost for longer than the lease: nobody may start what may be someone else's."""
    ran: list[int] = []

    @app.job(max_attempts=1)
    async def work(n: int) -> int:
        ran.append(n)
        return n

    async def lost(verb: Meddle, request: Claim) -> Any:
        answer = await verb(request)
        if len(between.of("claim")) == 1:
            clock.advance(62_000)  # the lease is over, its grace is not
            raise OutcomeUnknown()
        return answer

    handle = await work.enqueue(7)
    between.meddle["claim"] = lost
    async with app.worker():
        assert await handle.result(5) == 7
    job = await handle.get()
    assert [(one.outcome, one.reason) for one in job.history] == [("released", "late"), ("succeeded", "ok")]
    assert job.attempt == 1
    assert ran == [7]


async def test_an_outcome_past_its_deadline_isnt_sent(app: Tenure, between: Between) -> None:
    told: list[Told] = []
    gave_up, back = asyncio.Event(), asyncio.Event()

    @app.on("job_refused")
    def refused(one: Told) -> None:
        told.append(one)
        gave_up.set()

    @app.job(lease=SHORT)
    async def work() -> int:
        return 1

    async def away(verb: Meddle, *args: Any) -> Any:
        if not back.is_set():
            raise StoreUnavailable("the store is away")
        return await verb(*args)

    handle = await work.enqueue()
    async with app.worker() as worker:
        between.meddle |= dict.fromkeys(("settle", "exchange", "renew"), away)
        await gave_up.wait()
        back.set()
        before = len(await settled(between))
        await worker.idle()
        assert len(await settled(between)) == before
    assert [type(one.refused).__name__ for one in told] == ["LeaseExpired"]
    assert (await handle.get()).state == "running", "sweep will take it"


async def test_a_settle_whose_answer_was_lost_is_asked_again_and_counts_once(app: Tenure, between: Between) -> None:
    @app.job
    async def work(n: int) -> int:
        return n

    losses = 0

    async def lost(verb: Meddle, settles: Sequence[Settle], *request: Claim) -> Any:
        nonlocal losses
        answer = await verb(settles, *request)
        losses += 1
        if losses <= 2:
            raise OutcomeUnknown()
        return answer

    between.meddle |= {"exchange": lost, "settle": lost}
    async with app.worker() as worker:
        handles = await app.enqueue_many([work.build(n) for n in range(10)])
        assert [await handle.result(5) for handle in handles] == list(range(10))
        await worker.idle()
    kinds = [event.kind async for event in app.events(follow=False)]
    assert kinds.count("succeeded") == 10  # type: ignore[arg-type]  # a StrEnum


async def test_an_outcome_whose_data_breaks_the_batch_fails_its_own_job_only(
    app: Tenure, between: Between, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job
    async def work(n: int) -> int:
        return n

    async def poisoned(verb: Meddle, settles: Sequence[Settle], *request: Claim) -> Any:
        if any(isinstance(one.outcome, Succeed) and one.outcome.result == b"13" for one in settles):
            raise ValueError("thirteen")
        return await verb(settles, *request)

    between.meddle |= {"exchange": poisoned, "settle": poisoned}
    handles = await app.enqueue_many([work.build(n) for n in range(10, 16)])
    with caplog.at_level(logging.CRITICAL):
        async with app.worker():
            for n, handle in zip(range(10, 16), handles, strict=True):
                if n == 13:
                    with pytest.raises(JobFailed, match=r"\(invalid_outcome\): InvalidOutcome: .*thirteen"):
                        await handle.result(5)
                else:
                    assert await handle.result(5) == n


async def test_a_frozen_store_is_waited_for(app: Tenure, between: Between) -> None:
    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    store = await app.opened()
    await store.freeze()
    async with app.worker():
        await between.called("claim", 2)
        assert (await handle.get()).status == "ready"
        await store.thaw()
        assert await handle.result(5) == 1


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=0, cancel_grace=1)])
async def test_a_loop_that_breaks_ends_the_worker_loudly(app: Tenure, between: Between) -> None:
    """Whoever runs it learns why, and what it had in hand is given back."""
    watched = Watched()

    @app.job
    async def work(ctx: Context) -> int:
        return await watched.run(ctx)

    async def buggy(verb: Meddle, *args: Any) -> Any:
        await watched.started.wait()
        raise ZeroDivisionError("a bug in the store")

    handle = await work.enqueue()
    between.meddle["sweep"] = buggy
    with pytest.raises(ZeroDivisionError, match="a bug in the store"):
        await app.worker().run()
    assert watched.cancelled
    job = await handle.get()
    assert (job.status, job.attempt) == ("ready", 0)


# The clock of the store


async def test_a_clock_that_jumped_ahead_takes_no_lease(clock: ManualClock) -> None:
    store: Store = MemoryStore(clock=clock)
    app = Tenure(store=store)

    @app.job
    async def work() -> None: ...

    handle = await work.enqueue()
    await claim(app)
    sweeper = Sweeper(store, 60)
    await sweeper._sweep()
    clock.advance(3_600_000)
    await sweeper._sweep()
    assert (await handle.get()).state == "running", "the clock jumped: its holder may well be alive"
    assert [event.kind async for event in app.fleet.events(follow=False)][-1] == "clock_jump"
    clock.advance(60_000)
    await Sweeper(store, 60)._sweep()
    assert (await handle.get()).status == "ready"


async def test_a_store_that_was_silent_takes_no_lease_for_a_while(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could renew meanwhile."""
    monkeypatch.setattr("tenure.engine.worker.sweeper.JUMP_SECONDS", -30.0)
    store: Store = MemoryStore(clock=clock)
    app = Tenure(store=store)
    handle = await app.send("work")
    await claim(app)
    await store.sweep(0)
    clock.advance(66_000)
    await Sweeper(store, 60)._sweep()
    assert (await handle.get()).state == "running"


@pytest.mark.parametrize("settings", [Settings(shutdown_grace=0, cancel_grace=1)])
async def test_retries_go_on_after_an_outage(app: Tenure, between: Between) -> None:
    @app.job(retry=Backoff.none(), max_attempts=3)
    async def work(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError
        return ctx.attempt

    handle = await work.enqueue()
    over = between.fail("claim", "exchange", times=4)
    async with app.worker():
        await over.wait()
        assert await handle.result(5) == 3
