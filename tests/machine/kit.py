"""A short share of the campaign: each profile on a store, with the floors that a run of that length can hold."""

from collections.abc import Callable

from tenure.testing.factory import StoreFactory
from tenure.testing.machine import Tally, run_machine
from tenure.testing.machine.profiles import MIXED, PROFILES, Profile, profiles_of


def names(store: str) -> list[str]:
    return [profile.name for profile in profiles_of(store)]


def check(store: str, name: str, factory: Callable[[Profile], StoreFactory], *, steps: int, seed: int) -> Tally:
    """Runs the machine so long; the ways that the profile promises were taken at least half as often. A short run has
    only a few worlds, and what one is like decides which ways it takes.
    """
    profile = PROFILES[name]
    tally = run_machine(factory(profile), steps=steps, seed=seed, profile=profile)
    print(tally.table())
    assert tally.steps >= steps
    assert profile.floors_of(store, steps // 2)
    assert not (missing := profile.missing(store, tally.ways, steps // 2)), missing
    assert profile is not MIXED or not tally.missing(at_least=1)
    return tally
