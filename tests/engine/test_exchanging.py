"""How many calls of a worker are on their way at once."""

import asyncio

import pytest

from tenure import Tenure
from tenure.domain.calls import Claim, Claimed, Cursor
from tenure.domain.states import State
from tenure.engine.worker.exchanger import SOME
from tenure.engine.worker.hand import HALVED
from tenure.engine.worker.renewer import Renewer
from tests.engine.kit import Between


@pytest.mark.parametrize(
    ("slots", "crowded", "calls", "begun"),
    [(100, False, 1, 100), (HALVED, False, 2, HALVED), (HALVED, True, 1, HALVED // 2)],
    ids=["few slots", "many slots", "more processes than cores"],
)
async def test_where_there_is_much_to_do_a_second_call_goes_beside_the_first(
    app: Tenure, between: Between, slots: int, crowded: bool, calls: int, begun: int
) -> None:
    ran, all_ran = 0, asyncio.Event()

    @app.job
    async def work() -> None:
        nonlocal ran
        ran += 1
        if ran == begun:
            all_ran.set()

    await app.enqueue_many([work.build() for _ in range(3 * slots)])
    held = between.hold("exchange")
    worker = app.worker(concurrency=slots)
    worker.kept_by(Renewer(await app.opened()), crowded=crowded)
    async with worker:
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


@pytest.mark.parametrize("queues", [["default"], {"default": HALVED}], ids=["slots for all", "slots of its own"])
async def test_two_claims_at_once_ask_for_no_more_than_there_are_slots(
    app: Tenure, between: Between, queues: list[str] | dict[str, int]
) -> None:
    ran, all_ran, go = 0, asyncio.Event(), asyncio.Event()

    @app.job
    async def work() -> None:
        nonlocal ran
        ran += 1
        if ran == HALVED:
            all_ran.set()
        await go.wait()

    await app.enqueue_many([work.build() for _ in range(3 * HALVED)])
    async with app.worker(queues, concurrency=HALVED) as worker:
        await all_ran.wait()
        assert sum(request.n for request in between.of("claim")) == HALVED
        go.set()
        await worker.idle()
    assert ran == 3 * HALVED


async def test_a_worker_isnt_idle_while_another_call_is_on_its_way(app: Tenure) -> None:
    """It may bring jobs, or settle the last ones."""
    async with app.worker(["default"]) as worker:
        await worker.idle()
        assert worker._parts is not None
        exchanger = worker._parts.exchanger
        request = Claim(claim_id=bytes(16), worker="w", queues=(("default", None),), n=1)
        nothing = Claimed((), Cursor(), 0)
        exchanger.idle.clear()
        turns, exchanger._turns = exchanger._turns, [asyncio.create_task(asyncio.sleep(0)) for _ in range(2)]
        exchanger._got(request, nothing)
        exchanger._turns = turns
        assert not exchanger.idle.is_set()


async def test_jobs_of_a_claim_begin_some_at_a_time(app: Tenure) -> None:
    """So that another call can go on between them."""
    begun, between = 0, list[int]()

    @app.job
    async def work() -> None:
        nonlocal begun
        begun += 1
        asyncio.get_running_loop().call_soon(lambda: between.append(begun))

    await app.enqueue_many([work.build() for _ in range(3 * SOME)])
    async with app.worker(concurrency=4 * SOME) as worker:
        await worker.idle()
    assert sorted(set(between)) == [SOME, 2 * SOME, 3 * SOME]


async def test_what_a_stopped_worker_has_claimed_and_not_begun_is_given_back(app: Tenure) -> None:
    ran = 0

    @app.job
    async def work() -> None:
        nonlocal ran
        ran += 1
        worker.stop()

    handles = await app.enqueue_many([work.build() for _ in range(20 * SOME)])
    worker = app.worker(concurrency=20 * SOME)
    await asyncio.wait_for(worker.run(), 30)
    states = [(await handle.get()).state for handle in handles]
    assert states.count(State.SUCCEEDED) == ran
    assert 0 < states.count(State.PENDING) == len(handles) - ran
