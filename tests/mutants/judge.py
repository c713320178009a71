"""Runs one killer on one copy of the tree, in a process of its own, and prints what it found as one line of JSON.

    python -P judge.py TREE KILLER

with TREE/src in front on PYTHONPATH. Nothing of the repository itself is imported: what is judged is the copy.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import warnings
from itertools import product
from pathlib import Path
from typing import Any

BUDGET = {
    "machine-memory": (range(1, 31), {"mixed": 3_000}),
    "machine-sqlite": (range(1, 26), {"mixed": 2_500}),
    "machine-postgres": (
        range(1, 4),
        {"plain": 600, "frontier": 800, "mixed": 800, "callers": 800, "keyed": 800, "tenants": 500},
    ),
}
"""The seeds, and for each of them the profiles in their order with their steps. The first finding ends it; on memory,
the checker's first, for a store that differs from itself is found whatever the checker sees."""

SUITES = {
    "conformance-memory": "tests/conformance/test_memory.py",
    "conformance-sqlite": "tests/conformance/test_sqlite.py",
    "processes-sqlite": "tests/stores/test_sqlite_processes.py",
    "forks-sqlite": "tests/stores/test_sqlite_forks.py",
    "file-sqlite": "tests/stores/test_sqlite_file.py",
    "pages-stores": "tests/stores/test_pages.py",
    "optimistic-memory": "tests/stores/test_optimistic.py",
    "together-postgres": "tests/stores/test_postgres_together.py",
    "network-postgres": "tests/stores/test_postgres_network.py",
    "loops-postgres": "tests/stores/test_postgres_loops.py",
    "few-postgres": "tests/stores/test_postgres_few.py",
    "frontier-postgres": "tests/stores/test_postgres_frontier.py",
    "transactions-postgres": "tests/engine/test_postgres_transactions.py",
    "waits-postgres": "tests/stores/test_postgres_waits.py",
    "client-redis": "tests/stores/test_redis_client.py",
    "faults-redis": "tests/stores/test_redis_client_faults.py",
}
"""The tests that a killer runs, up to the first that fails."""

HELPERS = ("tests/stores/__init__.py", "tests/stores/optimistic.py", "tests/stores/resp.py")
"""What those tests import besides the package."""

Verdict = dict[str, Any]
"""`found` None: nothing was found. `kind`: violation, divergence, test, or error."""


def judge(killer: str) -> Verdict:
    who, _, store = killer.partition("-")
    return _run_machine(killer, store) if who == "machine" else _run_tests(SUITES[killer])


def _run_machine(killer: str, store: str) -> Verdict:
    from tenure.testing.checker import Violation
    from tenure.testing.machine import Tally, run_machine
    from tenure.testing.machine.__main__ import factory_of
    from tenure.testing.machine.lockstep import Divergence, Lockstep
    from tenure.testing.machine.profiles import PROFILES

    if store != "memory":
        _without_checker(Lockstep)
    seeds, profiles = BUDGET[killer]
    tally, found = Tally(), Verdict(found=None, kind="", detail="", seed=0)
    for seed, (name, steps) in product(seeds, profiles.items()):
        profile = PROFILES[name]
        try:
            run_machine(factory_of(store, profile), steps=steps, seed=seed, profile=profile, tally=tally)
        except Violation as error:
            found = Verdict(found=error.property, kind="violation", detail=_line(str(error)), seed=seed)
            break
        except Divergence as error:
            verb = f"Divergence {error.verb} ({profile.name})"
            found = Verdict(found=verb, kind="divergence", detail=_line(str(error)), seed=seed)
            if store != "memory":
                break
    return {**found, "steps": tally.steps}


def _without_checker(lockstep: Any) -> None:
    """Lets the store answer unrecorded. Otherwise the checker would object first and nothing be said of lockstep."""
    if not hasattr(lockstep, "recorded"):
        raise AssertionError("Lockstep.recorded is gone: judge.py must learn how the checker is fed now")
    lockstep.recorded = lambda _, store: store


def _run_tests(suite: str) -> Verdict:
    # Tenure's own plugin is installed, and pytest would object that the copy was imported before it.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    class Watch:
        """Remembers the first test that failed, and what failed besides tests."""

        count = 0
        failed: Verdict | None = None

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            self.count += report.when == "call"
            if report.failed and self.failed is None:
                kind = "test" if report.when == "call" else "error"
                self.failed = {"found": report.nodeid.rpartition("::")[2], "kind": kind}
                crash = getattr(report.longrepr, "reprcrash", None)  # what was raised, without the way there
                self.failed["detail"] = _line(crash.message if crash is not None else report.longreprtext)[-300:]

    watch = Watch()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", suite],
            plugins=[watch],
        )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or (code and watch.failed is None):
        raise RuntimeError(f"pytest ended with {code!r}: {_line(said.getvalue())[-400:]}")
    nothing: Verdict = {"found": None, "kind": "", "detail": ""}
    return {**(watch.failed or nothing), "seed": 0, "steps": watch.count}


def _line(text: str) -> str:
    return " ".join(text.split())[:500]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("killer")
    options = parser.parse_args()
    warnings.simplefilter("error")
    import tenure

    loaded = Path(tenure.__file__).resolve()
    if not loaded.is_relative_to(options.tree.resolve()):
        raise AssertionError(f"tenure comes from {loaded}, not from {options.tree}")
    print(json.dumps(judge(options.killer)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
