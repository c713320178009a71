"""Runs the rules under Hypothesis: it chooses which rules an example has, and in which order they come."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, Verbosity, settings, strategies
from hypothesis import seed as seeded
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import RuleBasedStateMachine, precondition, run_state_machine_as_test
from hypothesis.stateful import rule as hypothesis_rule

from tenure.domain.calls import Document, JobFilter
from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.names import EVERYONE, SYSTEM
from tenure.domain.states import Mode
from tenure.testing.checker import Violation
from tenure.testing.factory import StoreFactory
from tenure.testing.machine import commands, lease, operate, overlap, produce, transfer, values
from tenure.testing.machine.dice import SPAN, Dice
from tenure.testing.machine.lockstep import PAGE, Divergence, Lockstep
from tenure.testing.machine.profiles import MIXED, Profile
from tenure.testing.machine.rules import TABLE, Rule, always
from tenure.testing.machine.tally import Tally
from tenure.testing.machine.world import World

RULES = (commands, lease, operate, overlap, produce, transfer)
"""Imported for the rules they put into the table."""

LENGTH = 80
"""Steps in one example, that is, in the life of one store."""

TOLD = 25
"""How many of the last calls a finding shows."""


BACKEND = "tenure"


class FreshProvider(HypothesisProvider):
    """Draws every example anew.

    Left to itself Hypothesis makes five of six examples by changing one step of the one before: measured here, that
    spends most of the time on worlds already seen. And it would now and then draw a number that stands somewhere in the
    code: a seed would mean something else after every change of it.
    """

    def _maybe_draw_constant(self, *_: Any, **__: Any) -> None:
        return None


AVAILABLE_PROVIDERS[BACKEND] = FreshProvider


class Machine(RuleBasedStateMachine):
    """One example: a world of its own, on an event loop of its own."""

    profile = MIXED

    def __init__(self, factory: StoreFactory, tally: Tally) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.tally = tally
        self.dice = Dice()
        self.pair = Lockstep(factory, tally.way, sequential=self.profile.sequential)
        self.world = World(self.pair, tally, self.profile)
        self.finding: Exception | None = None
        self.opened = False

    def begin(self, number: int) -> None:
        """Opens the stores; most often makes one queue keyed and sets a worker to work."""
        self.opened = True
        self.loop.run_until_complete(self._begin(self.dice.roll(number)))

    async def _begin(self, dice: Dice) -> None:
        await self.pair.open()
        self.world.rule = "begin"
        for lane in self.profile.lanes if dice.chance(90) else ():
            config = QueueConfig(mode=Mode.KEYED, group_limit=dice.pick((None, 1, 2)), ordered=dice.pick((None, True)))
            body = msgspec.json.encode(config)
            await self.world.put_document(Document(tenant=EVERYONE, kind=QUEUE, name=lane, body=body))
        if dice.chance(80):
            await self.world.enqueue(values.batch(self.world, dice))
            await self.world.claim(values.claim(self.world, dice))
        await self.world.look()

    def step(self, rule: Rule, number: int) -> None:
        """One step, and a look at what it did."""
        try:
            if not self.opened:
                self.begin(number)
            self.loop.run_until_complete(self._step(rule, self.dice.roll(number)))
        except Exception as error:
            self.finding = error
            raise

    async def _step(self, rule: Rule, dice: Dice) -> None:
        world = self.world
        self.tally.step(rule.name)
        world.rule = rule.name
        await self._thaw()
        if rule.name not in overlap.BESIDE:
            await overlap.let_all_go(world)
        self.pair.client = self.pair.other if self.pair.other and dice.chance(30) else self.pair.store
        await rule.action(world, dice)
        await world.look()

    async def _thaw(self) -> None:
        """A freeze ends by itself after a few steps."""
        if self.world.frozen_for:
            self.world.frozen_for -= 1
            if not self.world.frozen_for:
                await transfer.thaw(self.world)

    def teardown(self) -> None:
        """The last look, at everything; then the stores go."""
        try:
            if self.opened:
                self.loop.run_until_complete(self._end())
        except Exception as error:
            self.finding = self.finding or error
            raise
        finally:
            self.loop.close()

    async def _end(self) -> None:
        try:
            if self.finding is None:
                await self._last_look()
                self.tally.examples += 1
        finally:
            await overlap.abandon(self.world)
            await self.pair.close()

    async def _last_look(self) -> None:
        self.world.rule = "end"
        await overlap.let_all_go(self.world)
        if self.world.frozen_for:
            await transfer.thaw(self.world)
        await self.world.look_at_all()
        await operate.query_all(self.world, JobFilter(), PAGE)
        for tenant in (None, *self.profile.tenants, SYSTEM):
            await self.pair.read_again(tenant, None, PAGE)
        await self.pair.call("freeze")
        await self.pair.compare_dumps(PAGE)
        await self.pair.verify()
        self.pair.checker.finish()


def _method(rule: Rule) -> Callable[[Machine, int], None]:
    """The rule as Hypothesis wants it: a method that is given one number."""

    def step(machine: Machine, number: int) -> None:
        machine.step(rule, number)

    def ready(machine: Machine) -> bool:
        return rule.when(machine.world)

    step.__name__ = rule.name
    made = hypothesis_rule(number=strategies.integers(0, SPAN - 1))(step)
    return precondition(ready)(made) if rule.when is not always else made


def _machine_class(profile: Profile) -> type[Machine]:
    """The machine with the rules of a profile, each as often as it weighs there."""
    if unknown := profile.rules.keys() - TABLE.keys():
        raise ValueError(f"profile {profile.name} names rules that aren't there: {', '.join(sorted(unknown))}")
    methods: dict[str, Any] = {"profile": profile}
    for rule in TABLE.values():
        weight = profile.rules.get(rule.name, rule.weight if profile.others else 0)
        for copy in range(weight):
            methods[f"{rule.name}_{copy}"] = _method(rule)
    return type("TenureMachine", (Machine,), methods)


def run_machine(
    factory: StoreFactory,
    *,
    steps: int,
    seed: int = 0,
    profile: Profile = MIXED,
    tally: Tally | None = None,
    shrink: bool = False,
) -> Tally:
    """Runs at least `steps` steps. Raises the first `Divergence` or `Violation`, with the calls that led to it.

    The same factory, profile, steps and seed make the same run, but for calls that overlap: a server decides which is
    first. `shrink` looks for a shorter run that fails: that takes long.
    """
    tally = tally if tally is not None else Tally()
    goal = tally.steps + steps
    while tally.steps < goal:
        _run(factory, profile, goal - tally.steps, seed, tally, shrink)
        seed += 1_000_003
    return tally


def _run(factory: StoreFactory, profile: Profile, steps: int, seed: int, tally: Tally, shrink: bool) -> None:
    machines: list[Machine] = []
    kind = _machine_class(profile)

    def make() -> Machine:
        machines[:] = [*machines[-1:], kind(factory, tally)]
        return machines[-1]

    try:
        run_state_machine_as_test(seeded(seed)(make), settings=_settings(steps, shrink))  # type: ignore[arg-type]
    except Exception as error:
        raise _finding(machines, error) from error


def _settings(steps: int, shrink: bool) -> settings:
    return settings(
        max_examples=math.ceil(steps / LENGTH),
        stateful_step_count=min(LENGTH, max(2, steps)),
        deadline=None,
        database=None,
        backend=BACKEND,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.normal if shrink else Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )


def _finding(machines: list[Machine], error: Exception) -> Exception:
    """What was found, as the machine that found it saw it (Hypothesis may wrap it)."""
    for machine in reversed(machines):
        if machine.finding is not None:
            found = machine.finding
            if isinstance(found, Divergence | Violation):
                found.add_note("the last calls, with the model's answers:\n" + machine.pair.story(TOLD))
            return found
    return error
