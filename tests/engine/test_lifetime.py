"""How long an app keeps its store open."""

import asyncio
from pathlib import Path

import pytest

from tenure import Tenure
from tenure.domain.calls import Claim, Claimed
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Ending

PATIENCE = 10.0


def test_a_block_inside_another_takes_nothing_away(tmp_path: Path) -> None:
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")

    @app.job
    async def ping() -> str:
        return "pong"

    async def main() -> None:
        async with app, app.worker():
            async with app:
                assert await (await ping.enqueue()).result(PATIENCE) == "pong"
            assert await (await ping.enqueue()).result(PATIENCE) == "pong"
        async with app:
            assert len(await app.jobs()) == 2

    asyncio.run(main())


def test_a_worker_keeps_the_store_open_by_itself(tmp_path: Path) -> None:
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")

    @app.job
    async def ping() -> str:
        return "pong"

    async def main() -> None:
        async with app.worker():
            async with app:
                handle = await ping.enqueue()
            assert await handle.result(PATIENCE) == "pong"

    asyncio.run(main())


@pytest.mark.parametrize("has_task", [False, True])
def test_a_job_told_to_end_before_its_first_step_gives_its_slot_back(has_task: bool) -> None:
    app = Tenure("memory://")

    @app.job(queue="elsewhere")
    async def never() -> None:
        raise AssertionError("it was told to end before it began")

    async def main() -> None:
        async with app, app.worker(["here"]) as worker:
            await never.enqueue()
            request = Claim(claim_id=bytes(16), worker="w", queues=(("elsewhere", None),), n=1)
            claimed = await (await app.opened()).claim(request)
            parts = worker._parts
            assert isinstance(claimed, Claimed)
            assert parts is not None
            (hand,) = parts._take(claimed, boottime())
            if has_task:
                parts._begin([hand])
            hand.end(Ending.LOST)
            if not has_task:
                parts._begin([hand])
            await asyncio.wait_for(parts.hands.empty.wait(), PATIENCE)

    asyncio.run(main())
