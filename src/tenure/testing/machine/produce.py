"""Rules that put jobs in."""

from typing import Any

import msgspec

from tenure.domain.job import Alike, NewJob
from tenure.testing.machine import values
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.rules import rule
from tenure.testing.machine.world import JOB_TYPES, PAYLOADS, World


def sent(world: World) -> bool:
    return bool(world.sent)


def keyed(world: World) -> bool:
    return any(job.key is not None for job in world.sent)


@rule(weight=6)
async def enqueue_one(world: World, dice: Dice) -> None:
    await world.enqueue([values.new_job(world, dice)])


@rule(weight=6)
async def enqueue_batch(world: World, dice: Dice) -> None:
    await world.enqueue(values.batch(world, dice))


@rule(weight=0)
async def enqueue_alike(world: World, dice: Dice) -> None:
    """Jobs of one kind, as a producer of many sends them: as a list, or as columns."""
    jobs = values.alike(world, dice)
    if jobs[0].key is None and dice.chance(50):
        await world.enqueue(Alike(jobs[0], [job.id for job in jobs], [job.payload for job in jobs]))
    else:
        await world.enqueue(jobs, atomic=dice.chance(20))


@rule(weight=0)
async def enqueue_many_tenants(world: World, dice: Dice) -> None:
    """A few jobs each for many tenants, in one call."""
    tenants = dice.some(world.profile.tenants, dice.between(2, len(world.profile.tenants)))
    jobs = [values.new_job(world, dice, tenant=tenant) for tenant in tenants for _ in range(dice.between(1, 3))]
    await world.enqueue(jobs)


@rule(weight=2)
async def enqueue_atomic(world: World, dice: Dice) -> None:
    await world.enqueue(values.batch(world, dice, most=4), atomic=True)


@rule(when=sent)
async def enqueue_again(world: World, dice: Dice) -> None:
    """What was sent before: the same answer, unless it was never kept."""
    jobs = dice.some(world.sent, dice.between(1, 3))
    await world.enqueue(jobs, atomic=dice.chance(20))


@rule(when=sent)
async def enqueue_conflict(world: World, dice: Dice) -> None:
    """A known id with another body."""
    job = dice.recent(world.sent)
    other: tuple[dict[str, Any], ...] = (
        {"payload": job.payload + b" "},
        {"codec": "msgpack"},
        {"job_type": next(kind for kind in JOB_TYPES if kind != job.job_type)},
        {"queue": dice.pick([queue for queue in world.profile.queues if queue != job.queue])},
    )
    await world.enqueue([msgspec.structs.replace(job, **dice.pick(other))])


@rule(weight=2, when=keyed)
async def enqueue_same_key(world: World, dice: Dice) -> None:
    """A new job under a key that was used before, with the same body or another."""
    before = dice.recent([job for job in world.sent if job.key is not None])
    payload = before.payload if dice.chance(75) else dice.pick(PAYLOADS)
    job = msgspec.structs.replace(before, id=world.new_id(), payload=payload, parents=())
    await world.enqueue([_with_another_policy(world, dice, job) if dice.chance(30) else job])


def _with_another_policy(world: World, dice: Dice, job: NewJob) -> NewJob:
    return msgspec.structs.replace(job, **values.uniqueness(world, dice) | {"key": job.key})
