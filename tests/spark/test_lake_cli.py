"""`tenure lake`, in the session of the tests."""

import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.history import write_history
from bench.lake.check import differences
from tenure.service.cli.lake import Stopped
from tenure.service.cli.main import main
from tenure.spark.lake.schemas import TABLES
from tests.spark.feeds import copied, enqueue, made
from tests.spark.stores import ON_POSTGRES

pytestmark = pytest.mark.usefixtures("spark")

UNTIL = round(datetime(2026, 3, 9, tzinfo=UTC).timestamp() * 1_000)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return made(tmp_path / "jobs.db", chunks=[2, 3])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def sync(store: Path, lake: Path, *more: str) -> int:
    return main(["lake", "sync", "--to", str(lake), "--url", f"sqlite:///{store}", *more])


def test_a_lake_from_nothing_to_plain_files(
    store: Path, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sync(store, lake) == 0
    assert "5 events came" in capsys.readouterr().out
    assert main(["lake", "status", "--lake", str(lake), "--json"]) == 0
    tables = {row["name"]: row for row in json.loads(capsys.readouterr().out)["tables"]}
    assert tables.keys() == TABLES.keys()
    assert {row["position"] for row in tables.values()} == {2}
    assert tables["silver.jobs"]["rows"] == 5
    assert main(["lake", "--lake", str(lake)]) == 0
    assert "silver.jobs" in capsys.readouterr().out
    export = ["lake", "export", "--lake", str(lake), "--to", str(tmp_path / "out"), "--tables", "silver.jobs"]
    assert main(export) == 0
    assert pq.read_table(tmp_path / "out" / "silver.jobs").num_rows == 5
    assert main(export) == 2
    assert "exists: give a folder without it" in capsys.readouterr().err
    assert main(["lake", "erase", "--lake", str(lake), "--tenant", "acme", "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] >= 10
    assert main(["lake", "vacuum", "--lake", str(lake), "--keep-hours", "0"]) == 0
    assert "deleted" in capsys.readouterr().out


def test_follow_goes_on_until_it_is_told_to_stop(
    store: Path, lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(stopped: Stopped, timeout: float) -> bool:
        """First more comes, then the end is asked for."""
        waits.append(timeout)
        if len(waits) == 1:
            enqueue(store, [4])
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        return really(stopped, 0)

    really = Stopped.wait
    monkeypatch.setattr(Stopped, "wait", wait)
    assert sync(store, lake, "--follow", "--every", "7") == 0
    assert capsys.readouterr().out.count("events came") == 2
    assert waits == [7, 7]


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--url", "sqlite:////nowhere/jobs.db"], 3, "doesn't exist"),
        (["--url", "memory://"], 2, "lives in one process"),
        (["--slo", "0"], 2, "slo"),
        (["--batch", "0"], 2, "batch"),
    ],
)
def test_what_cant_be_synced_is_refused(
    store: Path, lake: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, says: str
) -> None:
    assert sync(store, lake, *more) == code
    assert says in capsys.readouterr().err
    assert not lake.exists()


def test_commands_that_need_a_lake_say_how_to_make_one(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["status"], ["vacuum"], ["erase", "--tenant", "acme", "--yes"], ["export", "--to", str(lake / "x")]):
        assert main(["lake", *words, "--lake", str(lake)]) == 2
        assert "tenure lake sync --to" in capsys.readouterr().err
        assert not lake.exists()


def test_erasing_asks_first(
    store: Path, lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(store, lake)
    monkeypatch.setattr("tenure.service.cli.output.Out.ask", lambda self, question: False)
    assert main(["lake", "erase", "--lake", str(lake), "--tenant", "acme"]) == 1
    assert main(["lake", "status", "--lake", str(lake), "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out[out.index("{") :])["tables"][0]["rows"] == 5


def test_the_session_that_runs_is_left_running(spark: SparkSession, store: Path, lake: Path) -> None:
    sync(store, lake)
    assert spark.range(3).count() == 3


@ON_POSTGRES
def test_the_feed_of_a_server_makes_the_same_lake(
    spark: SparkSession, store_url: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "history.db"
    write_history(history, 3_000, days=2, seed=11, until=UNTIL)
    copied(history, store_url)
    assert main(["lake", "sync", "--to", str(lake), "--url", store_url]) == 0
    assert "3,000 events came" in capsys.readouterr().out
    assert differences(spark, history, lake) == {}
    enqueue(store_url, [2])
    assert main(["lake", "sync", "--to", str(lake), "--url", store_url]) == 0
    assert "2 events came" in capsys.readouterr().out
