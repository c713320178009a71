"""What is promised about changes of schema."""

from collections.abc import Iterator

from bench.promises.line import Promise, Shown, recorded, tested
from bench.record import Figures

MOST_BLOCKED_MS = 1_000
JOBS = 1_000_000
STORES = {"sqlite", "postgres"}


def upgrades(figures: Figures) -> Shown:
    runs = figures["upgrades"]
    text = "; ".join(
        f"{run['store']} from {run['base']} (schema {run['schema_before']} → {run['schema']}): {run['jobs']:,} jobs, "
        f"longest call {run['blocked_ms']:,} ms ({run['calm_ms']:,} ms before), {run['compared']:,} things compared, "
        f"lost {run['lost']}, settled twice {run['settled_twice']}, {len(run['faults'])} faults"
        for run in runs
    )
    clean = not any(run["faults"] or run["lost"] or run["settled_twice"] for run in runs)
    enough = {run["store"] for run in runs} == STORES and all(run["jobs"] >= JOBS for run in runs)
    return text, clean and enough and all(run["blocked_ms"] <= MOST_BLOCKED_MS for run in runs)


def promises() -> Iterator[Promise]:
    yield tested("a store of an earlier version, migrated while both versions work on it", "tests/test_upgrade.py")
    yield tested(
        "an index on a table in use is built beside its writers, also by who comes after one that was killed",
        "tests/stores/test_postgres_upgrade.py",
    )
    yield recorded(
        "upgrade",
        f"{JOBS:,} jobs of an earlier version: no call blocked for longer than {MOST_BLOCKED_MS:,} ms, no field lost",
        "python -m tests.upgrade --record bench/results/upgrade.json",
        upgrades,
    )
