"""The kill campaign in small; `make kills` runs the whole one."""

import subprocess
import sys
from pathlib import Path

from tenure.domain.event import Event
from tenure.domain.states import EventKind
from tests.kills.recovery import Recovery, Spread, Start

ROOT = Path(__file__).resolve().parent.parent


def test_killed_workers_lose_nothing(tmp_path: Path) -> None:
    campaign = [sys.executable, "-m", "tests.kills", "--jobs", "600", "--processes", "3", "--kills", "6"]
    small = ["--producer-kills", "2", "--pace", "0.3", "--least-lost", "5", "--dir", str(tmp_path)]
    done = subprocess.run([*campaign, *small], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none lost, none settled twice" in done.stdout


def test_killed_workers_and_a_killed_server_lose_nothing(tmp_path: Path) -> None:
    campaign = [sys.executable, "-m", "tests.kills", "--store", "postgres", "--jobs", "300", "--processes", "2"]
    kills = ["--server-kills", "2", "--worker-kills", "3", "--producer-kills", "1"]
    small = ["--pace", "0.2", "--least-lost", "1", "--dir", str(tmp_path)]
    done = subprocess.run(
        [*campaign, *kills, *small], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none lost, none settled twice" in done.stdout


def told(job: str, kind: EventKind, at: int, **more: object) -> Event:
    return Event("acme", kind, at, job, worker="w", **more)  # type: ignore[arg-type]  # fields of the event


def test_a_server_recovers_when_a_job_is_settled_that_was_there_when_it_was_started() -> None:
    starts = [Start(1_100, 1_200), Start(3_000, 3_100), Start(5_000, 5_400)]
    recovery = Recovery(starts, {})
    for job, came, ended in (("a", 1_000, 1_250), ("b", 4_000, 5_300)):  # none was there at the second start
        recovery.add(told(job, EventKind.ENQUEUED, came))
        recovery.add(told(job, EventKind.SUCCEEDED, ended, run_ms=1, reason="ok"))
    assert recovery.of_server() == Spread(count=2, p50=50, p99=50, max=50)


def test_a_killed_worker_is_recovered_from_when_its_job_runs_again() -> None:
    recovery = Recovery([], {"w": 1_000})
    recovery.add(told("a", EventKind.LEASE_LOST, 4_000, run_ms=1, reason="lease_lost"))
    recovery.add(told("a", EventKind.CLAIMED, 4_500))
    assert recovery.of_leases() == Spread(count=1, p50=3_000, p99=3_000, max=3_000)
    assert recovery.of_workers() == Spread(count=1, p50=3_500, p99=3_500, max=3_500)
