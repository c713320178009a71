"""Rules of tenants and admins: cancel, move, replay, discard."""

from collections.abc import Callable

import msgspec

from tenure.domain.calls import (
    AnyCommand,
    Cancel,
    Discard,
    Replay,
    Reprioritise,
    RequestCancel,
    Reschedule,
)
from tenure.domain.names import DAY, MINUTE
from tenure.domain.states import State
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.rules import rule
from tenure.testing.machine.values import TTL
from tenure.testing.machine.world import PAYLOADS, World


def known(world: World) -> bool:
    return bool(world.jobs)


def failed(world: World) -> bool:
    return any(view.job.state is State.FAILED for view in world.jobs.values())


async def command(world: World, *commands: AnyCommand) -> None:
    world.touch(*((item.tenant, item.id) for item in commands))
    world.touch(*((item.tenant, item.new_id) for item in commands if isinstance(item, Replay)))
    await world.call("command", list(commands))


@rule(weight=3, when=known)
async def cancel(world: World, dice: Dice) -> None:
    await command(world, _cancel(world, dice))


@rule(when=known)
async def request_cancel(world: World, dice: Dice) -> None:
    await command(world, _request_cancel(world, dice))


@rule(weight=2, when=known)
async def reschedule(world: World, dice: Dice) -> None:
    await command(world, _reschedule(world, dice))


@rule(when=known)
async def reprioritise(world: World, dice: Dice) -> None:
    await command(world, _reprioritise(world, dice))


@rule(weight=2, when=failed)
async def replay(world: World, dice: Dice) -> None:
    await command(world, _replay(world, dice))


@rule(when=failed)
async def replay_again(world: World, dice: Dice) -> None:
    """A replay whose reply was lost, or asked for once more under the same or another id."""
    if not world.replays:
        return await replay(world, dice)
    before = dice.recent(world.replays)
    other_id = before.new_id if dice.chance(70) else world.new_id()
    again = before.again if dice.chance(80) else not before.again
    await command(world, msgspec.structs.replace(before, new_id=other_id, again=again))


@rule(when=failed)
async def discard(world: World, dice: Dice) -> None:
    await command(world, _discard(world, dice))


@rule(when=known)
async def commands_mixed(world: World, dice: Dice) -> None:
    """Several commands at once: each gets its own answer."""
    makers: list[Callable[[World, Dice], AnyCommand]] = [_cancel, _request_cancel, _reschedule, _reprioritise]
    makers += [_replay, _discard]
    await command(world, *(dice.pick(makers)(world, dice) for _ in range(dice.between(2, 4))))


def _cancel(world: World, dice: Dice) -> Cancel:
    states = (State.RUNNING,) if dice.chance(55) else (State.PENDING, State.BLOCKED)
    tenant, id_ = world.any_ref(dice, *states)
    return Cancel(tenant=tenant, id=id_)


def _request_cancel(world: World, dice: Dice) -> RequestCancel:
    states = (State.RUNNING,) if dice.chance(75) else (State.PENDING, State.BLOCKED)
    tenant, id_ = world.any_ref(dice, *states)
    return RequestCancel(tenant=tenant, id=id_)


def _reschedule(world: World, dice: Dice) -> Reschedule:
    tenant, id_ = world.any_ref(dice, State.PENDING)
    if dice.chance(50):
        return Reschedule(tenant=tenant, id=id_, delay=dice.pick((0, 1, TTL, MINUTE)))
    return Reschedule(tenant=tenant, id=id_, run_at=max(0, world.now + dice.pick((-DAY, -1, 0, 1, TTL, DAY))))


def _reprioritise(world: World, dice: Dice) -> Reprioritise:
    tenant, id_ = world.any_ref(dice, State.PENDING)
    return Reprioritise(tenant=tenant, id=id_, priority=dice.pick((-100, 0, 0, 7, 100)))


def _replay(world: World, dice: Dice) -> Replay:
    tenant, id_ = world.any_ref(dice, State.FAILED)
    payload = dice.pick(PAYLOADS) if dice.chance(30) else None
    codec = "msgpack" if payload is not None and dice.chance(30) else None
    taken = [ref[1] for ref in world.jobs if ref[0] == tenant]
    new_id = dice.pick(taken) if taken and dice.chance(6) else world.new_id()
    made = Replay(tenant=tenant, id=id_, new_id=new_id, payload=payload, codec=codec, again=dice.chance(30))
    world.replays.append(made)
    return made


def _discard(world: World, dice: Dice) -> Discard:
    tenant, id_ = world.any_ref(dice, State.FAILED)
    return Discard(tenant=tenant, id=id_)
