"""Rules that freeze, dump, load and thaw; and the claim's own law, shown on a copy of the store."""

import msgspec

from tenure.domain.calls import Claimed, DumpItem
from tenure.domain.errors import Refused
from tenure.testing.machine import values
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.lockstep import PAGE, Divergence
from tenure.testing.machine.rules import rule, thawed
from tenure.testing.machine.world import World


@rule(when=thawed)
async def freeze(world: World, dice: Dice) -> None:
    """Then a few steps on the frozen store: renew and settle go on."""
    await world.call("freeze")
    world.frozen_for = dice.between(1, 4)


async def thaw(world: World) -> None:
    world.frozen_for = 0
    await world.call("thaw")


@rule(when=thawed)
async def transfer_unfrozen(world: World, dice: Dice) -> None:
    """What needs a frozen store is refused by any other."""
    verb = dice.pick(("thaw", "dump", "load"))
    await (world.call(verb, [DumpItem("job", b"")]) if verb == "load" else world.call(verb))


@rule()
async def transfer(world: World, dice: Dice) -> None:
    """Moves the store under test to a fresh one and goes on there; the model stays where it is."""
    if world.frozen_for:
        await thaw(world)
    await world.call("freeze")
    from_model, from_store = await world.pair.compare_dumps(dice.pick((1, 7, PAGE)))
    items = from_store if dice.chance(70) else from_model
    await world.pair.transfer(items, dice.pick((1, 10, PAGE)))
    if dice.chance(50):
        world.frozen_for = dice.between(1, 3)
    else:
        await thaw(world)
    await world.look_at_all()


@rule(weight=2, when=thawed)
async def claim_in_two(world: World, dice: Dice) -> None:
    """claim(a + b) = claim(a) then claim(b), without bounds and without time passing: one here, the other on a copy."""
    twin = world.pair.model.copy()
    whole = values.claim(world, dice, bounded=False)
    first = msgspec.structs.replace(whole, claim_id=world.new_claim_id(), n=dice.between(1, 4))
    second = msgspec.structs.replace(whole, claim_id=world.new_claim_id(), n=dice.between(1, 4))
    whole = msgspec.structs.replace(whole, n=first.n + second.n)
    if dice.chance(50):
        at_once = await world.claim(whole)
        one = await twin.claim(first)
        two = await twin.claim(msgspec.structs.replace(second, cursor=_done(one).cursor))
    else:
        one = await world.claim(first)
        two = await world.claim(msgspec.structs.replace(second, cursor=_done(one).cursor))
        at_once = await twin.claim(whole)
    _compare(_done(at_once), _done(one), _done(two))


def _done(claimed: Claimed | Refused) -> Claimed:
    if not isinstance(claimed, Claimed):
        raise Divergence("claim", f"in two parts: {claimed!r}")
    return claimed


def _compare(at_once: Claimed, one: Claimed, two: Claimed) -> None:
    taken = [job.token.ref for job in at_once.jobs]
    parts = [job.token.ref for job in (*one.jobs, *two.jobs)]
    if taken != parts:
        raise Divergence("claim", f"at once {taken} in two parts {parts}")
    if at_once.cursor != two.cursor or at_once.wake_after != two.wake_after:
        told = (at_once.cursor, at_once.wake_after), (two.cursor, two.wake_after)
        raise Divergence("claim", f"cursor and wake_after at once {told[0]} in two parts {told[1]}")
