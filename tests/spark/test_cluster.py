"""On executors that are processes of their own, with one killed in the middle of its work, and a driver too."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench.history import write_history
from tests.spark.cluster import ROWS

EVENTS = 20_000
UNTIL = round(datetime(2026, 3, 9, tzinfo=UTC).timestamp() * 1_000)


def run(part: str, store: Path, lake: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.spark.cluster", part, str(store), str(lake)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_source_sink_and_lake_on_a_cluster_that_loses_executors_and_its_driver(tmp_path: Path) -> None:
    store, lake = tmp_path / "jobs.db", tmp_path / "lake"
    write_history(store, EVENTS, days=2, seed=23, until=UNTIL)
    cut = run("cut", store, lake)
    assert cut.returncode == -signal.SIGKILL, cut.stderr[-2_000:]
    assert any((lake / "silver" / "jobs").glob("run=*/part=*/*.parquet"))
    write_history(store, EVENTS, seed=23, append=True)
    done = run("sync,bulk", store, lake)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.splitlines() == [
        f"synced {EVENTS} executors killed 1 differences {{}}",
        f"rows {ROWS} jobs {ROWS} keys {ROWS} executors killed 1",
    ]
