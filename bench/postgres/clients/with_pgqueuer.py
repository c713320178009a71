"""PgQueuer over asyncpg, as its own benchmark drives it."""

import asyncio
import os
import signal
from datetime import timedelta

import asyncpg
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.models import Job

from bench.postgres.clients.shell import Client, main
from bench.worker.board import Marker

URL = os.environ["BENCH_POSTGRES"]
BATCH = int(os.environ["BENCH_CONCURRENCY"])
AT_ONCE = 1_000
CONNECTIONS = 8


class PgQueuerClient(Client):
    """One connection where one call is on its way at a time: a pool resets it after each."""

    async def install(self) -> None:
        await self.open()
        await self._queries.install()
        await self.close()

    async def open(self) -> None:
        self._connection = await asyncpg.connect(URL)
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def close(self) -> None:
        await self._connection.close()

    async def send(self, sent: int) -> None:
        await self._queries.enqueue("noop", b"%d" % sent)

    async def send_many(self, count: int, sent: int) -> None:
        payload = b"%d" % sent
        for start in range(0, count, AT_ONCE):
            size = min(AT_ONCE, count - start)
            await self._queries.enqueue(["noop"] * size, [payload] * size, [0] * size)

    async def together(self, jobs: int, callers: int) -> None:
        single = self._queries
        async with asyncpg.create_pool(URL, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
            self._queries = Queries(AsyncpgPoolDriver(pool))
            await super().together(jobs, callers)
        self._queries = single

    async def work(self) -> None:
        async with asyncpg.create_pool(URL, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
            queue = PgQueuer(AsyncpgPoolDriver(pool))
            mark = Marker()

            @queue.entrypoint("noop")  # type: ignore[untyped-decorator]  # not installed where types are checked
            async def noop(job: Job) -> None:
                mark(int(job.payload or b"0"))

            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)
            await queue.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))


if __name__ == "__main__":
    main(PgQueuerClient())
