"""What a client of any queue is asked to do: `python -m bench.postgres.clients.NAME install | produce | work`.

`install` makes the tables. `work` runs a worker until SIGTERM. `produce` reads commands from stdin, a line each, and
answers each with the seconds it took:

    one N            one caller enqueues, each job waited for
    together N M     M callers at once do
    bulk N           the fastest way to enqueue many
    waits N          one after the other with pauses, each with the time it was sent
    pace N SECONDS   N jobs a second for so long, in small batches, each with the time it was sent
"""

import asyncio
import json
import random
import sys
import time
from abc import ABC, abstractmethod

PAUSES = (0.02, 0.06)
"""Seconds between two jobs whose waits are measured: at random, so that no poll falls into step with them."""
BATCHES_A_SECOND = 100

try:
    import uvloop

    run = uvloop.run
except ImportError:
    run = asyncio.run


class Client(ABC):
    """One queue. It is opened and closed in the event loop that uses it."""

    @abstractmethod
    async def install(self) -> None:
        """Makes what the queue keeps in the database."""

    @abstractmethod
    async def open(self) -> None:
        """Connects a producer."""

    @abstractmethod
    async def close(self) -> None:
        """Lets go."""

    @abstractmethod
    async def send(self, sent: int) -> None:
        """Enqueues one job with the time it was sent (0 if nobody asks), and returns when it is in."""

    @abstractmethod
    async def send_many(self, count: int, sent: int) -> None:
        """Enqueues so many, in the fastest way it has."""

    @abstractmethod
    async def work(self) -> None:
        """Runs a worker until SIGTERM."""

    async def one(self, jobs: int) -> None:
        for _ in range(jobs):
            await self.send(0)

    async def together(self, jobs: int, callers: int) -> None:
        await asyncio.gather(*(self.one(jobs // callers) for _ in range(callers)))

    async def bulk(self, jobs: int) -> None:
        await self.send_many(jobs, 0)

    async def waits(self, jobs: int) -> None:
        for _ in range(jobs):
            await self.send(time.monotonic_ns())
            await asyncio.sleep(random.uniform(*PAUSES))

    async def pace(self, rate: int, seconds: int) -> None:
        """Offered, not adapted: whatever the queue doesn't take in time is sent as soon as it does."""
        began = time.monotonic()
        for number in range(seconds * BATCHES_A_SECOND):
            await asyncio.sleep(max(0.0, began + number / BATCHES_A_SECOND - time.monotonic()))
            await self.send_many(rate // BATCHES_A_SECOND, time.monotonic_ns())


async def produce(client: Client) -> None:
    await client.open()
    print(json.dumps({"ready": True}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, *numbers = line.split()
        started = time.perf_counter()
        await getattr(client, name)(*map(int, numbers))
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
    await client.close()


def main(client: Client) -> None:
    verbs = {"install": client.install, "produce": lambda: produce(client), "work": client.work}
    run(verbs[sys.argv[1]]())
