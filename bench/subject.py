"""What is measured: one client of a store, or of bare SQLite, that enqueues, claims and settles in batches."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from bench.ceiling import Bare, Row
from bench.ids import uuid7
from tenure.domain.calls import Claim, Claimed, ClaimedJob, Cursor, Document, Enqueued, Settle, Settled, Succeed
from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.job import NewJob
from tenure.domain.names import EVERYONE, MINUTE
from tenure.domain.states import Mode
from tenure.domain.store import Store
from tenure.stores.memory import MemoryStore
from tenure.stores.sql.sqlite import SqliteStore

PAYLOAD = b'{"to":"someone@example.org","template":"welcome","number":12345,"tags":["a","b"]}'
RESULT = b'{"sent":true,"message":"0190-12345"}'
MAIL = "mail"


class Rates(msgspec.Struct, frozen=True):
    """Jobs per second of one run."""

    enqueue: float
    two_calls: float
    """claim, then settle: two calls and two commits a batch."""
    exchange: float
    """settle the last batch and claim the next: one call and one commit a batch."""
    cpu_micros: float
    """Processor time of claim, then settle, in microseconds a job: what doesn't depend on the disk."""


RATES = ("enqueue", "two_calls", "exchange")


class Subject(ABC):
    """Something that is measured; each run starts from nothing, in a folder of its own."""

    name: str

    async def run(self, folder: Path, batch: int, jobs: int) -> Rates:
        """Enqueues all, takes half by claim and settle, half by exchange."""
        half = max(1, jobs // 2 // batch) * batch
        await self.open(folder, batch, 2 * half)
        try:
            enqueue = await _rate(self.enqueue(), 2 * half)
            processor = time.process_time()
            two_calls = await _rate(self.drain(batch, half), half)
            processor = time.process_time() - processor
            return Rates(enqueue, two_calls, await _rate(self.swap(batch, half), half), processor / half * 1e6)
        finally:
            await self.close()

    @abstractmethod
    async def open(self, folder: Path, batch: int, jobs: int) -> None:
        """Makes the store empty and the batches of jobs ready to be sent."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def enqueue(self) -> int:
        """Sends every batch; how many jobs were taken in."""

    @abstractmethod
    async def drain(self, batch: int, jobs: int) -> int:
        """Claims and settles so many jobs, in two calls a batch."""

    @abstractmethod
    async def swap(self, batch: int, jobs: int) -> int:
        """Claims and settles so many jobs, in one call a batch."""


async def _rate(work: Coroutine[Any, Any, int], jobs: int) -> float:
    started = time.perf_counter()
    done = await work
    seconds = time.perf_counter() - started
    if done != jobs:
        raise AssertionError(f"{done} jobs were done, not {jobs}")
    return jobs / seconds


class StoreSubject(Subject):
    """A Tenure store with everything on: events, history, results."""

    queue = MAIL

    async def open(self, folder: Path, batch: int, jobs: int) -> None:
        self._store = self.make(folder)
        await self._store.migrate()
        await self.configure(self._store)
        self._cursor = Cursor()
        self._batches = [
            [self.job(start + offset) for offset in range(min(batch, jobs - start))] for start in range(0, jobs, batch)
        ]

    def make(self, folder: Path) -> Store:
        return SqliteStore(folder / "jobs.db")

    async def configure(self, store: Store) -> None:
        """Nothing to set."""

    def job(self, number: int) -> NewJob:
        return NewJob(tenant="acme", id=uuid7(), queue=self.queue, job_type="send", payload=PAYLOAD)

    async def close(self) -> None:
        await self._store.close()

    async def enqueue(self) -> int:
        taken = 0
        for batch in self._batches:
            replies = await self._store.enqueue(batch)
            taken += sum(1 for reply in replies if isinstance(reply, Enqueued) and reply.created)
        return taken

    async def drain(self, batch: int, jobs: int) -> int:
        done = 0
        while done < jobs:
            claimed = await self._store.claim(self._request(batch))
            done += _count(await self._store.settle(_settles(self._jobs(claimed))))
        return done

    async def swap(self, batch: int, jobs: int) -> int:
        settles = _settles(self._jobs(await self._store.claim(self._request(batch))))
        done = 0
        while done + len(settles) < jobs:
            exchanged = await self._store.exchange(settles, self._request(batch))
            done += _count(exchanged.settled)
            settles = _settles(self._jobs(exchanged.claimed))
        return done + _count(await self._store.settle(settles))

    def _request(self, n: int) -> Claim:
        return Claim(
            claim_id=os.urandom(16),
            worker="bench",
            queues=((self.queue, None),),
            n=n,
            ttl=10 * MINUTE,
            cursor=self._cursor,
        )

    def _jobs(self, claimed: object) -> tuple[ClaimedJob, ...]:
        if not isinstance(claimed, Claimed) or not claimed.jobs:
            raise AssertionError(f"no jobs: {claimed!r}")
        self._cursor = claimed.cursor
        return claimed.jobs


def _settles(jobs: tuple[ClaimedJob, ...]) -> list[Settle]:
    return [Settle(job.token, Succeed(RESULT)) for job in jobs]


def _count(replies: list[Any]) -> int:
    return sum(1 for reply in replies if isinstance(reply, Settled))


class SqlitePlain(StoreSubject):
    """SQLite: one tenant, one plain queue."""

    name = "sqlite"


class SqliteRich(StoreSubject):
    """SQLite: each job with a key, a group and two labels, of 4 tenants, in a keyed queue with a limit per group."""

    name = "sqlite, keys + groups + labels"

    async def configure(self, store: Store) -> None:
        body = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1_000))
        await store.put_document(Document(tenant=EVERYONE, kind=QUEUE, name=self.queue, body=body))

    def job(self, number: int) -> NewJob:
        return NewJob(
            tenant=f"tenant-{number % 4}",
            id=uuid7(),
            queue=self.queue,
            job_type="send",
            payload=PAYLOAD,
            key=f"key-{number}",
            group=f"group-{number % 16}",
            labels={"region": "eu", "customer": f"c{number % 100}"},
        )


class Memory(StoreSubject):
    """The memory store: the same model without a disk."""

    name = "memory"

    def make(self, folder: Path) -> Store:
        return MemoryStore()


class Ceiling(Subject):
    """Bare SQLite: the same rows without the contract."""

    name = "bare SQLite"

    async def open(self, folder: Path, batch: int, jobs: int) -> None:
        self._bare = Bare(folder / "bare.db")
        self._batches = [[uuid7() for _ in range(min(batch, jobs - start))] for start in range(0, jobs, batch)]

    async def close(self) -> None:
        self._bare.close()

    async def enqueue(self) -> int:
        for ids in self._batches:
            self._bare.enqueue(ids, PAYLOAD)
        return sum(map(len, self._batches))

    async def drain(self, batch: int, jobs: int) -> int:
        done = 0
        while done < jobs:
            rows = self._bare.claim(batch)
            self._bare.settle(rows, RESULT)
            done += len(rows)
        return done

    async def swap(self, batch: int, jobs: int) -> int:
        done, rows = 0, self._bare.claim(batch)
        while done + len(rows) < jobs:
            done, rows = done + len(rows), self._next(rows, batch)
        self._bare.settle(rows, RESULT)
        return done + len(rows)

    def _next(self, rows: list[Row], batch: int) -> list[Row]:
        return self._bare.exchange(rows, RESULT, batch)


SUBJECTS: tuple[type[Subject], ...] = (Ceiling, SqlitePlain, SqliteRich, Memory)
