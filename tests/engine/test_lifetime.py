"""How long an app keeps its store open."""

import asyncio
from pathlib import Path

from tenure import Tenure
from tenure.domain.calls import Claim, Claimed
from tenure.domain.errors import Refused
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Ending
from tenure.stores.memory import MemoryStore

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


def test_a_job_whose_lease_ended_before_it_began_gives_its_slot_back(tmp_path: Path) -> None:
    """The claim's reply was so late that nobody may run what it brought."""
    ran: list[int] = []

    class Late(MemoryStore):
        async def claim(self, request: Claim) -> Claimed | Refused:
            claimed = await super().claim(request)
            if isinstance(claimed, Claimed) and claimed.jobs and not late.is_set():
                late.set()
                await asyncio.sleep(0.3)
            return claimed

    late = asyncio.Event()
    app = Tenure(store=Late())

    @app.job(lease=0.2, grace=0)
    async def note(number: int) -> None:
        ran.append(number)

    async def main() -> None:
        async with app, app.worker(concurrency=1, lease=0.3, grace=0):
            handle = await note.enqueue(1)
            await handle.result(PATIENCE)
            assert [lease.outcome for lease in (await handle.get()).history] == ["lease_lost", "succeeded"]

    asyncio.run(main())
    assert ran == [1]


def test_a_job_told_to_end_before_its_first_step_gives_its_slot_back() -> None:
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
            parts._take(claimed.jobs[0], boottime())
            for hand in parts.hands:
                hand.end(Ending.LOST)
            await asyncio.wait_for(parts.hands.empty.wait(), PATIENCE)

    asyncio.run(main())
