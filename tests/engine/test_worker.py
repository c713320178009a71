"""The worker: what it takes, how much at once, and what its handlers know and may ask."""

import asyncio
import gc
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tenure import Backoff, Context, Fail, InvalidValue, JobFailed, ResultTimeout, Settings, Tenure
from tenure.domain.calls import Renewal
from tenure.domain.errors import NotReady
from tenure.domain.job import Progress
from tenure.domain.names import DAY
from tenure.engine.job_types import JobTypeCard
from tenure.engine.worker.hand import Hand
from tenure.engine.worker.presence import WorkerCard
from tenure.engine.worker.worker import Worker
from tenure.testing.clock import ManualClock
from tests.engine.kit import REAL, Between, Meddle, happened


class Crowd:
    """Handlers that wait together: how many run at once, by name."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.go = asyncio.Event()
        self._changed = asyncio.Condition()

    async def join(self, name: str) -> None:
        self.running[name] += 1
        self.most[name] = max(self.most[name], self.running[name])
        async with self._changed:
            self._changed.notify_all()
        await self.go.wait()
        self.running[name] -= 1

    async def reached(self, **counts: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: all(self.running[name] >= count for name, count in counts.items()))


async def test_async_and_plain_handlers_run(app: Tenure) -> None:
    home = threading.get_ident()

    @app.job
    async def inline(n: int) -> tuple[int, bool]:
        return n, threading.get_ident() == home

    @app.job
    def threaded(n: int) -> tuple[int, bool]:
        return n, threading.get_ident() == home

    async with app.worker():
        assert await inline.call(1) == (1, True)
        assert await threaded.call(2) == (2, False)


async def test_no_more_than_its_concurrency(app: Tenure, between: Between) -> None:
    crowd = Crowd()

    @app.job
    async def work() -> None:
        await crowd.join("work")

    handles = await app.enqueue_many([work.build() for _ in range(20)])
    async with app.worker(concurrency=4):
        await crowd.reached(work=4)
        assert [(await handle.get()).state for handle in handles] == ["running"] * 4 + ["pending"] * 16, "no prefetch"
        crowd.go.set()
        await asyncio.gather(*(handle.result(5) for handle in handles))
    assert crowd.most["work"] == 4
    assert max(request.n for request in between.of("claim")) == 4


async def test_no_more_of_a_queue_than_its_share(app: Tenure) -> None:
    """And while a queue is full here, the worker goes on with the others and with everything else it does."""
    crowd = Crowd()

    @app.job(queue="video")
    async def render() -> None:
        await crowd.join("video")

    @app.job(queue="mail")
    async def send() -> None:
        await crowd.join("mail")

    @app.job(queue="mail")
    async def last() -> int:
        return 7

    await app.enqueue_many([render.build() for _ in range(6)] + [send.build() for _ in range(6)])
    async with app.worker({"video": 2, "mail": 3}, concurrency=50) as worker:
        await crowd.reached(video=2, mail=3)
        later = await last.enqueue()
        with pytest.raises(ResultTimeout):
            await later.result(0.6)  # longer than a poll
        crowd.go.set()
        assert await later.result(5) == 7
        await worker.idle()
    assert crowd.most == {"video": 2, "mail": 3}
    assert await app.jobs(state=["pending", "running"]) == []


async def test_only_the_queues_and_tenants_it_serves(app: Tenure) -> None:
    ran: list[tuple[str, str]] = []

    @app.job
    async def work(ctx: Context) -> None:
        ran.append((ctx.tenant, ctx.queue))

    for tenant in ("acme", "bolt"):
        for queue in ("mail", "video"):
            await work.options(tenant=tenant, queue=queue).enqueue()
    async with app.worker(["mail"], tenants=["acme"]) as worker:
        await worker.idle()
    assert ran == [("acme", "mail")]
    async with app.worker(["mail", "video"]) as worker:
        await worker.idle()
    assert sorted(ran) == [("acme", "mail"), ("acme", "video"), ("bolt", "mail"), ("bolt", "video")]


def test_a_worker_without_queues_says_what_to_do() -> None:
    with pytest.raises(NotReady, match="declare a job, or give queues="):
        Tenure("memory://").worker()


async def test_a_worker_that_hasnt_started_cant_be_waited_for(app: Tenure) -> None:
    with pytest.raises(NotReady, match=r"use it inside `async with app.worker"):
        await app.worker(["mail"]).idle()


# Looking for work


@pytest.mark.parametrize("settings", [Settings(poll=60, poll_at_most=60)])
async def test_a_hint_wakes_an_idle_worker(app: Tenure) -> None:
    @app.job
    async def work(n: int) -> int:
        return n

    async with app.worker() as worker:
        await worker.idle()
        assert await work.call(1) == 1
        await worker.idle()
        assert await work.call(2) == 2


@pytest.mark.parametrize("settings", [Settings(poll=60, poll_at_most=60)])
async def test_a_hint_that_comes_while_a_claim_is_on_its_way_isnt_lost(app: Tenure, between: Between) -> None:
    looked, go = asyncio.Event(), asyncio.Event()

    async def slow_answer(verb: Meddle, *args: Any) -> Any:
        claimed = await verb(*args)
        looked.set()
        await go.wait()
        return claimed

    @app.job
    async def work() -> int:
        return 1

    between.meddle["claim"] = slow_answer
    async with app.worker():
        await looked.wait()
        handle = await work.enqueue()
        await happened(app, "enqueued")
        go.set()
        assert await handle.result(5) == 1


@pytest.mark.parametrize("settings", [Settings(poll=0.02, poll_at_most=0.05)])
async def test_without_hints_it_looks_itself(app: Tenure, between: Between) -> None:
    async def deaf(verb: Meddle, topics: Any, timeout_seconds: float) -> bool:
        await asyncio.sleep(timeout_seconds)
        return False

    between.meddle["wait"] = deaf

    @app.job
    async def work(n: int) -> int:
        return n

    async with app.worker() as worker:
        await worker.idle()
        assert await work.call(1) == 1


@pytest.mark.parametrize("clock", [REAL])
@pytest.mark.parametrize("settings", [Settings(poll=60, poll_at_most=60)])
async def test_it_sleeps_until_the_next_job_is_due(app: Tenure, between: Between) -> None:
    @app.job
    async def work() -> int:
        return 1

    handle = await work.options(delay=0.2).enqueue()
    async with app.worker() as worker:
        await worker.idle()
        assert await handle.result(5) == 1
    assert len(between.of("claim")) < 10, "it slept"


async def test_a_job_that_waits_for_its_time_is_run_then(app: Tenure, clock: ManualClock) -> None:
    @app.job
    async def work() -> int:
        return 1

    handle = await work.options(delay=timedelta(hours=1)).enqueue()
    async with app.worker() as worker:
        await worker.idle()
        assert (await handle.get()).status == "scheduled"
        clock.advance(3_600_000)
        await worker.idle()
        assert await handle.result(5) == 1


async def test_a_delay_of_thirty_days_under_a_lease_of_thirty_seconds_is_delivered_once(
    app: Tenure, clock: ManualClock
) -> None:
    """Where delivery is by visibility timeout, a delay longer than that is delivered again and again."""
    ran: list[int] = []

    @app.job(lease=30)
    async def work(n: int) -> None:
        ran.append(n)

    handle = await work.options(delay=timedelta(days=30)).enqueue(1)
    async with app.worker(lease=30) as worker:
        for _ in range(30):
            await app.fleet.sweep()
            await worker.idle()
            assert ran == []
            clock.advance(DAY)
        await worker.idle()
        assert ran == [1]
        for _ in range(3):
            clock.advance(DAY)
            await app.fleet.sweep()
            await worker.idle()
    assert ran == [1]
    kinds = [event.kind async for event in app.events(follow=False) if event.job_id == handle.id]
    assert kinds == ["claimed", "succeeded"], "the feed of thirty days ago is past retention"


# What a job is that can't be run


async def test_a_type_nobody_knows_here_is_given_back(app: Tenure, clock: ManualClock) -> None:
    """A rolling deploy must not kill new types: the job waits, its attempt refunded, and fails after an hour."""
    handle = await app.send("brand-new")
    async with app.worker(["default"]) as worker:
        for times in range(1, 121):
            await worker.idle()
            job = await handle.get()
            assert (job.status, job.attempt, len(job.history)) == ("scheduled", 0, min(times, 20))
            assert job.history[-1].reason == "unknown_type"
            clock.advance(30_000)
        await worker.idle()
    job = await handle.get()
    assert (job.state, job.reason, job.dead_letter) == ("failed", "unknown_type", "open")


@pytest.mark.parametrize(
    ("payload", "codec"),
    [({"n": "seven"}, "json"), ({}, "json"), ({"n": 1, "m": 2}, "json"), ({"n": b"\xff"}, "msgpack")],
)
async def test_a_payload_that_cant_be_decoded_fails_its_own_job_at_once(
    app: Tenure, payload: dict[str, Any], codec: str
) -> None:
    producer = Tenure(store=await app.opened())
    poison = await producer.send("work", payload, codec=codec, max_attempts=5)

    @app.job
    async def work(n: int) -> int:
        return n

    async with app.worker():
        with pytest.raises(JobFailed, match=r"failed \(invalid_payload\): InvalidPayload: work\(\)"):
            await poison.result(5)
        assert await work.call(7) == 7
    assert (await poison.get()).attempt == 1


async def test_a_codec_that_breaks_fails_its_own_job(app: Tenure) -> None:
    class Broken:
        name = "broken"

        def encode(self, value: Any) -> bytes:
            if isinstance(value, int):
                raise KeyError("encode")
            return app.codecs.get("json").encode(value)

        def decode(self, body: bytes, type: Any = Any) -> Any:
            if b"13" in body:
                raise ZeroDivisionError("decode")
            return app.codecs.get("json").decode(body, type)

    app.codec(Broken())

    @app.job(result_codec="broken")
    async def work(n: int) -> int:
        return n

    producer = Tenure(store=await app.opened())
    producer.codec(Broken())
    async with app.worker() as worker:
        with pytest.raises(JobFailed, match=r"invalid_payload.*decode"):
            await (await producer.send("work", {"n": 13}, codec="broken")).result(5)
        with pytest.raises(JobFailed, match=r"invalid_result.*encode"):
            await work.call(7)
        await worker.idle()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "Encoding objects of type object is unsupported"),
        (float("nan"), "isn't a JSON number"),
        ("x" * 65_536, "the result has 65538 bytes: at most 65536"),
        ("\ud800", "surrogates not allowed"),
    ],
)
@pytest.mark.parametrize("threaded", [False, True], ids=["inline", "thread"])
async def test_a_result_that_cant_be_kept_fails_the_job_at_once(
    app: Tenure, value: object, says: str, threaded: bool
) -> None:
    def plain() -> Any:
        return value

    async def inline() -> Any:
        return value

    work: Any = app.job(name="work")(plain if threaded else inline)
    async with app.worker():
        with pytest.raises(JobFailed, match=rf"\(invalid_result\): InvalidResult: the result of work .*{says}"):
            await work.call()


# What a handler knows


async def test_a_handler_knows_its_job(app: Tenure) -> None:
    seen: dict[str, Any] = {}

    @app.job(queue="mail", max_attempts=4)
    async def work(ctx: Context, n: int) -> None:
        seen.update(
            id=ctx.id,
            tenant=ctx.tenant,
            queue=ctx.queue,
            job_type=ctx.job_type,
            attempt=ctx.attempt,
            most=ctx.max_attempts,
            labels=ctx.labels,
            app=ctx.app,
        )
        assert ctx.id in repr(ctx)
        assert not ctx.cancelled.is_set()
        ctx.check_cancelled()
        ctx.log.info("working")

    handle = await work.options(tenant="acme", labels={"team": "crm"}).enqueue(7)
    async with app.worker():
        await handle.result(5)
    assert seen == {
        "id": handle.id,
        "tenant": "acme",
        "queue": "mail",
        "job_type": "work",
        "attempt": 1,
        "most": 4,
        "labels": {"team": "crm"},
        "app": app,
    }


async def test_the_fence_only_grows(app: Tenure) -> None:
    fences = []

    @app.job(max_attempts=3, retry=Backoff.none())
    async def work(ctx: Context) -> None:
        fences.append(ctx.fence)
        if ctx.attempt < 3:
            raise ValueError

    async with app.worker():
        await work.call()
    assert [fence.lease_seq for fence in fences] == [1, 2, 3]
    assert fences == sorted(fences)


async def test_progress_is_seen_and_sent_at_most_twice_a_second(app: Tenure, between: Between) -> None:
    reported, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        await ctx.progress(0.25, "first")
        reported.set()
        await go.wait()
        for step in range(100):
            await ctx.progress(0.25 + 0.5 * step / 99, f"step {step}")
        go.clear()
        await go.wait()

    handle = await work.enqueue()
    async with app.worker():
        await reported.wait()
        await happened(app, "progress", progress=0.25)
        assert (await handle.get()).progress == Progress(0.25, "first")
        go.set()
        await happened(app, "progress", progress=0.75)
        assert (await handle.get()).progress == Progress(0.75, "step 99")
        sent = [one.progress for batch in between.of("renew") for one in batch if isinstance(one, Renewal)]
        assert len(sent) in (2, 3), "a hundred reports are one, or two if some had left before the last came"
        assert sent[-1] == Progress(0.75, "step 99")
        go.set()


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
async def test_a_progress_that_is_none_is_the_handlers_error(app: Tenure, fraction: float) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        with pytest.raises(InvalidValue, match=r"progress .*: give a number from 0 to 1"):
            await ctx.progress(fraction)
        with pytest.raises(InvalidValue, match="progress message: at most 1024 bytes"):
            ctx.report(0.5, "x" * 1_025)

    async with app.worker():
        await work.call()


# Jobs that a job makes


async def test_what_a_handler_enqueues_goes_in_with_its_success(app: Tenure) -> None:
    seen: list[str] = []

    @app.job
    async def child(n: int) -> int:
        return n

    @app.job
    async def parent(ctx: Context) -> str:
        handle = await ctx.enqueue(child.options(delay=60).build(7))
        seen.append(handle.id)
        assert await ctx.app.get_many([handle.id]) == [None], "not before"
        return handle.id

    async with app.worker():
        id = await parent.call()
    assert seen == [id]
    job = await app.get(id)
    assert (job.job_type, job.payload, job.status) == ("child", {"n": 7}, "scheduled")


async def test_what_a_handler_enqueues_keeps_the_id_that_was_made_for_it(app: Tenure) -> None:
    @app.job(queue="later")
    async def child() -> None: ...

    @app.job
    async def parent(ctx: Context, id: str) -> str:
        return ctx.enqueue(child.options(id=id).build()).id

    id = app.new_id()
    async with app.worker(["default"]):
        assert await parent.call(id) == id
    assert (await app.get(id)).job_type == "child"


async def test_what_a_failing_handler_enqueues_does_not(app: Tenure) -> None:
    @app.job
    async def child() -> None: ...

    @app.job
    async def parent(ctx: Context, how: str) -> object:
        await ctx.enqueue(child.build())
        if how == "fail":
            raise Fail("no")
        if how == "retry":
            raise ValueError("later")
        return object()

    async with app.worker() as worker:
        for how in ("fail", "retry", "result"):
            await parent.enqueue(how)
        await worker.idle()
    assert await app.jobs(job_type="child") == []


async def test_a_plain_enqueue_in_a_handler_isnt_undone(app: Tenure) -> None:
    @app.job
    async def child() -> None: ...

    @app.job
    async def parent() -> None:
        await child.enqueue()
        raise Fail("no")

    async with app.worker() as worker:
        await parent.enqueue()
        await worker.idle()
    assert [job.state for job in await app.jobs(job_type="child")] == ["succeeded"]


async def test_a_carried_job_that_is_refused_is_an_error_of_its_maker(app: Tenure) -> None:
    """A job with a group in a plain queue: the success isn't kept without it, and nobody waits for the lease."""

    @app.job
    async def child() -> None: ...

    @app.job(max_attempts=2, retry=Backoff.none())
    async def parent(ctx: Context) -> None:
        await ctx.enqueue(child.options(group="g").build())

    async with app.worker():
        with pytest.raises(JobFailed, match=r"\(exhausted\): GroupNeedsKeyed: a job that it made was refused: queue"):
            await parent.call()
    assert await app.jobs(job_type="child") == []


async def test_more_jobs_than_a_success_can_carry_fail_it(app: Tenure) -> None:
    @app.job
    async def child() -> None: ...

    @app.job
    async def parent(ctx: Context) -> None:
        for _ in range(1_001):
            await ctx.enqueue(child.build())

    async with app.worker() as worker:
        with pytest.raises(JobFailed, match=r"invalid_result.*at most 1000 can be carried"):
            await parent.call()
        await worker.idle()


# What others see of a worker


async def test_a_worker_says_that_it_is_there(app: Tenure) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.job(queue="mail")
    async def send(to: str, times: int = 1) -> str:
        """Sends a letter.

        And more.
        """
        started.set()
        await go.wait()
        return to

    store = await app.opened()

    async def cards() -> list[WorkerCard]:
        found = await store.list_documents("_system", "worker")
        return [msgspec.json.decode(one.body or b"", type=WorkerCard) for one in found]

    async with app.worker(name="w1", concurrency=3):
        await send.enqueue("a")
        await started.wait()
        async with asyncio.timeout(30):
            while not (found := await cards()):  # it is put beside the first claim
                await asyncio.sleep(0.01)
        (card,) = found
        assert (card.name, card.queues, card.concurrency) == ("w1", ("mail",), 3)
        go.set()
    assert await cards() == []
    (published,) = await store.list_documents("*", "job_type")
    job_type = msgspec.json.decode(published.body or b"", type=JobTypeCard)
    assert (job_type.name, job_type.queue, job_type.description) == ("send", "mail", "Sends a letter.")
    assert "to" in str(job_type.parameters)
    assert job_type.result == {"type": "string"}


async def test_two_workers_share_the_work(app: Tenure) -> None:
    ran: list[int] = []

    @app.job
    async def work(n: int) -> None:
        ran.append(n)
        await asyncio.sleep(0)

    await app.enqueue_many([work.build(n) for n in range(200)])
    async with app.worker(concurrency=5) as one, app.worker(concurrency=5) as other:
        await asyncio.gather(one.idle(), other.idle())
    assert sorted(ran) == list(range(200))


async def test_many_short_jobs_leave_nothing_behind(app: Tenure) -> None:
    """Neither their deadlines nor their contexts are kept, and none waits for the collector of cycles."""

    @app.job
    async def work() -> None: ...

    worker: Worker
    async with app.worker(concurrency=50) as worker:
        gc.collect()
        gc.disable()
        try:
            before = len(_hands_and_contexts())
            for _ in range(6):
                await app.enqueue_many([work.build() for _ in range(500)])
                await worker.idle()
            assert len(_hands_and_contexts()) == before
        finally:
            gc.enable()
        parts = worker._parts
        assert parts is not None
        assert len(parts.hands) == 0


def _hands_and_contexts() -> list[object]:
    return [one for one in gc.get_objects() if issubclass(type(one), Hand | Context)]
