"""A producer process: enqueues as many jobs as it is told to, and tells which ones were acknowledged."""

import asyncio
import random

from tenure.domain.calls import Cancel, Enqueued, RequestCancel
from tenure.domain.job import NewJob, Ref
from tenure.testing.history import RecordingStore
from tests.kills.jobs import job
from tests.kills.plan import Line, Plan, client, insist

CANCELLED = 0.01
"""How many of its jobs a producer calls off again."""


def produce(plan: Plan, name: str, producer: int, start: int, line: Line) -> None:
    """Runs until the line ends. Reads how many jobs to create; writes (next number, created) after each batch."""
    asyncio.run(_produce(plan, name, producer, start, line))


async def _produce(plan: Plan, name: str, producer: int, start: int, line: Line) -> None:
    store = client(plan, name)
    dice = random.Random(f"{plan.seed}/{name}")
    number = start
    while (wanted := await asyncio.to_thread(_read, line)) is not None:
        while wanted > 0:
            jobs = [job(plan.seed, producer, number + offset) for offset in range(min(plan.produced_at_once, wanted))]
            created = await _enqueue(store, jobs)
            number += len(jobs)
            wanted -= len(created)
            line.send((number, created))
            await _cancel(store, dice, created)
    await store.close()


def _read(line: Line) -> int | None:
    try:
        return int(line.recv())
    except EOFError:
        return None


async def _enqueue(store: RecordingStore, jobs: list[NewJob]) -> list[Ref]:
    replies = await insist(lambda: store.enqueue(jobs))
    return [
        (one.tenant, one.id)
        for one, reply in zip(jobs, replies, strict=True)
        if isinstance(reply, Enqueued) and reply.created
    ]


async def _cancel(store: RecordingStore, dice: random.Random, created: list[Ref]) -> None:
    chosen = [ref for ref in created if dice.random() < CANCELLED]
    if chosen:
        verb = dice.choice((Cancel, RequestCancel))
        commands = [verb(tenant=tenant, id=id_) for tenant, id_ in chosen]
        await insist(lambda: store.command(commands))
