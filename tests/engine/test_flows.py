"""Flows: jobs that wait for jobs, enqueued together, and what a handler sees of those it waited for."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tenure import Context, EnqueueFailed, Fail, InvalidValue, JobCancelled, JobFailed, Tenure
from tenure.domain.errors import BatchRefused, KeyHeld, OutcomeUnknown, ParentNotFound, QueueFull, StoreFrozen
from tenure.domain.names import DAY, HOUR
from tenure.domain.states import State
from tenure.domain.store import Store
from tenure.engine.definition import Definition
from tenure.engine.flows import Flow
from tenure.engine.handle import Handle
from tenure.testing.clock import ManualClock
from tests.engine.kit import Between, Meddle


@pytest.fixture
def step(app: Tenure) -> Definition[[str], str]:
    """A job that tells its name, and those of its parents."""

    @app.job
    async def step(ctx: Context, name: str) -> str:
        results = await ctx.parents.results()
        return f"{name}({' '.join(results)})" if results else name

    return step


@pytest.fixture
def broken(app: Tenure) -> Definition[[], str]:
    @app.job
    async def broken() -> str:
        raise Fail("it can't be done")

    return broken


async def states(flow: Flow) -> str:
    """Of all its jobs, as one sentence."""
    return " ".join([(await handle.get()).state.value for handle in flow.handles])


# Shapes


async def test_a_job_waits_for_those_before_it(app: Tenure, step: Definition[[str], str]) -> None:
    flow = app.flow()
    extract = flow.add(step.build("extract"))
    transform = flow.add(step.build("transform"), after=[extract])
    load = flow.add(step.build("load"), after=[extract, transform])
    assert await flow.enqueue() == [extract, transform, load] == flow.handles
    assert await states(flow) == "pending blocked blocked"
    assert (await load.get()).parents == (extract.id, transform.id)
    async with app.worker():
        assert await load.result(timeout=10) == "load(extract transform(extract))"
    assert await states(flow) == "succeeded succeeded succeeded"


async def test_nothing_is_there_before_it_is_enqueued(app: Tenure, step: Definition[[str], str]) -> None:
    flow = app.flow()
    flow.add(step.build("a"))
    assert await app.jobs() == []
    await flow.enqueue()
    assert len(await app.jobs()) == 1


async def test_a_chain(app: Tenure, step: Definition[[str], str]) -> None:
    flow = app.flow()
    first = flow.add(step.build("first"))
    chain = flow.chain(*(step.build(name) for name in "abc"), after=[first])
    await flow.enqueue()
    async with app.worker():
        assert await chain[-1].result(timeout=10) == "c(b(a(first)))"
    assert flow.chain() == []


async def test_a_group_and_what_comes_after_all_of_it(app: Tenure, step: Definition[[str], str]) -> None:
    flow = app.flow()
    first = flow.add(step.build("first"))
    members = flow.group([step.build("a"), step.build("b")], after=[first])
    joined = flow.group([step.build(str(n)) for n in range(3)], then=step.build("join"), after=members)
    await flow.enqueue()
    assert len(flow.handles) == 7
    async with app.worker():
        expected = "join({})".format(" ".join(f"{n}(a(first) b(first))" for n in range(3)))
        assert await joined.result(timeout=10) == expected


async def test_results_come_in_the_order_of_after(app: Tenure, step: Definition[[str], str]) -> None:
    """Not in the order the parents were added, nor ended."""
    flow = app.flow()
    handles = [flow.add(step.build(str(n))) for n in range(20)]
    order = [7, 3, 19, 0, 11]
    last = flow.add(step.build("last"), after=[handles[n] for n in order])
    await flow.enqueue()
    async with app.worker():
        assert await last.result(timeout=10) == "last(7 3 19 0 11)"


async def test_jobs_that_exist_can_be_waited_for(app: Tenure, step: Definition[[str], str]) -> None:
    done, waiting = await step.enqueue("done"), await step.options(queue="other").enqueue("waiting")
    async with app.worker(["default"]):
        await done.result(timeout=10)
    flow = app.flow()
    flow.add(step.build("a"), after=[done, app.handle(waiting.id)])
    await flow.enqueue()
    assert await states(flow) == "blocked"
    async with app.worker(["default", "other"]):
        assert await flow.handles[0].result(timeout=10) == "a(done waiting)"


async def test_a_flow_can_grow(app: Tenure, step: Definition[[str], str]) -> None:
    """What was enqueued before is not enqueued again."""
    flow = app.flow()
    first = flow.add(step.build("first"))
    await flow.enqueue()
    async with app.worker():
        await first.result(timeout=10)
        second = flow.add(step.build("second"), after=[first])
        await flow.enqueue()
        await flow.enqueue()
        assert await second.result(timeout=10) == "second(first)"
    assert len(await app.jobs()) == 2


async def test_a_job_keeps_the_id_that_was_made_for_it(app: Tenure, step: Definition[[str], str]) -> None:
    flow, id = app.flow(), app.new_id()
    first = flow.add(step.options(id=id).build("a"))
    last = flow.add(step.build("b"), after=[first])
    with pytest.raises(InvalidValue, match=f"id {id}: a job of this flow has it"):
        flow.add(step.options(id=id).build("c"))
    await flow.enqueue()
    assert (first.id, (await last.get()).parents) == (id, (id,))
    assert (await app.get(id)).payload == {"name": "a"}
    assert len(await app.jobs()) == 2


async def test_an_empty_flow(app: Tenure) -> None:
    flow = app.flow()
    assert (await flow.enqueue(), await flow.cancel()) == ([], 0)


# Failure


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("cancel", "failed cancelled cancelled"),
        ("fail", "failed failed cancelled"),
        ("ignore", "failed succeeded succeeded"),
    ],
)
async def test_a_parent_that_fails(
    app: Tenure, step: Definition[[str], str], broken: Definition[[], str], policy: Any, expected: str
) -> None:
    @app.job
    async def count(ctx: Context) -> int:
        return len(ctx.parents)

    flow = app.flow()
    parent = flow.add(broken.build())
    child = flow.add(count.build(), after=[parent], on_parent_failure=policy)
    grandchild = flow.add(count.build(), after=[child])
    await flow.enqueue()
    async with app.worker() as worker:
        with pytest.raises(JobFailed):
            await parent.result(timeout=10)
        await worker.idle()
    assert await states(flow) == expected
    assert (await grandchild.get()).attempt == (1 if policy == "ignore" else 0)


async def test_policies_of_chains_and_groups(
    app: Tenure, step: Definition[[str], str], broken: Definition[[], str]
) -> None:
    @app.job
    async def run() -> None: ...

    flow = app.flow()
    flow.chain(broken.build(), run.build(), on_parent_failure="ignore")
    joined = flow.group([broken.build(), run.build()], then=run.build(), on_parent_failure="fail")
    await flow.enqueue()
    async with app.worker() as worker:
        with pytest.raises(JobFailed, match="parent_failed"):
            await joined.result(timeout=10)
        await worker.idle()
    assert await states(flow) == "failed succeeded failed succeeded failed"


async def test_results_of_parents_that_failed(
    app: Tenure, step: Definition[[str], str], broken: Definition[[], str]
) -> None:
    seen: dict[str, Any] = {}

    @app.job
    async def look(ctx: Context) -> None:
        seen["whole"] = await ctx.parents.results(missing="?")
        seen["one"] = await ctx.parents.get(0)
        seen["last"] = await ctx.parents.get(-1)
        for name, asked in (
            ("failed", ctx.parents.get(1)),
            ("cancelled", ctx.parents.get(2)),
            ("all", ctx.parents.results()),
        ):
            try:
                await asked
            except (JobFailed, JobCancelled) as error:
                seen[name] = type(error)

    flow = app.flow()
    handles = [
        flow.add(step.build("a")),
        flow.add(broken.build()),
        flow.add(step.build("b")),
        flow.add(step.build("c")),
    ]
    last = flow.add(look.build(), after=handles, on_parent_failure="ignore")
    await flow.enqueue()
    assert await handles[2].cancel()
    async with app.worker():
        await last.result(timeout=10)
    assert seen["whole"] == ["a", "?", "?", "c"]
    assert (seen["one"], seen["last"]) == ("a", "c")
    assert (seen["failed"], seen["cancelled"], seen["all"]) == (JobFailed, JobCancelled, JobFailed)


# Parents in a handler


async def test_results_are_typed_like_those_of_handles(app: Tenure) -> None:
    @app.job
    async def when() -> datetime:
        return datetime(2027, 1, 1, tzinfo=UTC)

    @app.job
    async def nothing() -> None: ...

    @app.job
    async def look(ctx: Context) -> str:
        moment, none = await ctx.parents.results()
        assert [handle.id for handle in ctx.parents] == list(ctx.parents.ids)
        return f"{moment:%Y} {none}"

    flow = app.flow()
    joined = flow.group([when.build(), nothing.build()], then=look.build())
    await flow.enqueue()
    async with app.worker():
        assert await joined.result(timeout=10) == "2027 None"


async def test_a_plain_function_sees_them_too(app: Tenure, step: Definition[[str], str]) -> None:
    @app.job
    def look(ctx: Context) -> list[str]:
        return [*ctx.parents.sync.results(), ctx.parents.sync.get(1)]

    flow = app.flow()
    joined = flow.group([step.build("a"), step.build("b")], then=look.build())
    await flow.enqueue()
    async with app.worker():
        assert await joined.result(timeout=10) == ["a", "b", "b"]


async def test_results_live_until_the_children_have_ended(
    app: Tenure, step: Definition[[str], str], clock: ManualClock
) -> None:
    flow = app.flow()
    parent = flow.add(step.options(result_ttl=1).build("a"))
    child = flow.add(step.options(delay=3_600).build("b"), after=[parent])
    await flow.enqueue()
    async with app.worker():
        await parent.result(timeout=10)
        clock.advance(HOUR)
        assert await child.result(timeout=10) == "b(a)"


async def test_a_job_without_parents(app: Tenure) -> None:
    @app.job
    async def look(ctx: Context) -> str:
        with pytest.raises(IndexError):
            await ctx.parents.get(0)
        return f"{len(ctx.parents)} {await ctx.parents.results()} {list(ctx.parents)}"

    assert await app.execute_now(look.build()) == "0 [] []"


# All or nothing


async def test_a_refused_flow_leaves_nothing(app: Tenure, step: Definition[[str], str]) -> None:
    await app.queue("small").configure(max_depth=1)
    holder = await step.options(key="taken").enqueue("holder")
    flow = app.flow()
    flow.add(step.build("fine"))
    flow.add(step.options(key="taken").build("holder"))
    flow.add(step.options(queue="small").build("1"))
    flow.add(step.options(queue="small").build("2"))
    flow.add(step.build("orphan"), after=[app.handle(app.new_id())])
    with pytest.raises(EnqueueFailed) as error:
        await flow.enqueue()
    fine, key, first, second, orphan = error.value.results
    assert (fine, first) == (BatchRefused(), BatchRefused())
    assert (key, second) == (KeyHeld(holder.id), QueueFull(1))
    assert isinstance(orphan, ParentNotFound)
    assert "5 of 5 jobs were refused" in str(error.value)
    assert f"the key is held by job {holder.id}" in str(error.value)
    assert [job.id for job in await app.jobs()] == [holder.id]


async def test_a_refused_flow_can_be_tried_again(app: Tenure, step: Definition[[str], str]) -> None:
    holder = await step.options(key="k").enqueue("a")
    flow = app.flow()
    flow.chain(step.options(key="k").build("a"), step.build("b"))
    with pytest.raises(EnqueueFailed):
        await flow.enqueue()
    await holder.cancel()
    await flow.enqueue()
    assert await states(flow) == "pending blocked"


async def test_an_unknown_outcome_is_asked_again(app: Tenure, between: Between, step: Definition[[str], str]) -> None:
    lost = 2

    async def losing(verb: Meddle, *args: Any, **kwargs: Any) -> Any:
        nonlocal lost
        answer = await verb(*args, **kwargs)
        if lost:
            lost -= 1
            raise OutcomeUnknown
        return answer

    between.meddle["enqueue"] = losing
    flow = app.flow()
    flow.chain(step.build("a"), step.build("b"))
    await flow.enqueue()
    assert len(await app.jobs()) == 2
    assert len(between.of("enqueue")) == 3


async def test_a_frozen_store_refuses_a_flow(app: Tenure, store: Store, step: Definition[[str], str]) -> None:
    flow = app.flow()
    flow.add(step.build("a"))
    await store.freeze()
    with pytest.raises(EnqueueFailed, match="frozen"):
        await flow.enqueue()
    with pytest.raises(StoreFrozen):
        await flow.cancel()


async def test_a_flow_has_a_size(app: Tenure, step: Definition[[str], str]) -> None:
    flow = app.flow()
    flow.group([step.build("a")] * 999, then=step.build("z"))
    with pytest.raises(InvalidValue, match="at most 1000 jobs"):
        flow.add(step.build("one too many"))
    assert len(await flow.enqueue()) == 1_000
    assert len(await app.jobs()) == 1_000
    assert await flow.cancel() == 1_000


async def test_a_flow_is_of_one_tenant(app: Tenure, step: Definition[[str], str]) -> None:
    acme = app.tenant("acme")
    foreign = await acme.enqueue(step.build("foreign"))
    flow = app.flow()
    with pytest.raises(InvalidValue, match="can't hold or wait for a job of acme"):
        flow.add(step.options(tenant="acme").build("a"))
    with pytest.raises(InvalidValue, match="can't hold or wait for a job of acme"):
        flow.add(step.build("a"), after=[foreign])
    assert flow.handles == []
    own = acme.flow()
    own.add(step.options(tenant="acme").build("a"), after=[foreign])
    (handle,) = await own.enqueue()
    assert handle.tenant == "acme"
    async with app.worker():
        assert await handle.result(timeout=10) == "a(foreign)"


async def test_what_makes_no_sense_is_refused_when_added(app: Tenure, step: Definition[[str], str]) -> None:
    flow = app.flow()
    first = flow.add(step.build("a"))
    with pytest.raises(InvalidValue, match="give one of cancel, fail, ignore"):
        flow.add(step.build("b"), after=[first], on_parent_failure=cast(Any, "explode"))
    with pytest.raises(InvalidValue, match="the same one is named twice"):
        flow.add(step.build("b"), after=[first, first])
    with pytest.raises(InvalidValue, match="priority"):
        flow.add(step.options(priority=1_000).build("b"))
    assert flow.handles == [first]


# Cancel


async def test_what_is_no_handle_can_not_be_waited_for(app: Tenure, step: Definition[[str], str]) -> None:
    flow, sync = app.flow(), app.sync.flow()
    first: Any = flow.add(step.build("a"))
    wrong: list[Any] = [["x"], "x", 5, first, [first, first.id]]
    for after in wrong:
        with pytest.raises(InvalidValue, match=r"^job step: after .*: give a list of handles"):
            flow.add(step.build("b"), after=after)
        with pytest.raises(InvalidValue, match=r"^job step: after .*: give a list of handles"):
            sync.add(step.build("b"), after=after)
    assert len(flow.handles) == 1


def test_a_handle_of_either_surface_has_sync(app: Tenure, step: Definition[[str], str]) -> None:
    made = app.sync.flow().group([step.build("a")], then=step.build("b"))
    assert made.sync is made


async def test_cancelling_a_flow(app: Tenure, step: Definition[[str], str], clock: ManualClock) -> None:
    """What ended stays, what waits is cancelled, whatever it would have done about a cancelled parent."""
    flow = app.flow()
    done = flow.add(step.build("done"))
    late = flow.add(step.options(delay=DAY / 1_000).build("late"), after=[done])
    flow.add(step.build("fails"), after=[late], on_parent_failure="fail")
    flow.add(step.build("ignores"), after=[late], on_parent_failure="ignore")
    await flow.enqueue()
    async with app.worker():
        await done.result(timeout=10)
    assert await flow.cancel() == 3
    assert await states(flow) == "succeeded cancelled cancelled cancelled"
    assert await flow.cancel() == 0


async def test_cancelling_tells_a_running_job(app: Tenure, step: Definition[[str], str]) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    @app.job
    async def endless(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    flow = app.flow()
    flow.chain(endless.options(lease=0.3).build(), step.build("b"))
    await flow.enqueue()
    async with app.worker():
        await started.wait()
        assert await flow.cancel() == 2
        await told.wait()
    assert await states(flow) == "cancelled cancelled"


async def test_cancelling_what_was_never_enqueued(app: Tenure, step: Definition[[str], str]) -> None:
    flow = app.flow()
    flow.add(step.build("a"))
    assert await flow.cancel() == 0


def test_from_code_without_a_loop(app: Tenure) -> None:
    @app.job
    async def step(name: str) -> str:
        return name

    flow = app.sync.flow()
    first = flow.add(step.build("a"))
    chain = flow.chain(step.build("b"), step.build("c"), after=[first])
    members = flow.group([step.build("d")], after=chain)
    joined = flow.group([step.build("e")], then=step.build("f"), after=members)
    assert flow.enqueue()[0].id == first.id
    assert [first.get().state, joined.get().state] == [State.PENDING, State.BLOCKED]
    assert flow.cancel() == 6


def _typed(app: Tenure, step: Definition[[str], str]) -> None:
    """Never run: mypy reads it."""
    flow = app.flow()
    one: Handle[str] = flow.add(step.build("a"))
    joined: Handle[str] = flow.group([step.build("a")], then=step.build("b"))
    members: list[Handle[str]] = flow.group([step.build("a")], after=[one, joined])
    del members


# In a handler, and where options say otherwise


async def test_a_flow_that_a_handler_makes_is_its_tenants(app: Tenure, step: Definition[[str], str]) -> None:
    @app.job
    async def makes() -> str:
        flow = app.flow()
        flow.chain(step.build("a"), step.build("b"))
        return " ".join(handle.tenant for handle in await flow.enqueue())

    async with app.worker():
        assert await makes.options(tenant="acme").call() == "acme acme"


async def test_what_follows_an_empty_group_waits_for_what_that_waited_for(
    app: Tenure, step: Definition[[str], str]
) -> None:
    flow = app.flow()
    first = flow.add(step.build("first"))
    last = flow.group([], then=step.build("last"), after=[first])
    await flow.enqueue()
    assert (await last.get()).parents == (first.id,)


async def test_an_id_made_ahead_is_kept(app: Tenure, step: Definition[[str], str]) -> None:
    flow, id = app.flow(), app.new_id()
    assert flow.add(step.options(id=id).build("a")).id == id
    await flow.enqueue()
    assert (await app.get(id)).payload == {"name": "a"}


async def test_a_flow_in_a_users_transaction_is_refused(app: Tenure, step: Definition[[str], str]) -> None:
    with pytest.raises(InvalidValue, match="connection: a flow can't go in with a transaction of yours"):
        app.flow().add(step.options(connection=object()).build("a"))
