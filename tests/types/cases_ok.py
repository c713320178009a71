"""What users write: both checkers must find nothing wrong here, and infer exactly these types."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from tenure import (
    Backoff,
    Call,
    CancelResult,
    Context,
    Definition,
    Event,
    Flow,
    Handle,
    Job,
    Jobs,
    Next,
    Priority,
    Schedule,
    Summary,
    Tenure,
    Told,
    content_key,
)
from tenure.engine.sync import SyncHandle

app = Tenure("memory://")
jobs = Jobs()


@dataclass
class Receipt:
    number: int


# Declaring


@app.job
async def bare(n: int, *, loud: bool = False) -> str:
    return str(n)


@app.job
async def with_context(ctx: Context, n: int) -> Receipt:
    await ctx.progress(0.5, "half")
    ctx.check_cancelled()
    assert_type(ctx.attempt, int)
    return Receipt(n)


@app.job
def plain(n: int) -> list[int]:
    return [n]


@app.job
def plain_with_context(ctx: Context, name: str = "x") -> None:
    ctx.report(0.5)


@app.job(
    queue="mail",
    name="send",
    max_attempts=5,
    timeout=30,
    lease=timedelta(seconds=60),
    priority=Priority.HIGH,
    retry=Backoff.exponential(base=5, cap=300),
    key=lambda to, template: f"{to}:{template}",
    unique="window",
    unique_for=60,
    labels={"team": "crm"},
    executor="inline",
)
async def declared(ctx: Context, to: str, template: str) -> str:
    return to


@app.job(executor="thread", key=content_key, max_retries=3, timeout=lambda n: 10 * n)
def threaded(n: int) -> int:
    return n


@jobs.job
async def of_a_module() -> None: ...


@app.stub(name="elsewhere")
async def stub(n: int) -> Receipt:
    raise NotImplementedError


app.include(jobs)


def declarations() -> None:
    typed: Definition[..., str] = bare
    assert_type(typed.name, str)


# Enqueueing


async def enqueueing() -> None:
    assert_type(await bare.enqueue(1), Handle[str])
    assert_type(await bare.enqueue(1, loud=True), Handle[str])
    assert_type(await with_context.enqueue(1), Handle[Receipt])
    assert_type(await with_context.enqueue(n=1), Handle[Receipt])
    assert_type(await plain.enqueue(1), Handle[list[int]])
    assert_type(await plain_with_context.enqueue(), Handle[None])
    assert_type(await declared.enqueue("a", template="b"), Handle[str])
    assert_type(await threaded.enqueue(1), Handle[int])
    assert_type(await stub.enqueue(1), Handle[Receipt])
    assert_type(await of_a_module.enqueue(), Handle[None])
    await declared.options(tenant="acme", delay=5, expires=timedelta(hours=1), group=None).enqueue("a", "b")
    await bare.options(run_at=datetime(2027, 1, 1, tzinfo=UTC)).options(call_timeout=5).enqueue(1)


async def calls() -> None:
    assert_type(await bare.call(1), str)
    assert_type(await with_context.options(call_timeout=30).call(1), Receipt)
    assert_type(bare.build(1), Call[str])
    assert_type(await app.enqueue(bare.build(1)), Handle[str])
    assert_type(await app.enqueue_many([bare.build(n) for n in range(3)]), list[Handle[str]])
    assert_type(await app.enqueue_many(bare.build(n) for n in range(3)), list[Handle[str]])
    assert_type(await app.execute_now(with_context.build(1)), Receipt)
    assert_type(await app.send("anything", {"n": 1}, queue="mail"), Handle[Any])
    assert_type(await app.tenant("acme").enqueue(plain.build(1)), Handle[list[int]])


async def handles(handle: Handle[Receipt]) -> None:
    assert_type(await handle.result(timeout=30), Receipt)
    assert_type(await handle.get(explain=True), Job)
    assert_type(await handle.cancel(), CancelResult)
    assert_type(await handle.cancel(mode="request"), CancelResult)
    assert_type(handle.created, bool)
    assert_type(handle.sync, SyncHandle[Receipt])


async def lists() -> None:
    async for job in app.jobs(state="failed", queue="mail", labels={"a": "b"}):
        assert_type(job, Job)
    assert_type(await app.jobs(limit=20), list[Job])
    assert_type(await app.cancel("id"), CancelResult)
    assert_type(await app.cancel(queue="mail", state=["pending"]), int)
    async for event in app.tenant("acme").events(after=None):
        assert_type(event.tenant, str)
    await app.queue("mail").configure(mode="keyed", group_limit=2, rate="100/s", lease=30)


async def named() -> None:
    flow: Flow = app.flow()
    schedule: Schedule = await app.schedule("nightly", "0 3 * * *", bare.build(1))
    summary: Summary = await app.dead_letters().replay()
    latest: list[Event] = [event async for event in app.events(after="latest", follow=False)]
    print(flow, schedule, summary, latest)


def synchronous() -> None:
    assert_type(bare.sync.enqueue(1), SyncHandle[str])
    assert_type(bare.sync.call(1), str)
    assert_type(bare.sync.options(delay=5).enqueue(1).result(5), str)
    assert_type(app.sync.enqueue(with_context.build(1)), SyncHandle[Receipt])
    assert_type(app.sync.get("id"), Job)
    assert_type(app.sync.cancel(queue="mail"), int)
    assert_type(app.sync.execute_now(plain.build(1)), list[int])
    assert_type(list(app.sync.fleet.jobs(state="failed")), list[Job])


# Hooks


@app.on("job_ended")
async def ended(told: Told) -> None:
    assert_type(told.job_id, str | None)


@app.on("job_started")
def started(told: Told) -> None: ...


@app.middleware
async def timed(ctx: Context, call_next: Next) -> Any:
    return await call_next()


@app.lifespan
async def services() -> AsyncIterator[int]:
    yield 1


async def working(ctx: Context) -> None:
    async with app.worker(queues={"mail": 40, "video": 2}, concurrency=50, tenants=["acme"]) as worker:
        worker.stop(hard=True)
    await app.worker(["mail"]).run()
    assert_type(await ctx.enqueue(bare.build(1)), Handle[str])
    assert_type(ctx.fence.lease_seq, int)
    assert_type(await ctx.cancelled.wait(), str | None)
