"""Hints wake whoever waits, and take nothing else away from them."""

import asyncio

from tenure.domain.store import CANCELS, EVERYTHING
from tenure.stores.hints import Hints


def test_a_wait_cancelled_at_the_moment_of_a_hint_is_cancelled() -> None:
    async def main() -> bool:
        hints = Hints()
        waiter = asyncio.create_task(hints.wait(["x"], 5))
        await asyncio.sleep(0)
        hints.tell(["x"])  # it has come, its waiter hasn't run yet
        waiter.cancel()
        await asyncio.wait([waiter])
        return waiter.cancelled()

    assert asyncio.run(main())


def test_a_hint_from_another_thread_wakes_who_waits_on_a_loop() -> None:
    async def main() -> bool:
        hints = Hints()
        waiter = asyncio.create_task(hints.wait(["x"], 60))
        await asyncio.sleep(0)
        await asyncio.to_thread(hints.tell, ["x"])
        return await waiter

    assert asyncio.run(main())


def test_a_hint_about_everything_says_nothing_of_cancels() -> None:
    """Every commit of another process may be one: no worker asks about its jobs for that."""

    async def main() -> None:
        hints = Hints()
        cancels, others = (asyncio.create_task(hints.wait([topic], 60)) for topic in (CANCELS, "x"))
        await asyncio.sleep(0)
        hints.tell([EVERYTHING])
        assert await others
        assert not cancels.done()
        hints.tell([EVERYTHING, CANCELS])
        assert await cancels

    asyncio.run(main())


def test_a_wait_without_a_hint_ends_by_itself() -> None:
    assert asyncio.run(Hints().wait(["x"], 0)) is False
