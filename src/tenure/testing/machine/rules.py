"""The table of rules: what a step may do, how often, and when."""

from collections.abc import Awaitable, Callable

import msgspec

from tenure.domain.store import ClockFloor
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.world import World

Action = Callable[[World, Dice], Awaitable[None]]
When = Callable[[World], bool]


class Rule(msgspec.Struct, frozen=True):
    """A named action; `weight` is how many times it stands in the hat where a profile says no other number, `when` what
    it needs to make sense.
    """

    name: str
    action: Action
    weight: int
    when: When


TABLE: dict[str, Rule] = {}


def always(world: World) -> bool:
    return True


def holding(world: World) -> bool:
    """Some token was given out."""
    return bool(world.tokens)


def standing_still(world: World) -> bool:
    """Whether time stands still when the clock goes back. Where only a job's own times do, conformance has tests."""
    return world.pair.floor is ClockFloor.STORE


def thawed(world: World) -> bool:
    return not world.frozen_for


def rule(weight: int = 1, when: When = always) -> Callable[[Action], Action]:
    """Puts an action into the table under its own name."""

    def put(action: Action) -> Action:
        name = action.__name__
        TABLE[name] = Rule(name, action, weight, when)
        return action

    return put
