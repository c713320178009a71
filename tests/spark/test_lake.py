"""A lake is what its feed says, to the last row, however it was built and whatever was cut short."""

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench.history import plain, write_history
from bench.lake.check import differences
from tenure.domain.errors import EventsLost, InvalidValue, NotReady, SchemaTooNew
from tenure.spark import table
from tenure.spark.lake import reading, upkeep
from tenure.spark.lake.lock import locked
from tenure.spark.lake.log import LakeConflict, Log, folder
from tenure.spark.lake.schemas import EVENTS_TABLE, HOURLY_TABLE, JOBS_TABLE, OPEN, QUIET, TABLES, LakeTable
from tenure.spark.lake.sync import Sync, Synced
from tenure.spark.report import write_report
from tests.spark.feeds import enqueue, forget, made

UNTIL = round(datetime(2026, 3, 9, tzinfo=UTC).timestamp() * 1_000)
EVENTS, SEED = 4_000, 11


class Built(NamedTuple):
    """A lake, and the steps that were told while it was made."""

    lake: Path
    steps: list[Synced]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "jobs.db"
    write_history(path, EVENTS, days=2, seed=SEED, until=UNTIL)
    return path


@pytest.fixture(scope="module")
def built(spark: SparkSession, history: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """In several batches."""
    made = Built(tmp_path_factory.mktemp("lake"), [])
    assert sync(spark, history, made.lake, batch_bytes=400_000).run(made.steps.append) == EVENTS
    return made


@pytest.fixture(scope="module")
def lake(built: Built) -> Path:
    """To be read."""
    return built.lake


@pytest.fixture
def copy(lake: Path, tmp_path: Path) -> Path:
    """A lake of one's own: a folder is all that a lake is."""
    return Path(shutil.copytree(lake, tmp_path / "lake"))


@pytest.fixture
def store(history: Path, tmp_path: Path) -> Path:
    """The store of the copy, to go on with."""
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(history)) as connection:
        connection.execute("VACUUM INTO ?", (str(path),))
    return path


def sync(spark: SparkSession, store: Path, lake: Path, **options: Any) -> Sync:
    return Sync(spark, f"sqlite:///{store}", lake, **options)


def test_every_table_is_what_plain_python_makes_of_the_feed(spark: SparkSession, history: Path, lake: Path) -> None:
    assert differences(spark, history, lake) == {}


def test_more_events_change_what_they_touch_and_nothing_else(spark: SparkSession, store: Path, copy: Path) -> None:
    before = {
        name: {file.path for file in _log(copy, name).files if file.partition not in (OPEN, QUIET)} for name in TABLES
    }
    write_history(store, 300, seed=SEED, append=True)
    assert sync(spark, store, copy).run() == 300
    for name, files in before.items():
        lost = files - {file.path for file in _log(copy, name).files}
        assert len(lost) <= (1 if name == "gold.hourly" else 0), name  # the day that both share
    assert differences(spark, store, copy) == {}


def test_a_sync_with_nothing_new_commits_nothing(spark: SparkSession, history: Path, lake: Path) -> None:
    before = {name: _log(lake, name).version for name in TABLES}
    assert sync(spark, history, lake).run() == 0
    assert {name: _log(lake, name).version for name in TABLES} == before


class Cut(Exception):
    """The driver ends here."""


def test_a_sync_cut_short_anywhere_is_finished_by_the_next(
    spark: SparkSession, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the commit of each table, one place a batch."""
    commit = Log.commit
    places = [(name, before) for name in TABLES for before in (True, False)]
    for name, before in places:

        def cut(log: Log, *args: Any, _name: str = name, _before: bool = before, **kwargs: Any) -> None:
            if not (_before and log.table.name == _name):
                commit(log, *args, **kwargs)
            if log.table.name == _name:
                raise Cut

        monkeypatch.setattr(Log, "commit", cut)
        with pytest.raises(Cut):
            sync(spark, history, tmp_path, batch_bytes=60_000).run()
    monkeypatch.setattr(Log, "commit", commit)
    assert (_log(tmp_path, "bronze.events").position or 0) < head(history)
    sync(spark, history, tmp_path).run()
    assert differences(spark, history, tmp_path) == {}


def head(store: Path) -> int:
    with closing(sqlite3.connect(store)) as connection, connection:
        return int(connection.execute("SELECT feed_head FROM meta").fetchone()[0])


def test_a_second_driver_is_refused_by_the_log(copy: Path) -> None:
    first, second = _log(copy, "bronze.events"), _log(copy, "bronze.events")
    assert first.position is not None
    first.commit(first.position + 1)
    with pytest.raises(LakeConflict, match="another process writes to this lake"):
        second.commit(first.position + 2)
    assert _log(copy, "bronze.events").position == first.position + 1


def test_a_lake_in_use_is_left_alone(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    one = sync(spark, history, tmp_path)
    with locked(tmp_path), pytest.raises(NotReady, match="worked on by another process"):
        one.run()


def test_steps_are_told(history: Path, built: Built) -> None:
    steps = built.steps
    assert len(steps) > 1
    assert sum(step.events for step in steps) == EVENTS
    assert steps[-1].position == steps[-1].head == head(history)


def test_a_report_is_made_of_it_with_its_own_objective(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    sync(spark, history, tmp_path / "lake", slo_ms=7_000).run()
    page = write_report(tmp_path / "lake", tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Within SLO of 7" in page
    ended = plain.gold(plain.events_of(history), slo_ms=7_000).hourly.values()
    assert f"{sum(row['succeeded'] for row in ended):,}" in page


# What can't be


def test_the_lake_of_another_store_is_refused(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    other = made(tmp_path / "other.db", chunks=[3])
    with pytest.raises(InvalidValue, match="the history of another store"):
        sync(spark, other, lake)


def test_an_objective_is_the_lakes_own(spark: SparkSession, history: Path, lake: Path) -> None:
    with pytest.raises(InvalidValue, match="an objective of 60 s, not 5 s"):
        sync(spark, history, lake, slo_ms=5_000)


def test_a_lake_that_is_a_file_is_refused(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    with pytest.raises(InvalidValue, match="is a file"):
        sync(spark, history, tmp_path / "lake")


def test_retention_that_overtook_a_lake_is_said_and_can_be_accepted(spark: SparkSession, tmp_path: Path) -> None:
    store = made(tmp_path / "jobs.db", chunks=[2, 3])
    lake = tmp_path / "lake"
    sync(spark, store, lake).run()
    enqueue(store, [4, 5, 6])
    forget(store, 4)
    with pytest.raises(EventsLost, match=r"position 2 of the feed, .* up to 4: accept the gap"):
        sync(spark, store, lake).run()
    assert sync(spark, store, lake, accept_gap=True).run() == 6
    assert table(spark, lake, "silver.jobs").count() == 2 + 3 + 6


def test_a_store_older_than_its_lake_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    store = made(tmp_path / "jobs.db", chunks=[2, 3])
    sync(spark, store, tmp_path / "lake").run()
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM feed WHERE position > 1")
        connection.execute("UPDATE meta SET feed_head = 1")
    with pytest.raises(InvalidValue, match="the store is older than the lake"):
        sync(spark, store, tmp_path / "lake").run()


def test_no_lake_and_no_such_table(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="make it with tenure lake sync"):
        table(spark, tmp_path, "silver.jobs")
    with pytest.raises(InvalidValue, match=r"a lake has bronze\.events, silver\.attempts"):
        table(spark, lake, "silver.job")


# Time


def test_columns_that_came_later_are_added(
    spark: SparkSession, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = JOBS_TABLE._replace(columns=_without(JOBS_TABLE, "replay_of"))
    Log.create(tmp_path, older, {"tenure.store": _store(history)})
    assert sync(spark, history, tmp_path).run() == EVENTS
    assert "replay_of" in table(spark, tmp_path, "silver.jobs").columns
    assert differences(spark, history, tmp_path) == {}


def _store(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection, connection:
        return str(connection.execute("SELECT id FROM identity").fetchone()[0])


def _without(one: LakeTable, name: str) -> pa.Schema:
    return one.columns.remove(one.columns.get_field_index(name))


def test_a_lake_of_a_newer_tenure_is_refused(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    newer = HOURLY_TABLE._replace(columns=HOURLY_TABLE.columns.append(pa.field("joy", pa.int64())))
    Log.create(tmp_path, newer, {})
    with pytest.raises(SchemaTooNew, match="columns of a newer Tenure"):
        Log.open(tmp_path, HOURLY_TABLE)


def test_fields_that_nobody_knows_yet_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    store = made(tmp_path / "jobs.db", chunks=[1])
    event = {"tenant": "acme", "kind": "progress", "at": 1_700_000_000_000, "mood": "calm", "depth": [1]}
    with closing(sqlite3.connect(store)) as connection, connection:
        body = json.dumps(event).encode() + b"\n"
        connection.execute("INSERT INTO feed VALUES (2, 'acme', 1700000000000, ?)", (body,))
        connection.execute("UPDATE meta SET feed_head = 2")
    sync(spark, store, tmp_path / "lake").run()
    (row,) = table(spark, tmp_path / "lake", "bronze.events").where("pos = 2").collect()
    assert json.loads(row["extra"]) == {"mood": "calm", "depth": [1]}


def test_days_and_hours_are_utc_whatever_the_session_says(
    spark: SparkSession, history: Path, lake: Path, tmp_path: Path
) -> None:
    zone = "Asia/Kolkata"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        sync(spark, history, tmp_path, batch_bytes=10**9).run()
        assert _days_that_arent_the_sessions(spark, tmp_path) > 0  # Spark's own date() is the session's
        assert spark.conf.get("spark.sql.session.timeZone") == zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for one in (lake, tmp_path):
        assert _days_that_arent_the_sessions(spark, one) == 0
        hours = DeltaTable(str(folder(one, HOURLY_TABLE))).to_pyarrow_table()["hour"].to_pylist()
        assert {hour.minute for hour in hours} == {0}


def _days_that_arent_the_sessions(spark: SparkSession, lake: Path) -> int:
    return table(spark, lake, "gold.hourly").where("day <> string(date(hour))").count()


# Upkeep


def test_vacuum_leaves_fewer_files_and_the_same_rows(spark: SparkSession, history: Path, copy: Path) -> None:
    before = {one.name: one for one in upkeep.state(copy)}
    orphan = folder(copy, EVENTS_TABLE) / "run=dead" / "date=2026-01-01" / "x.parquet"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"half a file")
    cleaned = upkeep.vacuum(copy, keep_hours=0)
    after = {one.name: one for one in upkeep.state(copy)}
    assert cleaned.compacted > 0
    assert not orphan.exists()
    assert after["bronze.events"].files < before["bronze.events"].files
    assert {name: one.position for name, one in after.items()} == {name: one.position for name, one in before.items()}
    assert differences(spark, history, copy) == {}
    live = {Path(path).name for name in TABLES for path in _log(copy, name).paths(_log(copy, name).files)}
    assert {path.name for path in copy.rglob("*.parquet") if "_delta_log" not in path.parts} == live


def test_a_lake_goes_on_after_a_vacuum(spark: SparkSession, store: Path, copy: Path) -> None:
    upkeep.vacuum(copy, keep_hours=0)
    write_history(store, 500, seed=SEED, append=True)
    sync(spark, store, copy).run()
    assert differences(spark, store, copy) == {}


def test_many_files_are_put_together_by_the_sync_itself(
    spark: SparkSession, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MANY_FILES", 3)
    sync(spark, history, tmp_path, batch_bytes=400_000).run()
    assert len(_log(tmp_path, "bronze.events").files) <= 3
    assert differences(spark, history, tmp_path) == {}


def test_a_tenant_is_erased_from_every_table_and_every_file(spark: SparkSession, history: Path, copy: Path) -> None:
    counts = table(spark, copy, "silver.jobs").groupBy("tenant").count().orderBy("count", ascending=False).collect()
    tenant = counts[0]["tenant"]
    positions = [one.position for one in upkeep.state(copy)]
    assert upkeep.erase(copy, tenant) > counts[0]["count"]
    for name in TABLES:
        assert table(spark, copy, name).where(f"tenant = '{tenant}'").count() == 0, name
    for path in copy.rglob("*.parquet"):
        if "_delta_log" not in path.parts:
            assert tenant not in pq.read_table(path, columns=["tenant"])["tenant"].to_pylist()
    assert [one.position for one in upkeep.state(copy)] == positions
    assert sync(spark, history, copy).run() == 0
    others = {row["tenant"]: row["count"] for row in counts[1:]}
    left = table(spark, copy, "silver.jobs").groupBy("tenant").count().collect()
    assert {row["tenant"]: row["count"] for row in left} == others


def test_a_tenant_that_cant_be_one_is_refused(lake: Path) -> None:
    with pytest.raises(InvalidValue, match="tenant"):
        upkeep.erase(lake, "x' or 'a'='a")


def test_export_is_plain_parquet(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    told: list[str] = []
    reading.export(spark, lake, tmp_path, ["gold.usage", "silver.jobs"], told.append)
    assert told == ["gold.usage", "silver.jobs"]
    for name in told:
        rows = pq.read_table(tmp_path / name)
        assert rows.num_rows == table(spark, lake, name).count() > 0
        assert set(rows.column_names) == set(table(spark, lake, name).columns)
    with pytest.raises(InvalidValue, match=r"gold\.usage exists"):
        reading.export(spark, lake, tmp_path, ["gold.usage"])


# A deep backlog


def test_only_files_with_a_touched_open_job_are_rewritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.spark.lake.sync.FEW_OPEN", 0)
    store = made(tmp_path / "jobs.db", chunks=[5])
    lake = tmp_path / "lake"
    sync(spark, store, lake).run()
    first = _open_files(lake)
    enqueue(store, [5])
    sync(spark, store, lake).run()
    second = _open_files(lake) - first
    assert first < _open_files(lake)
    _claim_one(store)
    sync(spark, store, lake).run()
    assert len(first - _open_files(lake)) == 1
    assert second < _open_files(lake)
    assert QUIET in {file.partition for file in _log(lake, "silver.jobs").files}
    assert {row["part"] for row in table(spark, lake, "silver.jobs").collect()} == {OPEN}
    assert differences(spark, store, lake) == {}


def _open_files(lake: Path) -> set[str]:
    return {file.path for file in _log(lake, "silver.jobs").files if file.partition in (OPEN, QUIET)}


def _claim_one(store: Path) -> None:
    """The feed of a claim of the first job."""
    with closing(sqlite3.connect(store)) as connection, connection:
        (text,) = connection.execute("SELECT body FROM feed WHERE position = 1").fetchone()
        job = json.loads(text.splitlines()[0])
        claimed = {
            **{name: job[name] for name in ("tenant", "job_id", "queue", "job_type", "at")},
            "kind": "claimed",
            "version": 2,
            "attempt": 1,
            "lease_seq": 1,
            "worker": "w",
            "waited_ms": 5,
        }
        body = json.dumps(claimed).encode() + b"\n"
        connection.execute("INSERT INTO feed VALUES (3, 'acme', ?, ?)", (job["at"], body))
        connection.execute("UPDATE meta SET feed_head = 3")


def _log(lake: Path, name: str) -> Log:
    return Log.open(lake, TABLES[name])
