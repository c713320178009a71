"""Rules of callers whose calls overlap: two at once, several sent together, a transaction that stays open.

What overlaps is chosen so that the contract says what must come out: two calls that concern the same thing are answered
as one after the other, in either order; what one client sends to a store that queues its calls, in the order sent.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from tenure.domain.calls import Cancel, Claim, Enqueued, Renewal, Settle, Succeed
from tenure.domain.errors import Refused
from tenure.domain.job import NewJob
from tenure.domain.names import Ms
from tenure.domain.states import Mode
from tenure.domain.store import Store
from tenure.testing.machine import values
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.lockstep import Asked, Divergence
from tenure.testing.machine.rules import rule
from tenure.testing.machine.world import World

MOST_HELD = 3
"""Transactions that are open at a time."""

BESIDE = frozenset(
    (
        *("claim", "claim_again", "exchange", "drain", "renew", "succeed_all"),
        *("settle_one", "settle_batch", "settle_twice", "settle_again", "settle_otherwise"),
        *("enqueue_one", "enqueue_batch", "enqueue_alike", "enqueue_many_tenants", "hold_enqueue", "let_go"),
        *("sweep", "pass_time", "pass_to_an_edge", "act_at_the_edge", "act_on_cancelled", "cancel", "get"),
        *("reschedule", "reprioritise", "read_feed", "second_client"),
    )
)
"""Rules whose calls don't wait for a transaction that enqueues; the others come when all have ended."""


class Held(msgspec.Struct):
    """Jobs of a transaction that hasn't ended: the store has numbered them, and nobody else sees them."""

    jobs: Sequence[NewJob]
    at: Ms
    numbers: list[int]
    """What the model keeps free for them."""
    committing: "Committing"
    answered: "asyncio.Task[list[Enqueued | Refused]]"


class Committing:
    """The store for a producer whose enqueue is part of a transaction of its own."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.sent = asyncio.Event()
        self.may_end = asyncio.Event()

    async def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> list[Enqueued | Refused]:
        async with self._store.transaction() as transaction:
            answers: list[Enqueued | Refused] = await self._store.enqueue_in_async(transaction.connection, jobs)
            self.sent.set()
            await self.may_end.wait()
        return answers


# Two clients


@rule(weight=0)
async def two_at_once(world: World, dice: Dice) -> None:
    """Two calls that overlap, of two clients where there are two."""
    made = dice.pick(PAIRS)(world, dice)
    if made is None:
        return
    first, second = made if dice.chance(50) else (made[1], made[0])
    for verb, *args in (first, second):
        world.asked(verb, args)
    for (verb, *args), answer in zip((first, second), await world.pair.at_once(first, second), strict=True):
        world.answered(verb, args, answer)


Pair = tuple[Asked, Asked]


def _enqueues(world: World, dice: Dice) -> Pair | None:
    """Jobs of two tenants: one each where calls are taken up side by side, for their numbers may then alternate."""
    most = 3 if queues_its_calls(world) else 1
    one, other = dice.some(world.profile.tenants, 2)
    return ("enqueue", _jobs(world, dice, one, most)), ("enqueue", _jobs(world, dice, other, most))


def _same_enqueue(world: World, dice: Dice) -> Pair | None:
    """A producer whose first call seemed lost."""
    asked = ("enqueue", _jobs(world, dice, dice.pick(world.profile.tenants), most=3))
    return asked, asked


def _claims(world: World, dice: Dice) -> Pair | None:
    """Of two queues."""
    one, other = dice.some(world.profile.queues, 2)
    return ("claim", _claim_of(world, dice, one)), ("claim", _claim_of(world, dice, other))


def _enqueue_and_claim(world: World, dice: Dice) -> Pair | None:
    """Jobs of one tenant, which the claim takes or doesn't."""
    queue = dice.pick(world.profile.queues)
    job = values.plain_job(world, dice, dice.pick(world.profile.tenants), queue)
    jobs = [msgspec.structs.replace(job, id=world.new_id()) for _ in range(dice.between(1, 5))]
    return ("enqueue", jobs), ("claim", _claim_of(world, dice, queue))


def _same_settle(world: World, dice: Dice) -> Pair | None:
    """A worker whose first call seemed lost."""
    tokens = world.running_together(dice)
    if not tokens:
        return None
    asked = ("settle", [Settle(token, values.succeed(world, dice, token.tenant)) for token in tokens[:4]])
    return asked, asked


def _settle_and_cancel(world: World, dice: Dice) -> Pair | None:
    """Whoever is first."""
    tokens = world.running_together(dice)
    if not tokens:
        return None
    token = dice.pick(tokens)
    settled = Settle(token, values.outcome(world, dice, token.tenant))
    return ("settle", [settled]), ("command", [Cancel(tenant=token.tenant, id=token.job_id)])


def _settle_and_renew(world: World, dice: Dice) -> Pair | None:
    """A renewal that a worker's thread sends while the job ends."""
    tokens = world.running_together(dice)
    if not tokens:
        return None
    token = dice.pick(tokens)
    return ("settle", [Settle(token, values.outcome(world, dice, token.tenant))]), ("renew", [Renewal(token)])


def _settles(world: World, dice: Dice) -> Pair | None:
    """Of two tenants, each on its own."""
    tokens = world.running_together(dice)
    mine = {token.tenant for token in tokens[:1]}
    one, other = (
        [Settle(token, Succeed(b"1")) for token in tokens if (token.tenant in mine) is own] for own in (True, False)
    )
    return (("settle", one), ("settle", other)) if one and other else None


PAIRS = (
    _enqueues,
    _same_enqueue,
    _claims,
    _enqueue_and_claim,
    _same_settle,
    _settle_and_cancel,
    _settle_and_renew,
    _settles,
)


def _jobs(world: World, dice: Dice, tenant: str, most: int) -> list[NewJob]:
    return [values.new_job(world, dice, tenant=tenant) for _ in range(dice.between(1, most))]


def _claim_of(world: World, dice: Dice, queue: str) -> Claim:
    return msgspec.structs.replace(values.claim(world, dice), queues=((queue, None),), tenants=None)


# One client


def queues_its_calls(world: World) -> bool:
    """Whether the store takes up a client's calls in the order sent: one with a server takes them up side by side."""
    capabilities = world.pair.capabilities
    return capabilities is not None and not capabilities.multi_host


@rule(weight=0, when=queues_its_calls)
async def several_in_order(world: World, dice: Dice) -> None:
    """A few calls sent without waiting: they may be written together, and are answered in their order."""
    calls = [_call(world, dice) for _ in range(dice.between(2, 5))]
    for verb, *args in calls:
        world.asked(verb, args)
    for (verb, *args), answer in zip(calls, await world.pair.in_order(calls), strict=True):
        world.answered(verb, args, answer)


def _call(world: World, dice: Dice) -> Asked:
    match dice.between(0, 4):
        case 0 | 1:
            return ("enqueue", values.batch(world, dice))
        case 2:
            return ("claim", values.claim(world, dice))
        case 3 if world.tokens:
            return ("settle", [values.settle(world, dice, world.sort_tokens())])
        case _:
            return ("sweep", 0)


# A user's transaction


def joins(world: World) -> bool:
    """Whether an enqueue can be part of a user's transaction."""
    capabilities = world.pair.capabilities
    return capabilities is not None and capabilities.user_transactions


@rule(weight=0, when=joins)
async def enqueue_joined(world: World, dice: Dice) -> None:
    """A user's transaction enqueues, and commits at once."""
    await let_all_go(world)
    jobs = values.batch(world, dice)
    committing = Committing(world.pair.raw)
    committing.may_end.set()
    world.asked("enqueue", [jobs])
    world.answered("enqueue", [jobs], await world.pair.beside("enqueue", committing, jobs))


# A transaction that stays open


def holds(world: World) -> bool:
    """Whether others go on while a user's transaction is open."""
    capabilities = world.pair.capabilities
    return capabilities is not None and capabilities.user_transactions and capabilities.multi_host


def held(world: World) -> bool:
    return bool(world.held)


@rule(weight=0, when=holds)
async def hold_enqueue(world: World, dice: Dice) -> None:
    """A user's transaction enqueues, and commits some steps later; claims must not lose its jobs meanwhile.

    Only where there is no depth: a store needn't count what others enqueue before the commit (§11, `exact_depth`).
    """
    lanes = sorted({job.job.spec.lane for job in world.jobs.values()})
    lanes = [lane for lane in lanes if world.mode(*lane) is Mode.PLAIN and not world.bounded(*lane)]
    if not lanes or len(world.held) == MOST_HELD or world.frozen_for:
        return
    tenant, queue = dice.pick(lanes)
    jobs = [values.plain_job(world, dice, tenant, queue) for _ in range(dice.between(1, 4))]
    if dice.chance(40):
        jobs = [msgspec.structs.replace(job, priority=dice.pick((-1, 1, 100))) for job in jobs]
    committing = Committing(world.pair.raw)
    answered = asyncio.create_task(world.pair.recorded(cast(Store, committing)).enqueue(jobs))
    sent = asyncio.create_task(committing.sent.wait())
    await asyncio.wait([answered, sent], return_when=asyncio.FIRST_COMPLETED)
    if not sent.done():
        sent.cancel()
        await answered  # what it raised
    numbers = await world.pair.model.number(len(jobs))
    world.held.append(Held(jobs, world.now, numbers, committing, answered))


@rule(weight=0, when=held)
async def let_go(world: World, dice: Dice) -> None:
    """One of the open transactions ends."""
    await _end(world, world.held.pop(int(dice.chance(50)) - 1))


async def let_all_go(world: World) -> None:
    while world.held:
        await _end(world, world.held.pop(0))


async def abandon(world: World) -> None:
    """Ends what is still open after a finding."""
    while world.held:
        one = world.held.pop()
        one.committing.may_end.set()
        await asyncio.wait([one.answered])


async def _end(world: World, one: Held) -> None:
    one.committing.may_end.set()
    answers = await one.answered
    wanted = await world.pair.model.enqueue_as_of(one.jobs, one.at, one.numbers)
    if wanted != answers:
        raise Divergence("enqueue_in", f"model {wanted!r} store {answers!r}")
    world.asked("enqueue", [one.jobs])
    world.answered("enqueue", [one.jobs], answers)
    await world.pair.follow()
