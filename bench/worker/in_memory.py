"""The whole worker on the memory store, in one process: what it costs without a disk or a supervisor."""

import asyncio
import time

from tenure import Tenure


def drain(jobs: int) -> float:
    """Jobs a second."""
    return asyncio.run(_drain(jobs))


async def _drain(jobs: int) -> float:
    app = Tenure("memory://")
    ran = 0

    @app.job
    async def noop(sent: int) -> None:
        nonlocal ran
        ran += 1

    async with app:
        for start in range(0, jobs, 1_000):
            await app.enqueue_many([noop.build(0) for _ in range(min(1_000, jobs - start))])
        started = time.perf_counter()
        async with app.worker(concurrency=500) as worker:
            await worker.idle()
            seconds = time.perf_counter() - started
    if ran != jobs:
        raise AssertionError(f"{ran} of {jobs} jobs ran")
    return jobs / seconds
