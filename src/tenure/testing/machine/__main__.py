"""Runs the machine until something is found: `KILLED ...` and status 1, or `SURVIVED steps=N` and status 0."""

import argparse
import sys
import time
from contextlib import nullcontext
from importlib import import_module

from tenure.testing.checker import Violation
from tenure.testing.factory import StoreFactory
from tenure.testing.machine.profiles import MIXED, PROFILES, Profile
from tenure.testing.machine.runner import run_machine
from tenure.testing.machine.tally import Tally
from tenure.testing.postgres import served

STORES = {
    "memory": "tenure.testing.factories:MemoryFactory",
    "sqlite": "tenure.testing.factories:SqliteFactory",
    "postgres": "tenure.testing.factories:PostgresFactory",
}


def factory_of(store: str, profile: Profile = MIXED) -> StoreFactory:
    """The factory of a store, by its name or as `module:Class`, told what the profile tells it."""
    module, _, name = STORES.get(store, store).partition(":")
    factory: StoreFactory = getattr(import_module(module), name)(**profile.options)
    return factory


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tenure.testing.machine", description=__doc__)
    parser.add_argument("--store", default="memory", help="memory, sqlite, postgres, or a factory as module:Class")
    parser.add_argument("--profile", default=MIXED.name, choices=PROFILES, help="the kind of world (profiles.py)")
    parser.add_argument("--steps", type=int, default=2_000, help="steps for each seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", help="several, with commas between them")
    parser.add_argument("--shrink", action="store_true", help="look for a short example of a finding")
    parser.add_argument("--tally", action="store_true", help="print what ran")
    parser.add_argument("--story", action="store_true", help="print the calls that led to a finding")
    return parser.parse_args()


def main() -> int:
    options = parse()
    with served() if options.store == "postgres" else nullcontext():
        return run(options)


def run(options: argparse.Namespace) -> int:
    tally = Tally()
    seeds = [int(seed) for seed in options.seeds.split(",")] if options.seeds else [options.seed]
    started, seed = time.monotonic(), seeds[0]
    profile = PROFILES[options.profile]
    try:
        for seed in seeds:
            factory = factory_of(options.store, profile)
            run_machine(factory, steps=options.steps, seed=seed, profile=profile, tally=tally, shrink=options.shrink)
    except Exception as error:
        print(line(error), f"(seed {seed}, step {tally.steps})")
        if options.story:
            print("\n".join(getattr(error, "__notes__", ())))
        return 1
    if options.tally:
        print(tally.table())
    print(f"SURVIVED steps={tally.steps} seconds={time.monotonic() - started:.1f}")
    return 0


def line(error: Exception) -> str:
    """What was found, on one line."""
    kind = f"Violation:{error.property}" if isinstance(error, Violation) else type(error).__name__
    return f"KILLED {kind} " + " ".join(str(error).split())[:500]


if __name__ == "__main__":
    sys.exit(main())
