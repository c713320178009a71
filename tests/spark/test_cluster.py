"""On executors that are processes of their own, with one killed in the middle of its work, and a driver too."""

import os
import signal
import subprocess
import sys
import venv
from datetime import UTC, datetime
from pathlib import Path

from bench.history import write_history
from tests.spark.cluster import MASTER, ROWS

EVENTS = 20_000
UNTIL = round(datetime(2026, 3, 9, tzinfo=UTC).timestamp() * 1_000)


def run(part: str, store: Path, lake: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.spark.cluster", part, str(store), str(lake)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_executors_without_the_package_are_found_before_any_work(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    code = f"from tenure.spark import session; session(master={MASTER!r}, config={{'spark.log.level': 'OFF'}})"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": str(bare / "bin" / "python")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("tenure.domain.errors.NotReady: executors can't run Tenure (ModuleNotFoundError: "), said
    assert "install tenure[spark] in the Python that their tasks run" in said


def test_source_sink_and_lake_on_a_cluster_that_loses_executors_and_its_driver(tmp_path: Path) -> None:
    store, lake = tmp_path / "jobs.db", tmp_path / "lake"
    write_history(store, EVENTS, days=2, seed=23, until=UNTIL)
    cut = run("cut", store, lake)
    assert cut.returncode == -signal.SIGKILL, cut.stderr[-2_000:]
    assert any((lake / "silver" / "jobs").glob("run=*/part=*/*.parquet"))
    write_history(store, EVENTS, seed=23, append=True)
    done = run("versions,sync,bulk", store, lake)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.splitlines() == [
        "executors have Tenure VERSION, the driver 0.0.1: install the same",
        f"synced {EVENTS} executors killed 1 differences {{}}",
        f"rows {ROWS} jobs {ROWS} keys {ROWS} executors killed 1",
    ]
