"""The benches run, and what they record is judged as it should be."""

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from bench import record, show, show_app, show_contract, sqlite
from bench.ids import uuid7
from bench.record import ROOT


def test_ids_are_version_7_and_only_grow() -> None:
    ids = [uuid7() for _ in range(5_000)]
    assert ids == sorted(set(ids))
    assert {(uuid.UUID(id).version, uuid.UUID(id).variant) for id in ids} == {(7, uuid.RFC_4122)}


def test_throughput_compares_every_subject_with_the_ceiling() -> None:
    figures = sqlite.measure(None, 1, 0.005, lambda text: None, batches=(10,))
    assert {row["subject"] for row in figures["rates"]} >= {"bare SQLite", "sqlite", "memory"}
    assert sqlite.rate(figures, "bare SQLite", 10, "two_calls_of_bare") == 1
    assert all(row[field] > 0 for row in figures["rates"] for field in ("enqueue", "two_calls", "exchange"))


def test_small_benches_are_recorded(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "growth", "fairness", "--small", "--runs", "1", "--record", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((tmp_path / "growth.json").read_text())
    assert {"commit", "date", "code", "machine", "cases"} <= kept.keys()
    assert "## Fairness" in (tmp_path / "benchmarks.md").read_text()


def test_whole_workers_are_measured_beside_their_peer(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "worker", "--small", "--runs", "1", "--record", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((tmp_path / "worker.json").read_text())
    assert {name.split(",")[0] for name in kept["subjects"]} == {"tenure", "huey"}
    for row in kept["subjects"].values():
        assert min(row["drain"], row["enqueue"], row["one_by_one"], row["p50_ms"], row["idle_mib"]) > 0
    assert kept["memory_drain"] > 0
    assert sum(kept["profile"]["shares"].values()) == pytest.approx(1, abs=0.01)
    assert "## The whole worker" in (tmp_path / "benchmarks.md").read_text()


WORKER: dict[str, Any] = {
    "sizes": {"scale": 1.0},
    "memory_drain": 1,
    "subjects": {
        "tenure, 1 process": {"drain": 7_000, "p50_ms": 3.0, "p99_ms": 9.0},
        "tenure, 2 processes": {"drain": 8_000, "p50_ms": 9.0, "p99_ms": 9.0},
        "huey, fsync": {"drain": 1_000, "p50_ms": 5.0, "p99_ms": 9.0},
        "huey, synchronous=OFF": {"drain": 4_000, "p50_ms": 3.0, "p99_ms": 9.0},
    },
}


@pytest.mark.parametrize(
    ("drain", "fsync", "unsafe", "kept"),
    [(8_000, 1_000, 4_000, True), (7_999, 1_000, 3_000, False), (8_000, 1_000, 4_001, False)],
)
def test_a_drain_is_judged_by_the_best_settings(drain: int, fsync: int, unsafe: int, kept: bool) -> None:
    rates = {"tenure, 2 processes": drain, "huey, fsync": fsync, "huey, synchronous=OFF": unsafe}
    subjects = {name: {**row, "drain": rates.get(name, row["drain"])} for name, row in WORKER["subjects"].items()}
    assert show_app.drain({**WORKER, "subjects": subjects})[1] is kept


def test_a_latency_is_judged_by_the_worker_as_it_is_started_by_default() -> None:
    assert show_app.latency(WORKER)[1]
    subjects = {**WORKER["subjects"], "tenure, 1 process": {"p50_ms": 3.1, "p99_ms": 9.0}}
    assert not show_app.latency({**WORKER, "subjects": subjects})[1]


KILLS: dict[str, Any] = {
    "commit": "c" * 40,
    "date": "2026-01-01",
    "jobs": 20_000,
    "kills": 50,
    "leases_lost": 100,
    "recovered": 90,
    "lost": 0,
    "settled_twice": 0,
    "faults": [],
}


@pytest.mark.parametrize(
    ("change", "kept", "says"),
    [
        ({}, True, "recorded 2026-01-01 at cccccccccccc"),
        ({"lost": 1}, False, "recorded"),
        ({"kills": 49}, False, "recorded"),
        ({"code": "of another day"}, True, "the code has changed since"),
        (None, None, ""),
    ],
)
def test_a_promise_is_judged_by_its_record(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any] | None, kept: bool | None, says: str
) -> None:
    found = None if change is None else {**KILLS, "code": record.digest(), **change}
    monkeypatch.setattr(record, "read", lambda name: found)
    line = show.recorded("kills", "none lost", "make kills", show_contract.kills)
    assert line.kept is kept
    assert says in line.origin
