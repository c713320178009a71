"""Queues: configured in the store, for everyone or for one tenant, and for every worker at once."""

import asyncio
from typing import Any, cast

import pytest

from tenure import InvalidValue, QueueFull, Tenure
from tenure.domain.errors import GroupRequired, ModeConflict
from tenure.domain.rate import Rate
from tenure.testing.clock import ManualClock
from tests.engine.kit import Between, Meddle, claim


@pytest.fixture
def send(app: Tenure) -> Any:
    @app.job(queue="mail")
    async def send(n: int = 0) -> int:
        return n

    return send


async def test_what_is_set_stays_and_none_takes_it_back(app: Tenure) -> None:
    mail = app.queue("mail")
    await mail.configure(mode="keyed", group_limit=2, group_limits={"vip": 5}, group_rate="5/s", lease=30)
    await mail.configure(limit=100, rate="10/30s", burst=20, weight=3, max_depth=10_000, grace=1.5)
    config = await mail.config()
    assert (config.mode, config.group_limit, config.group_limits) == ("keyed", 2, {"vip": 5})
    assert (config.group_rate, config.rate, config.burst) == (Rate(5, 1_000), Rate(10, 30_000), 20)
    assert (config.lease, config.grace, config.weight, config.max_depth) == (30_000, 1_500, 3, 10_000)
    await mail.configure(limit=None, rate=None)
    config = await mail.config()
    assert (config.limit, config.rate, config.weight) == (None, None, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limits": 5}, "there is no option 'limits'; did you mean 'limit'?"),
        ({"paused": True}, "there is no option 'paused'"),
        ({"limit": 0}, "limit 0: give an integer from 1"),
        ({"limit": "5"}, "limit '5'"),
        ({"mode": "fifo"}, "mode 'fifo': give 'plain' or 'keyed'"),
        ({"rate": "fast"}, "rate 'fast': give a rate such as"),
        ({"weight": 17}, "weight 17"),
        ({"lease": 0}, "lease 0"),
        ({"lease": "60"}, "lease '60'"),
        ({"group_limits": {"": 1}}, "group ''"),
        ({"group_limits": ["vip"]}, "group_limits .*: give groups with their limits"),
        ({"ordered": "yes"}, "ordered"),
    ],
)
async def test_a_wrong_setting_changes_nothing(app: Tenure, options: dict[str, Any], says: str) -> None:
    await app.queue("mail").configure(limit=7)
    with pytest.raises(InvalidValue, match=says.replace("?", r"\?")):
        await app.queue("mail").configure(**cast(Any, options))
    assert (await app.queue("mail").config()).limit == 7


def test_a_wrong_name_is_refused(app: Tenure) -> None:
    with pytest.raises(InvalidValue, match="queue 'mail box'"):
        app.queue("mail box")


async def test_a_queue_whose_name_begins_like_another_is_another(app: Tenure) -> None:
    await app.queue("mail.slow").configure(limit=1)
    await app.queue("mail").configure(limit=2)
    assert ((await app.queue("mail.slow").config()).limit, (await app.queue("mail").config()).limit) == (1, 2)


async def test_a_tenants_own_setting_goes_before_everyones(app: Tenure, send: Any) -> None:
    await app.queue("mail").configure(max_depth=1)
    await app.tenant("acme").queue("mail").configure(max_depth=2)
    for tenant, most in (("default", 1), ("acme", 2)):
        for n in range(most):
            await send.options(tenant=tenant).enqueue(n)
        with pytest.raises(QueueFull):
            await send.options(tenant=tenant).enqueue()


async def test_a_pause_holds_every_tenant_or_one(app: Tenure, send: Any) -> None:
    await send.enqueue()
    await send.options(tenant="acme").enqueue()
    await app.tenant("acme").queue("mail").pause()
    assert [job.token.tenant for job in await claim(app, "mail", 5)] == ["default"]
    await app.queue("mail").pause()
    await app.tenant("acme").queue("mail").resume()
    assert await claim(app, "mail", 5) == []
    await app.queue("mail").resume()
    assert [job.token.tenant for job in await claim(app, "mail", 5)] == ["acme"]


async def test_a_paused_queue_goes_on_at_a_workers_once_resumed(app: Tenure, send: Any) -> None:
    await app.queue("mail").pause()
    handle = await send.enqueue(7)
    async with app.worker() as worker:
        await worker.idle()
        assert (await handle.get()).status == "ready"
        await app.queue("mail").resume()
        assert await handle.result(5) == 7


async def test_those_who_change_one_queue_at_once_lose_nothing(app: Tenure, between: Between) -> None:
    together = asyncio.Barrier(3)

    async def all_read(verb: Meddle, *args: Any, **kwargs: Any) -> Any:
        found = await verb(*args, **kwargs)
        if len(between.of("list_documents")) <= 3:
            await together.wait()
        return found

    between.meddle["list_documents"] = all_read
    mail = app.queue("mail")
    await asyncio.gather(mail.configure(limit=5), mail.configure(weight=3), mail.pause())
    config = await mail.config()
    assert (config.limit, config.weight, config.paused) == (5, 3, True)
    assert len(between.of("put_document")) >= 5, "who was overtaken read again"


async def test_a_mode_changes_only_while_the_queue_is_empty(app: Tenure, send: Any) -> None:
    handle = await send.enqueue()
    with pytest.raises(ModeConflict, match="the queue isn't empty and stays plain"):
        await app.queue("mail").configure(mode="keyed")
    await handle.cancel()
    await app.queue("mail").configure(mode="keyed")
    with pytest.raises(GroupRequired):
        await send.enqueue()


async def test_a_rate_holds_a_worker_back_by_the_stores_clock(app: Tenure, send: Any, clock: ManualClock) -> None:
    await app.queue("mail").configure(rate="1/s")
    handles = await app.enqueue_many([send.build(n) for n in range(3)])
    async with app.worker() as worker:
        for done in (1, 2, 3):
            await worker.idle()
            assert sum([(await handle.get()).state.terminal for handle in handles]) == done
            clock.advance(1_000)
