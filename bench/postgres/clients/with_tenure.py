"""Tenure, everything on. Its worker is `tenure worker`; `work` is one without a supervisor."""

import asyncio
import os
import signal

from bench.postgres.clients.shell import Client, main
from bench.postgres.clients.tenure_jobs import app, noop

CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])


class TenureClient(Client):
    """The app's own surface."""

    async def install(self) -> None:
        async with app:  # which makes the schema
            pass

    async def open(self) -> None:
        await app.__aenter__()

    async def close(self) -> None:
        await app.__aexit__(None, None, None)

    async def send(self, sent: int) -> None:
        await noop.enqueue(sent)

    async def send_many(self, count: int, sent: int) -> None:
        await app.enqueue_many(noop.build(sent) for _ in range(count))

    async def work(self) -> None:
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        async with app, app.worker(concurrency=CONCURRENCY):
            await ended.wait()


if __name__ == "__main__":
    main(TenureClient())
