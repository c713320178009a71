"""Tenants: the same surface for each, and nothing of anyone else's."""

from typing import Any

import pytest

from tenure import Context, InvalidValue, JobNotFound, Tenure
from tests.engine.kit import claim


@pytest.fixture
def work(app: Tenure) -> Any:
    @app.job
    async def work(n: int = 0) -> int:
        return n

    return work


async def test_a_tenant_by_option_or_by_surface_is_the_same(app: Tenure, work: Any) -> None:
    by_option = await work.options(tenant="acme").enqueue(1)
    by_surface = await app.tenant("acme").enqueue(work.build(2))
    by_name = await app.tenant("acme").send("work", {"n": 3})
    assert [handle.tenant for handle in (by_option, by_surface, by_name)] == ["acme"] * 3
    assert [job.payload["n"] for job in await app.tenant("acme").jobs()] == [3, 2, 1]
    assert await app.jobs() == []
    async with app.worker():
        assert [await handle.result(5) for handle in (by_option, by_surface, by_name)] == [1, 2, 3]


async def test_many_jobs_of_several_tenants(app: Tenure, work: Any) -> None:
    calls = [work.options(tenant=tenant).build() for tenant in ("acme", "bolt", "acme")] + [work.build()]
    handles = await app.enqueue_many(calls)
    assert [handle.tenant for handle in handles] == ["acme", "bolt", "acme", "default"]
    assert [len(await app.tenant(name).jobs()) for name in ("acme", "bolt", "default")] == [2, 1, 1]


async def test_a_tenant_sees_nothing_of_anothers(app: Tenure, work: Any) -> None:
    acme, bolt = app.tenant("acme"), app.tenant("bolt")
    theirs = await acme.enqueue(work.build(1))
    for ask in (bolt.get(theirs.id), bolt.cancel(theirs.id), bolt.handle(theirs.id).get(), bolt.replay(theirs.id)):
        with pytest.raises(JobNotFound):
            await ask
    assert await bolt.get_many([theirs.id]) == [None]
    assert await bolt.jobs() == []
    assert await bolt.cancel(job_type="work") == 0
    assert [event async for event in bolt.events(follow=False)] == []
    assert (await theirs.get()).state == "pending"


async def test_the_fleet_sees_all(app: Tenure, work: Any) -> None:
    await app.enqueue_many([work.options(tenant=tenant).build() for tenant in ("acme", "bolt")])
    assert {job.tenant for job in await app.fleet.jobs()} == {"acme", "bolt"}
    assert {event.tenant async for event in app.fleet.events(follow=False)} == {"acme", "bolt"}
    assert [job.tenant for job in await app.fleet.jobs(limit=1)] == ["bolt"]


async def test_a_paused_tenant_waits_and_others_dont(app: Tenure, work: Any) -> None:
    acme = app.tenant("acme")
    theirs, ours = await acme.enqueue(work.build(1)), await work.enqueue(2)
    await acme.pause()
    assert [job.token.tenant for job in await claim(app, n=5)] == ["default"]
    assert (await theirs.get(explain=True)).gates == ("tenant_paused",)
    await acme.resume()
    assert [job.token.tenant for job in await claim(app, n=5)] == ["acme"]
    assert (await ours.get()).state == "running"


async def test_a_weight_is_set_and_kept_through_a_pause(app: Tenure) -> None:
    acme = app.tenant("acme")
    await acme.configure(weight=3)
    await acme.pause()
    assert ((await acme.config()).weight, (await acme.config()).paused) == (3, True)
    await acme.resume()
    assert ((await acme.config()).weight, (await acme.config()).paused) == (3, None)
    with pytest.raises(InvalidValue, match="weight 17: give an integer from 1 to 16"):
        await acme.configure(weight=17)


@pytest.mark.parametrize("name", ["", "_system", "a b", "é", "x" * 65, None])
def test_a_wrong_name_is_refused(app: Tenure, name: Any) -> None:
    with pytest.raises(InvalidValue, match="tenant"):
        app.tenant(name)


async def test_a_handler_works_for_its_jobs_tenant(app: Tenure, work: Any) -> None:
    @app.job
    async def parent(ctx: Context) -> str:
        carried = ctx.enqueue(work.build(1))
        assert carried.tenant == "acme"
        with pytest.raises(InvalidValue, match="with a job of tenant acme, and only there"):
            await ctx.enqueue(work.options(tenant="bolt").build(2))
        return ctx.tenant

    async with app.worker() as worker:
        assert await parent.options(tenant="acme").call() == "acme"
        await worker.idle()
    assert [job.job_type for job in await app.tenant("acme").jobs()] == ["work", "parent"]
    assert await app.tenant("bolt").jobs() == []


async def test_what_a_handler_enqueues_is_its_tenants_unless_it_says_otherwise(app: Tenure, work: Any) -> None:
    @app.job
    async def inline() -> list[str]:
        made = [await work.enqueue(), await app.enqueue(work.build()), await app.send("work")]
        made += await app.enqueue_many([work.build()])
        told = [await work.options(tenant="bolt").enqueue(), await app.tenant("default").enqueue(work.build())]
        return [handle.tenant for handle in made + told]

    @app.job
    def threaded() -> list[str]:
        return [work.sync.enqueue().tenant, app.sync.send("work").tenant]

    async with app.worker():
        assert await inline.options(tenant="acme").call() == ["acme"] * 4 + ["bolt", "default"]
        assert await threaded.options(tenant="acme").call() == ["acme"] * 2
    assert (await work.enqueue()).tenant == "default"
