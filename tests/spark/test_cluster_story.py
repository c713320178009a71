"""The whole story of a cluster that loses executors and its driver: `make cluster`. test_cluster.py has it in small."""

import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.history import write_history
from tests.spark.cluster import ROWS, run

EVENTS = 20_000
UNTIL = round(datetime(2026, 3, 9, tzinfo=UTC).timestamp() * 1_000)


@pytest.mark.campaign
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
