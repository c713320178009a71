"""A field that is added to records and events in the domain alone arrives by every way that a store has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import canary

ROOT = Path(__file__).parents[2]

RUN = """
import sys
from tenure.domain.event import Event
from tenure.domain.job import Job, Spec
from tenure.testing.factories import MemoryFactory, PostgresFactory, SqliteFactory
from tests.machine.kit import check

store, profile, steps, seed, url = sys.argv[1:]
assert all("canary" in struct.__struct_fields__ for struct in (Event, Job, Spec))
made = {
    "memory": lambda one: MemoryFactory(),
    "sqlite": lambda one: SqliteFactory(**one.options),
    "postgres": lambda one: PostgresFactory(url, **one.options),
}
check(store, profile, made[store], steps=int(steps), seed=int(seed))
"""
"""The machine against the memory store of the same copy, and each way as often as the profile promises."""

SEED = 20_270_117


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return canary.build(ROOT, tmp_path_factory.mktemp("canary"))


def sing(copy: Path, store: str, profile: str, steps: int, url: str = "") -> None:
    command = [sys.executable, "-P", "-W", "error", "-c", RUN, store, profile, str(steps), str(SEED), url]
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]


def test_memory(copy: Path) -> None:
    sing(copy, "memory", "mixed", 800)


@pytest.mark.parametrize(("profile", "steps"), [("plain", 240), ("keyed", 240), ("mixed", 800)])
def test_sqlite(copy: Path, profile: str, steps: int) -> None:
    sing(copy, "sqlite", profile, steps)


@pytest.mark.parametrize(
    ("profile", "steps"), [("plain", 240), ("keyed", 240), ("tenants", 240), ("frontier", 240), ("mixed", 800)]
)
def test_postgres(copy: Path, postgres_url: str, profile: str, steps: int) -> None:
    sing(copy, "postgres", profile, steps, postgres_url)
