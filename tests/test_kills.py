"""The kill campaign in small; `make kills` runs the whole one."""

import subprocess
import sys
from pathlib import Path

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
