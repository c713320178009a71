"""Chancy, with jobs on the worker's own event loop."""

import logging
import os

from chancy import Chancy, Job, Queue, Worker

from bench.postgres.clients.shell import Client, main

URL = os.environ["BENCH_POSTGRES"]
CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])
SETTLE_SECONDS = 0.05
"""Its default is a second; the drain ends when the last job is settled, so a short one is better for it."""

JOB = Job(func="bench.postgres.clients.chancy_jobs.noop")


class ChancyClient(Client):
    def __init__(self) -> None:
        log = logging.getLogger("chancy")
        log.setLevel(logging.ERROR)
        self._app = Chancy(URL, log=log)

    async def install(self) -> None:
        async with self._app as app:
            await app.migrate()
            await app.declare(
                Queue(
                    "default",
                    executor=Chancy.Executor.Async,
                    concurrency=CONCURRENCY,
                    polling_interval=1,
                    eager_polling=True,
                )
            )

    async def open(self) -> None:
        await self._app.__aenter__()

    async def close(self) -> None:
        await self._app.__aexit__(None, None, None)

    async def send(self, sent: int) -> None:
        await self._app.push(JOB.with_kwargs(sent=sent))

    async def send_many(self, count: int, sent: int) -> None:
        async for _ in self._app.push_many([JOB.with_kwargs(sent=sent)] * count):
            pass

    async def work(self) -> None:
        async with self._app as app, Worker(app) as worker:
            worker.send_outgoing_interval = SETTLE_SECONDS
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    main(ChancyClient())
