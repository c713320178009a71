"""A job has a task and a context of its own: what a library keeps by either is no other job's, and nobody else's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tenure import Context, Fail, Tenure
from tenure.engine.hooks import Next, Told
from tests.engine.kit import Between

TENANTS = ("acme", "bolt")


class Basket:
    """What a piece of work collects. Any two are equal, as empty lists are: only which one it is tells them apart."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Basket)

    __hash__ = None  # type: ignore[assignment]  # as of every list


SEEN: ContextVar[Basket | None] = ContextVar("seen", default=None)

Setter = Callable[[Tenure], None]


def by_middleware(app: Tenure) -> None:
    @app.middleware
    async def sets(ctx: Context, call_next: Next) -> Any:
        SEEN.set(Basket())
        return await call_next()


def by_a_listener(app: Tenure) -> None:
    @app.on("job_started")
    def sets(told: Told) -> None:
        SEEN.set(Basket())


def by_the_last_listener(app: Tenure) -> None:
    @app.on("job_ended")
    def sets(told: Told) -> None:
        SEEN.set(Basket())


def by_nobody_else(app: Tenure) -> None: ...


# Between jobs of a worker


async def test_every_job_has_a_task_of_its_own(app: Tenure) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @app.job
    async def waits_for_nothing() -> None:
        tasks.append(asyncio.current_task())

    @app.job
    async def waits(fails: bool) -> None:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(0)
        if fails:
            raise Fail("for good")

    for number in range(50):
        await app.enqueue(waits_for_nothing.build())
        await app.enqueue(waits.build(number % 2 == 0))
    async with app.worker() as worker:
        await worker.idle()
    assert None not in tasks
    assert len(tasks) == len(set(tasks)) == 100
    assert {task.get_name() for task in tasks if task} == {"waits", "waits_for_nothing"}


async def test_one_that_waits_keeps_nobody_waiting(app: Tenure) -> None:
    last = asyncio.Event()

    @app.job
    async def work(number: int) -> None:
        if number == 3:
            last.set()
        await last.wait()

    handles = await app.enqueue_many([work.build(number) for number in range(4)])
    async with app.worker() as worker:
        await worker.idle()
    assert [(await handle.get()).status for handle in handles] == ["succeeded"] * 4


@pytest.mark.parametrize("setter", [by_nobody_else, by_middleware, by_a_listener, by_the_last_listener])
async def test_what_is_set_in_a_context_variable_is_one_jobs_alone(app: Tenure, setter: Setter) -> None:
    """The worker's own is there to begin with; whatever replaces it, for one job, isn't seen by the next."""
    before: list[Basket | None] = []

    @app.on("job_started")
    def look(told: Told) -> None:
        before.append(SEEN.get())

    setter(app)

    @app.job
    async def work() -> None:
        SEEN.set(Basket())

    @app.job
    def threaded() -> None:
        SEEN.set(Basket())

    await app.enqueue_many([work.build() for _ in range(3)])
    await app.enqueue_many([threaded.build() for _ in range(3)])
    workers = Basket()
    SEEN.set(workers)
    async with app.worker() as worker:
        await worker.idle()
    assert [one is workers for one in before] == [True] * 6


async def test_what_the_lifespan_sets_is_there_for_every_job(app: Tenure) -> None:
    mine, seen = Basket(), list[Basket | None]()

    @app.lifespan
    async def services() -> AsyncIterator[None]:
        SEEN.set(mine)
        yield

    @app.job
    async def work() -> None:
        seen.append(SEEN.get())
        SEEN.set(Basket())

    @app.job
    def threaded() -> None:
        seen.append(SEEN.get())

    await app.enqueue_many([work.build(), work.build(), threaded.build()])
    async with app.worker() as worker:
        await worker.idle()
    assert [one is mine for one in seen] == [True] * 3


async def test_a_thread_sees_what_is_set_for_its_job_and_leaves_nothing_behind(app: Tenure) -> None:
    """The thread itself goes on to other jobs."""
    seen: list[tuple[bool, bool]] = []
    mine: list[Basket] = []

    @app.middleware
    async def sets(ctx: Context, call_next: Next) -> Any:
        mine.append(Basket())
        SEEN.set(mine[-1])
        result = await call_next()
        seen.append((result, SEEN.get() is mine[-1]))

    @app.job
    def work() -> bool:
        found = SEEN.get()
        SEEN.set(Basket())
        return found is mine[-1]

    await app.enqueue_many([work.build() for _ in range(3)])
    async with app.worker(concurrency=1) as worker:
        await worker.idle()
    assert seen == [(True, True)] * 3


class Base(DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = "rows_of_two_tenants"
    number: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[str]


async def test_a_session_kept_by_task_is_one_tenants(app: Tenure, postgres_url: str) -> None:
    """SQLAlchemy's own way to have a session for each piece of work. What a job that fails has added isn't committed
    by the next.
    """
    engine = create_async_engine(postgres_url.replace("postgresql://", "postgresql+psycopg_async://"))
    session: async_scoped_session[AsyncSession] = async_scoped_session(
        async_sessionmaker(engine), scopefunc=asyncio.current_task
    )

    @app.job
    async def adds_and_fails(ctx: Context) -> None:
        session.add(Row(tenant=ctx.tenant))
        raise Fail("before it waited for anything")

    @app.job
    async def adds(ctx: Context) -> None:
        session.add(Row(tenant=ctx.tenant))
        await session.commit()
        await session.remove()

    handles = []
    for _ in range(3):
        handles += [await app.tenant("acme").enqueue(adds_and_fails.build())]
        handles += [await app.tenant("bolt").enqueue(adds.build())]
    try:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with app.worker() as worker:
            await worker.idle()
        async with await psycopg.AsyncConnection.connect(postgres_url) as looking:
            rows = await (await looking.execute("SELECT tenant FROM rows_of_two_tenants")).fetchall()
    finally:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
        await engine.dispose()
    assert [(await handle.get()).status for handle in handles] == ["failed", "succeeded"] * 3
    assert rows == [("bolt",)] * 3


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


# Who hears of a job


@pytest.mark.parametrize("hook", ["job_started", "job_ended", "job_settled"])
async def test_who_hears_of_a_job_makes_jobs_of_its_tenant(app: Tenure, hook: str) -> None:
    tenants = list[tuple[str | None, str]]()

    @app.job
    async def work() -> None: ...

    @app.job(queue="later")
    async def made() -> None: ...

    @app.on(hook)
    async def heard(told: Told) -> None:
        tenants.append((told.tenant, (await (await app.enqueue(made.build())).get()).tenant))

    for tenant in TENANTS:
        await app.tenant(tenant).enqueue(work.build())
    async with app.worker(["default"]) as worker:
        await worker.idle()
    assert sorted(tenants) == [("acme", "acme"), ("bolt", "bolt")]


async def test_a_worker_that_a_handler_starts_is_no_part_of_its_job(app: Tenure) -> None:
    """What its lifespan and its listeners make is nobody's in particular."""
    tenants: list[str] = []

    @app.job(queue="later")
    async def made() -> None: ...

    @app.job(queue="inner")
    async def inner() -> None: ...

    async def make(*_: Told) -> None:
        tenants.append((await (await app.enqueue(made.build())).get()).tenant)

    app.on("worker_started")(make)
    app.on("worker_stopped")(make)

    @app.lifespan
    async def services() -> AsyncIterator[None]:
        await make()
        yield
        await make()

    @app.job(queue="outer")
    async def outer() -> None:
        await inner.enqueue()
        async with app.worker(["inner"]) as worker:
            await worker.idle()

    await app.tenant("acme").enqueue(outer.build())
    async with app.worker(["outer"]) as worker:
        await worker.idle()
    assert tenants == ["default"] * 8


# Without a worker


async def test_execute_now_runs_each_job_in_a_task_and_a_context_of_its_own(app: Tenure) -> None:
    """A test sees what a worker would show it."""
    mine = Basket()
    SEEN.set(mine)
    tasks = [asyncio.current_task()]

    @app.job
    async def work() -> bool:
        tasks.append(asyncio.current_task())
        found = SEEN.get()
        SEEN.set(Basket())
        return found is mine

    assert [await app.execute_now(work.build()) for _ in range(3)] == [True] * 3
    assert len(set(tasks)) == 4
    assert SEEN.get() is mine


async def test_execute_now_that_is_cancelled_cancels_the_handler(app: Tenure) -> None:
    started, trail = asyncio.Event(), list[str]()

    @app.job
    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            trail.append("ended")

    running = asyncio.create_task(app.execute_now(work.build()))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert trail == ["ended"]


def test_the_sync_facade_runs_each_job_in_a_context_of_its_own(app: Tenure) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @app.job
    async def work() -> bool:
        tasks.append(asyncio.current_task())
        found = SEEN.get()
        SEEN.set(Basket())
        return found is None

    assert [app.sync.execute_now(work.build()) for _ in range(3)] == [True] * 3
    assert len(set(tasks)) == 3
    assert SEEN.get() is None


# What several jobs use


async def test_a_batch_of_several_callers_runs_in_the_context_of_none(app: Tenure, between: Between) -> None:
    """Else what is logged or traced below it is put down to the first of them."""
    seen: list[Basket | None] = []

    @app.job
    async def work() -> None: ...

    async def enqueue() -> None:
        SEEN.set(Basket())
        await work.enqueue()

    async def looked(verb: Any, *args: Any, **kwargs: Any) -> Any:
        if seen:  # the first one is sent by its caller itself
            seen.append(SEEN.get())
            return await verb(*args, **kwargs)
        seen.append(SEEN.get())
        came.set()
        await go_on.wait()
        return await verb(*args, **kwargs)

    came, go_on = asyncio.Event(), asyncio.Event()
    between.meddle["enqueue"] = looked
    first = asyncio.create_task(enqueue())
    await came.wait()
    others = [asyncio.create_task(enqueue()) for _ in range(2)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, *others)
    assert len(seen) == 2
    assert seen[1] is None
