"""The benches run, and what they record is judged as it should be."""

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import jdbc, markdown, reach, record, sqlite
from bench.changed import changed_since
from bench.ids import uuid7
from bench.postgres import fairness, measure, page
from bench.promises import app, contract
from bench.promises import line as promised
from bench.promises import postgres as of_postgres
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


def test_postgres_is_measured_beside_its_raw_limit(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.postgres", "--quick", "--peers", "none", "--record", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((tmp_path / "postgres.json").read_text())
    assert kept["server"]["fsync"] == kept["server"]["synchronous_commit"] == "on"
    assert all(value > 0 for value in kept["subjects"]["tenure"].values())
    assert min(kept["raw"].values()) > 0
    assert min(kept["variants"].values()) > 0
    assert "## PostgreSQL, beside its peers" in (tmp_path / "benchmarks.md").read_text()
    assert "<svg" in (tmp_path / page.CHART).read_text()


def test_growth_fairness_and_a_held_transaction_on_postgres_are_recorded(tmp_path: Path) -> None:
    for part, more in (("growth", []), ("fairness", []), ("hold", ["--peers", "none"])):
        command = [sys.executable, "-m", f"bench.postgres.{part}", "--quick", "--record", str(tmp_path), *more]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert (tmp_path / f"postgres_{part}.json").exists(), done.stdout + done.stderr
    written = (tmp_path / "benchmarks.md").read_text()
    assert all(f"## PostgreSQL: {title}" in written for title in ("growth", "fairness", "a transaction held open"))
    kept = json.loads((tmp_path / "postgres_fairness.json").read_text())
    assert fairness.in_turn(kept)
    assert fairness.one_at_a_time(kept)


def beside(ours: dict[str, float], peer: dict[str, float]) -> dict[str, Any]:
    """A record of whole workers on PostgreSQL in which every other figure is 1."""
    rows = {"tenure": ours, "pgqueuer": peer, "chancy": {}}
    ones = dict.fromkeys(measure.WORDS, 1.0)
    raw = {"clients": 2, "batch": 500, "one": 10, "bulk": 10, "drain": 10}
    subjects = {name: {**ones, **row} for name, row in rows.items()}
    return {
        "sizes": {"scale": 1.0},
        "subjects": subjects,
        "variants": {"tenure, otherwise": 9_000},
        "raw": raw,
        "each": {name: {field: [value] for field, value in row.items()} for name, row in subjects.items()},
    }


def test_postgres_is_judged_by_the_best_of_its_peers() -> None:
    drain = of_postgres.beside("drain", 2)
    assert drain(beside({"drain": 4_000}, {"drain": 2_000}))[1]
    assert not drain(beside({"drain": 3_999}, {"drain": 2_000}))[1]
    assert not drain({**beside({"drain": 4_000}, {"drain": 2_000}), "sizes": {"scale": 0.5}})[1]
    otherwise = beside({"drain": 4_000}, {"drain": 2_000})
    otherwise["variants"]["pgqueuer, otherwise"], otherwise["each"]["pgqueuer, otherwise"] = 2_001, {"drain": [2_001]}
    assert not drain(otherwise)[1]
    assert "2.00× the best peer (pgqueuer 2,000)" in drain(beside({"drain": 4_000}, {"drain": 2_000}))[0]
    assert of_postgres.latency(beside({"p50_ms": 1.0}, {"p50_ms": 2.0}))[1]
    assert not of_postgres.latency(beside({"p50_ms": 1.1}, {"p50_ms": 2.0}))[1]
    assert measure.share(beside({"drain_four": 5.0}, {}), "drain_four") == 0.5


def test_rounds_are_compared_one_by_one() -> None:
    """The medians, 1.5 and 1.0, are of rounds in which the machine was slow for one and fast for the other."""
    figures = beside({"p50_ms": 1.5}, {"p50_ms": 1.0})
    figures["subjects"]["chancy"]["p50_ms"] = 2.0
    figures["each"]["tenure"]["p50_ms"] = [1.5, 1.6, 0.8]
    figures["each"]["pgqueuer"]["p50_ms"] = [2.0, 1.0, 1.0]
    assert measure.ratio(figures, "p50_ms") == 0.8
    assert of_postgres.latency(figures)[1]


def test_only_what_should_cost_the_same_is_held_to_it() -> None:
    rows = [
        {"case": "many", "against": "few", "bounded": True, "claim_ratio": 1.4, "server_ratio": 1.2},
        {"case": "wide", "against": "few", "bounded": False, "claim_ratio": 4.0, "server_ratio": 4.0},
    ]
    assert of_postgres.grown({"sizes": {"many": 1_000_000}, "cases": rows})[1]
    rows[0]["server_ratio"] = 1.5
    assert not of_postgres.grown({"sizes": {"many": 1_000_000}, "cases": rows})[1]


@pytest.mark.parametrize(
    ("last", "p99", "held", "kept"),
    [(1_601, 999, 600, True), (1_600, 999, 600, False), (1_700, 1_000, 600, False), (2_000, 10, 599, False)],
)
def test_a_held_transaction_is_judged_by_its_last_minutes(last: float, p99: float, held: int, kept: bool) -> None:
    window = {"throughput": 2_000.0, "p50_ms": 1.0, "p99_ms": 1.0}
    ours = {"before": window, "last": {**window, "throughput": last, "p99_ms": p99}}
    figures = {"plan": {"held": held, "rate": 2_000}, "subjects": {"tenure": ours, "pgqueuer": ours}}
    assert of_postgres.held(figures)[1] is kept


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
    assert app.drain({**WORKER, "subjects": subjects})[1] is kept


def test_a_latency_is_judged_by_the_worker_as_it_is_started_by_default() -> None:
    assert app.latency(WORKER)[1]
    subjects = {**WORKER["subjects"], "tenure, 1 process": {"p50_ms": 3.1, "p99_ms": 9.0}}
    assert not app.latency({**WORKER, "subjects": subjects})[1]


def reach_case(looks: bool, **worst: Any) -> dict[str, Any]:
    """One in which a leg is as given, and the others are at their limit."""
    leg = {"times": 500, "done": 500, "p50_ms": 9.0, "p99_ms": 249.9, "max_ms": 3_000.0}
    return {"looks": looks, "legs": {"start": leg, "result": leg, "cancel": {**leg, **worst}}}


@pytest.mark.parametrize(
    ("looks", "worst", "kept"),
    [
        (False, {}, True),
        (False, {"p99_ms": 250.0}, False),
        (False, {"done": 499}, False),
        (False, {"max_ms": 3_000.1}, True),
        (True, {}, True),
        (True, {"p99_ms": 2_999.0}, True),
        (True, {"max_ms": 3_000.1}, False),
        (True, {"done": 499}, False),
    ],
)
def test_processes_reach_each_other_all_in_time(looks: bool, worst: dict[str, Any], kept: bool) -> None:
    cases = {reach.SQLITE: reach_case(looks, **worst), reach.POSTGRES: reach_case(looks)}
    whole = {"sizes": msgspec.to_builtins(reach.Sizes()), "cases": cases}
    text, judged = reach.judged(whole, list(cases))
    assert judged is kept
    assert f"cancel {worst.get('done', 500)}/500" in text
    assert not reach.judged({**whole, "sizes": msgspec.to_builtins(reach.QUICK)}, list(cases))[1]


def test_how_processes_reach_each_other_is_recorded(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.reach", "--quick", "--record", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    kept = json.loads((tmp_path / "reach.json").read_text())
    assert set(kept["cases"]) == {reach.SQLITE, reach.POSTGRES, reach.CUT, reach.POOLER}, done.stderr
    lost = {
        (name, leg): one
        for name, case in kept["cases"].items()
        for leg, one in case["legs"].items()
        if one["done"] < one["times"] or one["times"] != reach.QUICK.times
    }
    assert not lost


def test_the_jdbc_driver_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[Path] = []

    def install(folder: Path) -> None:
        installed.append(folder)
        (folder / "maven").mkdir()
        (folder / "maven" / "postgresql-42.7.4.jar").touch()

    monkeypatch.setattr(jdbc, "DISTRIBUTIONS", ())
    monkeypatch.setattr(jdbc, "_install", install)
    assert {jdbc.jar(tmp_path) for _ in range(2)} == {tmp_path / "maven" / "postgresql-42.7.4.jar"}
    assert installed == [tmp_path]


def test_spark_on_postgres_is_shown_with_what_its_time_is_made_of() -> None:
    figures = {
        "versions": {"pyspark": "4.3.0"},
        "filesystem": "ext4",
        "runs": 3,
        "read": {"jobs": 200_000, "rates": {"tenure": 100_000}, "micros": {"plain columns": {"into Arrow": 1.5}}},
        "write": {"rows": 9, "rates": {"JDBC": 5_000}, "wal_bytes": {"JDBC": 1_234}, "micros": {"row to job": 7.0}},
    }
    page = markdown.spark_postgres(figures)
    for line in (
        "| tenure | 100,000 |",
        "| JDBC | 5,000 | 1,234 |",
        "| read, plain columns: into Arrow | 1.5 |",
        "| enqueue: row to job | 7.0 |",
    ):
        assert line in page


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
    found = None if change is None else {**KILLS, "code": record.digest(record.CORE), **change}
    monkeypatch.setattr(record, "read", lambda name: found)
    shown = promised.recorded("kills", "none lost", "make kills", contract.kills).line()
    assert shown.kept is kept
    assert says in shown.origin


def test_a_check_of_the_records_names_what_is_broken_or_missing_and_what_is_old(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    current = {**KILLS, "code": record.digest(record.CORE)}
    records = {"kept": current, "old": {**current, "code": "older"}, "broken": {**current, "lost": 1}}
    monkeypatch.setattr(record, "read", records.get)
    ran = promised.Promise(lambda: pytest.fail("a check runs nothing"), runs=True)

    def check(*names: str) -> int:
        return promised.check([ran, *(promised.recorded(name, name, f"make {name}", contract.kills) for name in names)])

    assert check("kept", "old") == 0
    assert capsys.readouterr().out == "2 promises shown by records, 1 records of older code:\n  make old\n"
    assert check("broken", "kept") == 1
    assert capsys.readouterr().out.startswith("BROKEN    broken\n")
    assert check("missing", "kept") == 1
    assert capsys.readouterr().out.startswith("NOT SHOWN missing\n")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""Another."""\nLIMIT = 3  # why\n\n\ndef half() -> int:\n    return LIMIT // 2\n', True),
        ('"""One."""\nLIMIT = 4\n\ndef half() -> int:\n    """The half."""\n    return LIMIT // 2\n', False),
        (None, False),
    ],
)
def test_a_record_is_old_when_code_changed_but_not_its_words(tmp_path: Path, text: str | None, same: bool) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    module = tmp_path / "src" / "module.py"
    module.parent.mkdir()
    module.write_text('"""One."""\nLIMIT = 3\n\ndef half() -> int:\n    """The half."""\n    return LIMIT // 2\n')
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    commit = git("rev-parse", "HEAD")
    assert not changed_since(tmp_path, commit, ["src"])
    if text is None:
        module.unlink()
    else:
        module.write_text(text)
    assert changed_since(tmp_path, commit, ["src"]) is not same
    (tmp_path / "src" / "other.py").write_text("")
    assert changed_since(tmp_path, commit, ["src"])
    assert changed_since(tmp_path, "c" * 40, ["src"])


def test_the_redis_client_is_measured_beside_a_peer() -> None:
    command = [sys.executable, "-m", "bench.redis_client", "--small"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" × |") == 6
