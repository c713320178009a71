"""How many calls of a worker are on their way at once."""

import asyncio

import pytest

from tenure import Tenure
from tenure.engine.worker.hand import HALVED
from tests.engine.kit import Between


@pytest.mark.parametrize(("slots", "calls"), [(100, 1), (HALVED, 2)], ids=["few slots", "many slots"])
async def test_where_there_is_much_to_do_a_second_call_goes_beside_the_first(
    app: Tenure, between: Between, slots: int, calls: int
) -> None:
    ran, all_ran = 0, asyncio.Event()

    @app.job
    async def work() -> None:
        nonlocal ran
        ran += 1
        if ran == slots:
            all_ran.set()

    await app.enqueue_many([work.build() for _ in range(3 * slots)])
    held = between.hold("exchange")
    async with app.worker(concurrency=slots) as worker:
        await between.called("exchange", calls)
        await all_ran.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(between.of("exchange")) == calls
        held.let_go()
        await worker.idle()
    assert ran == 3 * slots
    claims = [
        request.claim_id for verb, args in between.calls if verb in ("claim", "exchange") for request in args[-1:]
    ]
    assert len(set(claims)) == len(claims)
