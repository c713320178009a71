"""Rules of the worker: claim, renew, settle, exchange; in time, too late, twice, and with tokens of others."""

import msgspec

from tenure.domain.calls import Cancel, Claim, Release, Renewal, RequestCancel, Settle, Succeed
from tenure.domain.job import Token
from tenure.domain.states import State
from tenure.testing.machine import values
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.rules import holding, rule
from tenure.testing.machine.world import WORKERS, World


def claimed(world: World) -> bool:
    return bool(world.claims)


def settled(world: World) -> bool:
    return bool(world.ended)


def running(world: World) -> bool:
    return any(view.job.state is State.RUNNING for view in world.jobs.values())


@rule(weight=9)
async def claim(world: World, dice: Dice) -> None:
    await world.claim(values.claim(world, dice))


@rule(when=claimed)
async def claim_again(world: World, dice: Dice) -> None:
    """The very same claim: the jobs still running under it, or a claim like any other."""
    await world.claim(dice.recent(world.claims))


@rule(when=claimed)
async def claim_id_reused(world: World, dice: Dice) -> None:
    """A used claim id with other wishes takes nothing while a job runs under it."""
    used = dice.recent(world.claims).claim_id
    await world.claim(msgspec.structs.replace(values.claim(world, dice), claim_id=used))


@rule(weight=4, when=holding)
async def renew(world: World, dice: Dice) -> None:
    tokens = world.sort_tokens()
    count = dice.between(1, min(4, len(tokens.live) + 1))
    renewals = [values.renewal(world, dice, tokens) for _ in range(count)]
    world.touch(*(item.token.ref for item in renewals))
    await world.call("renew", renewals)


@rule(weight=8, when=holding)
async def settle_one(world: World, dice: Dice) -> None:
    await world.settle([values.settle(world, dice, world.sort_tokens())])


@rule(weight=5, when=holding)
async def settle_batch(world: World, dice: Dice) -> None:
    """Good and bad items together: each gets its own answer."""
    await world.settle(_settlements(world, dice, least=2))


@rule(weight=0, when=holding)
async def succeed_all(world: World, dice: Dice) -> None:
    """What one claim took and still runs succeeds together, with the next claim or alone."""
    tokens = world.running_together(dice)
    size = dice.pick((None, 2, 300))
    items = [Settle(token, Succeed(None if size is None else b"9" * size)) for token in tokens]
    if items and dice.chance(25):
        await world.exchange(items, values.claim(world, dice))
    elif items:
        await world.settle(items)


@rule(when=holding)
async def settle_twice(world: World, dice: Dice) -> None:
    """One token twice in a batch: the second sees the first."""
    first = values.settle(world, dice, world.sort_tokens())
    outcome = first.outcome if dice.chance(50) else values.outcome(world, dice, first.token.tenant)
    await world.settle([first, Settle(first.token, outcome)])


@rule(when=settled)
async def settle_again(world: World, dice: Dice) -> None:
    """A settle whose reply was lost, sent again."""
    token = dice.recent(list(world.ended))
    await world.settle([Settle(token, world.ended[token])])


@rule(when=settled)
async def settle_otherwise(world: World, dice: Dice) -> None:
    """A lease that was ended, ended again in another way."""
    token = dice.recent(list(world.ended))
    await world.settle([Settle(token, values.outcome(world, dice, token.tenant))])


@rule(weight=6)
async def exchange(world: World, dice: Dice) -> None:
    await world.exchange(_settlements(world, dice, least=0), _exchange_claim(world, dice))


def _settlements(world: World, dice: Dice, least: int) -> list[Settle]:
    """About as many as are held."""
    tokens = world.sort_tokens()
    count = dice.between(least, max(least, min(6, len(tokens.live) + 1)))
    return [values.settle(world, dice, tokens) for _ in range(count)]


def _exchange_claim(world: World, dice: Dice) -> Claim:
    if world.claims and dice.chance(10):
        return dice.recent(world.claims)
    return values.claim(world, dice)


@rule(weight=2, when=running)
async def act_at_the_edge(world: World, dice: Dice) -> None:
    """At lease_until + grace the holder may still act and sweep may not; a millisecond later the reverse."""
    tokens = world.sort_tokens().live
    if not tokens:
        return
    token = dice.recent(tokens)
    lease = world.jobs[token.ref].job.lease
    assert lease is not None
    world.pair.clock.now = max(world.now, lease.deadline + dice.pick((0, 1, 1)))
    if dice.chance(40):
        await world.call("sweep", 0)
    await _act(world, dice, token)


@rule(weight=2, when=running)
async def act_on_cancelled(world: World, dice: Dice) -> None:
    """Cancel wins: whatever the holder says after it is refused, and its release frees the slot."""
    tokens = world.sort_tokens().live
    if not tokens:
        return
    token = dice.recent(tokens)
    command = (Cancel if dice.chance(75) else RequestCancel)(tenant=token.tenant, id=token.job_id)
    await world.call("command", [command])
    await _act(world, dice, token)


async def _act(world: World, dice: Dice, token: Token) -> None:
    """Whatever a holder can do with its token."""
    world.touch(token.ref)
    if dice.chance(25):
        await world.call("renew", [Renewal(token)])
    elif dice.chance(30):
        await world.settle([Settle(token, Release())])
    elif dice.chance(30):
        await world.exchange([Settle(token, values.outcome(world, dice, token.tenant))], values.claim(world, dice))
    else:
        await world.settle([Settle(token, values.outcome(world, dice, token.tenant))])


@rule(weight=3, when=running)
async def drain(world: World, dice: Dice) -> None:
    """A worker takes all it can of everything and ends well all that it holds."""
    held = [Settle(token, values.succeed(world, dice, token.tenant)) for token in world.sort_tokens().live[-7:]]
    request = values.claim(world, dice)
    everything = tuple((queue, None) for queue in world.profile.queues)
    await world.exchange(held, msgspec.structs.replace(request, queues=everything, n=7, worker=dice.pick(WORKERS)))
