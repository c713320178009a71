"""Waiting for results: typed, never hanging on a lost hint, and clear about what there is not."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tenure import Fail, Handle, InvalidValue, JobCancelled, JobFailed, ResultGone, ResultTimeout, Tenure
from tenure.domain.errors import StoreUnavailable
from tenure.domain.job import Failure
from tenure.testing.clock import ManualClock
from tests.engine.kit import Between, Meddle


@dataclass
class Receipt:
    number: int
    lines: list[str]


class Point(msgspec.Struct):
    x: float
    y: float


AT = datetime(2027, 1, 15, 8, tzinfo=UTC)
ID = UUID("01900000-0000-7000-8000-000000000001")


async def test_a_result_comes_back_in_its_type(app: Tenure) -> None:
    @app.job
    async def receipt() -> Receipt:
        return Receipt(7, ["a", "b"])

    @app.job
    async def when() -> datetime:
        return AT

    @app.job
    async def who() -> UUID:
        return ID

    @app.job
    async def raw() -> bytes:
        return b"\0\xff"

    @app.job(result_codec="msgpack")
    def point() -> Point:
        return Point(1.5, -2)

    @app.job
    async def maybe() -> int | None:
        return None

    async with app.worker():
        assert await receipt.call() == Receipt(7, ["a", "b"])
        assert await when.call() == AT
        assert await who.call() == ID
        assert await raw.call() == b"\0\xff"
        assert await point.call() == Point(1.5, -2)
        assert await maybe.call() is None


async def test_a_job_that_gives_nothing_keeps_nothing(app: Tenure, clock: ManualClock) -> None:
    @app.job
    async def work() -> None: ...

    handle: Handle[Any] = await work.enqueue()
    async with app.worker():
        assert await handle.result(5) is None
    assert (await app.view(handle.id)).result is None
    clock.advance(24 * 3_600_000)
    assert await handle.result(5) is None


async def test_a_result_is_typed_also_for_who_knows_only_the_id(app: Tenure) -> None:
    @app.job
    async def receipt() -> Receipt:
        return Receipt(7, [])

    handle = await receipt.enqueue()
    async with app.worker():
        assert await app.handle(handle.id).result(5) == Receipt(7, [])
    stranger = Tenure(store=await app.opened())
    assert await stranger.handle(handle.id).result(5) == {"number": 7, "lines": []}


async def test_a_failed_job_says_why(app: Tenure) -> None:
    @app.job
    async def refuse() -> None:
        raise Fail("no such mailbox")

    @app.job(max_attempts=1)
    async def stumble() -> None:
        raise KeyError("name")

    async with app.worker():
        with pytest.raises(JobFailed, match=r"failed \(permanent\): Fail: no such mailbox") as permanent:
            await refuse.call()
        with pytest.raises(JobFailed, match=r"failed \(exhausted\): KeyError: 'name'") as exhausted:
            await stumble.call()
    assert permanent.value.error == Failure("Fail", "no such mailbox")
    assert (exhausted.value.reason, exhausted.value.error) == ("exhausted", Failure("KeyError", "'name'"))


async def test_a_cancelled_job_says_so(app: Tenure) -> None:
    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    waiting = asyncio.create_task(handle.result(5))
    await asyncio.sleep(0)
    await handle.cancel()
    with pytest.raises(JobCancelled):
        await waiting


async def test_a_timeout_leaves_the_job_alone(app: Tenure) -> None:
    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    with pytest.raises(ResultTimeout, match=r"hasn't ended after 0.01 s; it goes on"):
        await handle.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        await work.options(call_timeout=0.01).call()
    assert [job.state for job in await app.jobs()] == ["pending", "pending"]
    async with app.worker():
        assert await handle.result(5) == 1


async def test_a_timeout_of_zero_looks_once(app: Tenure) -> None:
    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    with pytest.raises(ResultTimeout):
        await handle.result(0)
    async with app.worker():
        await handle.result(5)
    assert await handle.result(0) == 1


@pytest.mark.parametrize("timeout", [-1, "5", float("inf")])
async def test_a_timeout_that_is_none_is_refused(app: Tenure, timeout: Any) -> None:
    with pytest.raises(InvalidValue, match="timeout"):
        await app.handle(str(ID)).result(timeout)


async def test_a_result_past_its_time_is_gone(app: Tenure, clock: ManualClock) -> None:
    @app.job(result_ttl=10)
    async def work() -> int:
        return 1

    @app.job(result_ttl=0)
    async def forget() -> int:
        return 1

    async with app.worker():
        handle = await work.enqueue()
        assert await handle.result(5) == 1
        with pytest.raises(ResultGone, match=r"it keeps none \(result_ttl\)"):
            await forget.call()
    clock.advance(10_000)
    with pytest.raises(ResultGone, match="its result was kept for 10 s"):
        await handle.result(5)


async def test_the_call_of_a_duplicate_attaches(app: Tenure) -> None:
    ran: list[int] = []

    @app.job(key="k")
    async def work(n: int) -> int:
        ran.append(n)
        return n

    first = await work.enqueue(7)
    calls = [asyncio.create_task(work.call(7)) for _ in range(3)]
    async with app.worker():
        assert await asyncio.gather(first.result(5), *calls) == [7, 7, 7, 7]
    assert ran == [7]


async def test_a_lost_hint_hangs_nobody(app: Tenure, between: Between) -> None:
    """Truth is the record: a store that never hints is looked at again and again."""

    async def deaf(verb: Meddle, topics: Any, timeout_seconds: float) -> bool:
        await asyncio.sleep(timeout_seconds)
        return False

    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    between.meddle["wait"] = deaf
    waiting = asyncio.create_task(handle.result(10))
    async with app.worker():
        assert await waiting == 1


async def test_hints_that_cant_be_had_dont_hide_the_result(app: Tenure, between: Between) -> None:
    async def broken(verb: Meddle, *args: Any) -> bool:
        raise StoreUnavailable("no hints")

    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    between.meddle["wait"] = broken
    waiting = asyncio.create_task(handle.result(10))
    async with app.worker():
        assert await waiting == 1
    assert await handle.result(5) == 1


async def test_a_hint_before_the_first_look_isnt_missed(app: Tenure, between: Between) -> None:
    """Subscribe, then read: a job that ends between the two is seen by the hint, without waiting for a poll."""

    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    looked = between.hold("get")
    waiting = asyncio.create_task(handle.result(10))
    await looked.came.wait()
    assert [verb for verb, _ in between.calls][-2:] == ["wait", "get"]
    assert between.of("wait") == [[f"job/default/{handle.id}"]]
    looked.let_go()
    async with app.worker():
        assert await waiting == 1


async def test_a_cancelled_waiter_is_cancelled(app: Tenure, between: Between) -> None:
    @app.job
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    for verb in ("wait", "get"):
        held = between.hold(verb)
        waiting = asyncio.create_task(handle.result())
        await held.came.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        held.let_go()
    assert (await handle.get()).state == "pending"
