"""Procrastinate over psycopg."""

import os

from bench.postgres.clients.procrastinate_jobs import app, noop
from bench.postgres.clients.shell import Client, main

CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])
AT_ONCE = 1_000


class ProcrastinateClient(Client):
    async def install(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def send(self, sent: int) -> None:
        await noop.defer_async(sent=sent)

    async def send_many(self, count: int, sent: int) -> None:
        for start in range(0, count, AT_ONCE):
            await noop.batch_defer_async(*({"sent": sent} for _ in range(min(AT_ONCE, count - start))))

    async def work(self) -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=CONCURRENCY)


if __name__ == "__main__":
    main(ProcrastinateClient())
