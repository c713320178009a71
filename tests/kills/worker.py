"""A worker process: claims batches, holds them for a moment, settles them; sweeps beside it."""

import asyncio
import os
import random
from contextlib import suppress
from functools import partial

from tenure.domain.calls import (
    Claim,
    Claimed,
    ClaimedJob,
    Cursor,
    Fail,
    Outcome,
    Release,
    Renewal,
    Retry,
    Settle,
    Succeed,
)
from tenure.domain.errors import Refused
from tenure.domain.job import Failure, NewJob, Progress
from tenure.domain.names import Ms
from tenure.domain.store import queue_topic
from tenure.testing.history import RecordingStore
from tests.kills.jobs import MAIL, POISON, QUEUES, TENANTS
from tests.kills.plan import Line, Plan, client, insist

IDLE_SECONDS = 0.5
STALLED = 0.01
"""How many batches are held until their leases are lost, by a worker that lives."""
TOPICS = [queue_topic(queue) for queue in QUEUES]


def work(plan: Plan, name: str, line: Line) -> None:
    """Runs until the line ends; writes how many leases it holds whenever it begins to hold some."""
    asyncio.run(_work(plan, name, line))


async def _work(plan: Plan, name: str, line: Line) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(line.fileno(), stop.set)
    worker = Worker(plan, name, line)
    sweeper = asyncio.create_task(_sweep(worker.store, plan.ttl // 3, stop))
    while not stop.is_set() and not sweeper.done():
        await worker.turn()
    await worker.let_go()
    await sweeper
    await worker.store.close()


async def _sweep(store: RecordingStore, interval: Ms, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await insist(lambda: store.sweep(interval))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), interval / 1_000)


class Worker:
    """Claims, works, settles. Chance decides what becomes of a job, and which verbs are used."""

    def __init__(self, plan: Plan, name: str, line: Line) -> None:
        self.store = client(plan, name)
        self._plan = plan
        self._name = name
        self._line = line
        self._dice = random.Random(f"{plan.seed}/{name}")
        self._cursor = Cursor(self._dice.choice(TENANTS))
        self._ended: list[Settle] = []
        self._carried = 0

    async def turn(self) -> None:
        """Settles the last batch, claims the next, works on it."""
        claimed = await self._exchange()
        self._cursor = claimed.cursor
        if not claimed.jobs:
            wake = IDLE_SECONDS if claimed.wake_after is None else min(IDLE_SECONDS, claimed.wake_after / 1_000)
            await self.store.wait(TOPICS, wake)
            return
        self._line.send(len(claimed.jobs))
        await self._hold(claimed)
        self._ended = [Settle(job.token, self._outcome(job)) for job in claimed.jobs]

    async def let_go(self) -> None:
        await self._settle(self._ended)

    async def _settle(self, ended: list[Settle]) -> None:
        if ended:
            await insist(lambda: self.store.settle(ended))

    async def _exchange(self) -> Claimed:
        ended, self._ended = self._ended, []
        if ended and self._dice.random() < 0.5:
            await self._settle(ended)
            ended = []
        reply = await insist(partial(self._claim, ended, self._request()))
        assert isinstance(reply, Claimed), reply
        return reply

    async def _claim(self, ended: list[Settle], request: Claim) -> Claimed | Refused:
        return (await self.store.exchange(ended, request)).claimed if ended else await self.store.claim(request)

    def _request(self) -> Claim:
        return Claim(
            claim_id=os.urandom(16),
            worker=self._name,
            queues=tuple((queue, None) for queue in QUEUES),
            n=self._dice.randint(1, self._plan.batch),
            ttl=self._plan.ttl,
            grace=self._plan.grace,
            cursor=self._cursor,
        )

    async def _hold(self, claimed: Claimed) -> None:
        """The work. A stalled worker holds its leases past their end: its settles must be refused."""
        if self._dice.random() < STALLED:
            await asyncio.sleep((self._plan.ttl + self._plan.grace + 300) / 1_000)
            return
        seconds = self._dice.uniform(0, self._plan.hold_seconds)
        await asyncio.sleep(seconds / 2)
        if self._dice.random() < 0.2:
            progress = Progress(0.5) if self._dice.random() < 0.5 else None
            renewals = [Renewal(job.token, progress) for job in claimed.jobs]
            await insist(lambda: self.store.renew(renewals))
        await asyncio.sleep(seconds / 2)

    def _outcome(self, job: ClaimedJob) -> Outcome:
        chance = self._dice.random()
        if job.job.spec.job_type == POISON or chance < 0.06:
            return Retry(Failure("Broken", "by chance"), delay=self._dice.choice((0, 50, 300)))
        if chance < 0.07:
            return Fail(Failure("Broken", "for good"))
        if chance < 0.10:
            return Release(delay=self._dice.choice((0, 0, 50)), reason="snooze")
        if chance < 0.11:
            return Succeed(jobs=(self._follow_up(job),))
        return Succeed(b'{"done":true}' if chance < 0.5 else None)

    def _follow_up(self, job: ClaimedJob) -> NewJob:
        """A job carried by a success: it exists exactly if the success counted."""
        self._carried += 1
        digits = f"{self._dice.getrandbits(48):012x}"
        id_ = f"01900000-0000-7000-9{self._carried % 4096:03x}-{digits}"
        return NewJob(tenant=job.token.tenant, id=id_, queue=MAIL, job_type="work", payload=b"[]", max_attempts=12)
