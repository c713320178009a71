"""The numbers of a report, from gold tables written for the purpose."""

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tenure.domain.errors import InvalidValue, StoreCorrupt
from tenure.spark.report import figures
from tenure.spark.report.histogram import Histogram, merged
from tenure.spark.report.read import Gold, Period, Totals, read
from tenure.spark.report.storms import storms
from tests.spark.gold import HOUR, MONDAY, SILENT, STORM, Lake, bucket, shop

WEEK = Period(MONDAY, MONDAY + timedelta(days=7))
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(scope="module")
def gold(tmp_path_factory: pytest.TempPathFactory) -> Gold:
    """The shop's second week, beside its first."""
    return read(shop().write(tmp_path_factory.mktemp("shop")), None, 7, None)


def of(lake: Lake, path: Path, *, tenant: str | None = None, period: Period | None = WEEK) -> Gold:
    return read(lake.write(path), period, 7, tenant)


# Durations


def test_percentiles_of_buckets_are_within_a_per_cent() -> None:
    chance = random.Random(3)
    values = sorted(chance.lognormvariate(6, 1.5) for _ in range(20_000))
    halves = Histogram(), Histogram()
    for index, value in enumerate(values):
        halves[index % 2].add(bucket(value), 1)
    whole = merged(halves)
    for share in (0.5, 0.95, 0.99):
        true = values[math.ceil(share * len(values)) - 1]
        assert whole.quantile(share) == pytest.approx(true, rel=0.01)
    assert whole.mean() == pytest.approx(sum(values) / len(values), rel=0.01)


def test_variability_is_variance_over_squared_mean() -> None:
    chance = random.Random(5)
    found = Histogram()
    for _ in range(20_000):
        found.add(bucket(chance.expovariate(1 / 5_000)), 1)
    assert found.variability() == pytest.approx(1.0, rel=0.05)
    assert Histogram({200: 9}).variability() == pytest.approx(0.0, abs=1e-9)


def test_nothing_has_no_percentiles() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram().mean() == Histogram().variability() == 0.0


def test_percentiles_roll_up_from_buckets_and_not_from_hours(tmp_path: Path) -> None:
    """A busy fast hour and a quiet slow one: the p95 of both is the busy one's, the mean of p95s is neither's."""
    lake = Lake()
    lake.hour(MONDAY, started=990)
    lake.durations(MONDAY, "wait", [100] * 990)
    lake.durations(MONDAY + HOUR, "wait", [60_000] * 10)
    found = figures.side(of(lake, tmp_path).now)
    assert found.wait_p95 == pytest.approx(100, rel=0.01)


def test_what_one_key_has_in_several_rows_is_summed(tmp_path: Path) -> None:
    lake = Lake()
    for _ in range(4):
        lake.durations(MONDAY, "run", [1_000])
        lake.failure(MONDAY, "Boom", "no", 2, 1)
        lake.usage(MONDAY, 900_000)
    now = of(lake, tmp_path).now
    assert now.histogram("run").n == 4
    assert [(row.n, row.final) for row in figures.failures(now, now)] == [(8, 4)]
    assert now.usage_by("tenant") == {"acme": (3_600_000, 4)}
    assert figures.busy_slots(now)[MONDAY] == 1.0


# What is read


def test_the_newest_days_are_read(gold: Gold) -> None:
    assert gold.now.period == WEEK
    assert gold.before.period == Period(MONDAY - timedelta(days=7), MONDAY)
    assert (gold.first, gold.last) == (MONDAY - timedelta(days=7), WEEK.until - HOUR)


def test_a_young_lake_is_read_from_its_first_hour(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY + 5 * HOUR, succeeded=1)
    found = of(lake, tmp_path, period=None)
    assert found.now.period == Period(MONDAY + 5 * HOUR, MONDAY + 6 * HOUR)
    assert not figures.compares(found)


def test_only_the_hours_asked_for_count(tmp_path: Path) -> None:
    lake = Lake()
    for hour in (-1, 0, 1, 2):
        lake.hour(MONDAY + hour * HOUR, succeeded=10 ** (hour + 1))
    found = of(lake, tmp_path, period=Period(MONDAY, MONDAY + HOUR))
    assert found.now.totals().succeeded == 10
    assert found.before.totals().succeeded == 1


def test_one_tenant_alone(tmp_path: Path) -> None:
    lake = Lake()
    for tenant, number in (("acme", 5), ("other", 70)):
        lake.hour(MONDAY, tenant, succeeded=number)
        lake.durations(MONDAY, "run", [10] * number, tenant=tenant)
        lake.failure(MONDAY, "Boom", n=number, tenant=tenant)
        lake.usage(MONDAY, number, number, tenant=tenant)
    now = of(lake, tmp_path, tenant="acme").now
    assert now.totals().succeeded == now.histogram("run").n == 5
    assert [row.n for row in figures.failures(now, now)] == [5]
    assert now.usage_by("tenant") == {"acme": (5, 5)}


def test_no_lake_and_half_a_lake(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="there is no lake; make one with `tenure lake sync"):
        read(tmp_path / "nothing", None, 7, None)
    lake = Lake()
    lake.hour(MONDAY, succeeded=3)
    found = read(lake.write(tmp_path / "half", tables=["hourly"]), WEEK, 7, None)
    assert found.now.totals().succeeded == 3
    assert found.now.histogram("wait").n == 0
    assert read(Lake().write(tmp_path / "empty"), None, 7, None).first is None


def test_a_lake_of_another_version(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "gold" / "hourly", pa.table({"day": ["2026-11-02"], "hour": [MONDAY]}))
    with pytest.raises(InvalidValue, match=r"gold.hourly has no column 'tenant'.*another version of Tenure"):
        read(tmp_path, WEEK, 7, None)


def test_a_damaged_lake(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY, succeeded=3)
    lake.write(tmp_path)
    for commit in (tmp_path / "gold" / "hourly" / "_delta_log").glob("*.json"):
        commit.write_text("{ no json\n")
    with pytest.raises(StoreCorrupt, match="can't be read"):
        read(tmp_path, WEEK, 7, None)


# Time


def test_hours_without_rows_are_on_the_axis(gold: Gold) -> None:
    steps = figures.steps(gold.now, UTC)
    assert len(steps) == 168
    (silent,) = [step for step in steps if step.at == SILENT]
    assert silent.totals == Totals()
    assert silent.wait == silent.run == (None, None, None)
    assert sum(step.totals.succeeded for step in steps) == gold.now.totals().succeeded > 0


def test_a_long_period_is_drawn_by_day_of_the_zone(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY - HOUR, succeeded=3)  # already Monday in Berlin
    lake.hour(MONDAY, succeeded=4)
    lake.durations(MONDAY - HOUR, "run", [10])
    lake.durations(MONDAY, "run", [10_000])
    found = of(lake, tmp_path, period=Period(MONDAY - timedelta(days=20), MONDAY + timedelta(days=10)))
    steps = figures.steps(found.now, BERLIN)
    assert len(steps) == 31
    (monday,) = [step for step in steps if step.totals.succeeded]
    assert monday.at == datetime(2026, 11, 2, tzinfo=BERLIN)
    assert monday.totals.succeeded == 7
    assert monday.run[2] == pytest.approx(10_000, rel=0.01)


def test_the_heat_map_starts_on_monday_in_the_zone(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY + 23 * HOUR, started=9)
    found = of(lake, tmp_path).now
    assert figures.heat(found, UTC)[0][23] == 9
    assert figures.heat(found, BERLIN)[1][0] == 9
    short = of(Lake(), tmp_path / "short", period=Period(MONDAY, MONDAY + HOUR)).now
    assert figures.heat(short, UTC)[0][:2] == [0, None]


# Who and what


def test_tenants_beyond_the_largest_are_one_row(gold: Gold) -> None:
    rows = figures.tenants(gold.now, gold.before, 3)
    assert [row.tenant for row in rows] == ["northwind", "contoso", "fabrikam", None]
    assert rows[-1].members == 16
    assert sum(row.totals.ended for row in rows) == gold.now.totals().ended
    assert all(row.wait_p95 is not None for row in rows)


def test_failures_that_read_alike_are_one_row(tmp_path: Path) -> None:
    lake = Lake()
    lake.failure(MONDAY + HOUR, "Timeout", "after 2 s", 5, 1, pattern="after # s", job_type="push")
    lake.failure(MONDAY, "Timeout", "after 1 s", 3, 0, pattern="after # s")
    lake.failure(MONDAY, "Timeout", "never", 1, 1)
    lake.failure(MONDAY - HOUR, "Timeout", "after 9 s", 2, 0, pattern="after # s")
    found = of(lake, tmp_path)
    alike, never = figures.failures(found.now, found.before)
    assert (alike.n, alike.final, alike.before) == (8, 1, 2)
    assert alike.types == ("push", "send")
    assert alike.example == "after 1 s"
    assert alike.first_at == MONDAY + timedelta(minutes=1)
    assert alike.last_at == MONDAY + HOUR + timedelta(minutes=50)
    assert (never.n, never.before) == (1, 0)


def test_the_slowest_types(gold: Gold) -> None:
    rows = figures.types(gold.now, gold.before, 2)
    assert {row.job_type for row in rows} == {"transcode_video", "reindex_catalogue"}
    assert rows[0].p95 >= rows[1].p95
    thumbnails = next(row for row in figures.types(gold.now, gold.before, 99) if row.job_type == "render_thumbnail")
    assert thumbnails.p95_before is not None
    assert 1.3 < thumbnails.p95 / thumbnails.p95_before < 2.0


def test_workers_are_busy_over_the_hours_they_worked(tmp_path: Path) -> None:
    lake = Lake()
    lake.usage(MONDAY, 3_600_000, 10, "north")
    lake.usage(MONDAY, 3_600_000, 10, "north", queue="media")
    lake.usage(MONDAY + HOUR, 0, 1, "north")
    lake.usage(MONDAY, 1_800_000, 1, "south")
    north, south = figures.workers(of(lake, tmp_path).now)
    assert (north.worker, north.hours, north.slots, north.peak_slots, north.attempts) == ("north", 2, 1.0, 2.0, 21)
    assert (south.hours, south.slots) == (1, 0.5)


def test_a_storm_is_found_with_its_hours_and_its_family(gold: Gold) -> None:
    (storm,) = storms(gold.now, gold.before)
    assert (storm.job_type, storm.since, storm.until) == ("deliver_webhook", STORM, STORM + 3 * HOUR)
    assert storm.families == ("ConnectTimeout",)
    assert storm.share > 0.5 > 3 * storm.usual


def test_what_is_retried_all_the_time_is_no_storm(tmp_path: Path) -> None:
    lake = Lake()
    for hour in range(168):
        lake.hour(MONDAY + hour * HOUR, started=100, retries=50)
    lake.hour(MONDAY, job_type="rare", started=10, retries=9)
    found = of(lake, tmp_path)
    assert storms(found.now, found.before) == []


def test_a_quiet_hour_does_not_part_a_storm(tmp_path: Path) -> None:
    lake = Lake()
    for hour in range(60):
        stormy = hour in (5, 7, 20)
        lake.hour(MONDAY + hour * HOUR, started=100, retries=90 if stormy else 1)
    found = of(lake, tmp_path)
    stretches = {
        (storm.since - MONDAY) // HOUR: (storm.until - MONDAY) // HOUR for storm in storms(found.now, found.before)
    }
    assert stretches == {5: 8, 20: 21}


# What changed


def test_the_largest_moves(gold: Gold) -> None:
    found = figures.changes(gold.now, gold.before, 20)
    moved = {(move.kind, move.name, move.measure) for move in found.moves}
    assert ("type", "render_thumbnail", "run p95") in moved
    assert [row.family for row in found.new_failures] == ["TemplateSyntaxError"]
    assert found.gone_failures == ()
    back = figures.changes(gold.before, gold.now, 20)
    assert [row.family for row in back.gone_failures] == ["TemplateSyntaxError"]


def test_what_came_and_what_went_is_a_move(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY - HOUR, job_type="old", succeeded=500)
    lake.hour(MONDAY, job_type="new", succeeded=500)
    lake.hour(MONDAY, job_type="tiny", succeeded=5)
    for at in (MONDAY - HOUR, MONDAY):
        lake.hour(at, job_type="same", succeeded=500)
    found = of(lake, tmp_path)
    moves = {
        move.name: (move.before, move.now)
        for move in figures.changes(found.now, found.before, 9).moves
        if move.kind == "type"
    }
    assert moves == {"old": (500, 0), "new": (0, 500)}


def test_chance_is_no_change_of_failures(tmp_path: Path) -> None:
    lake = Lake()
    for at, few, many in ((MONDAY - HOUR, 2, 20), (MONDAY, 5, 100)):
        lake.hour(at, job_type="few", succeeded=200 - few, failed=few)
        lake.hour(at, job_type="many", succeeded=1_000 - many, failed=many)
    found = of(lake, tmp_path)
    moves = [move for move in figures.changes(found.now, found.before, 9).moves if move.kind == "type"]
    assert [(move.name, move.measure, move.before, move.now) for move in moves] == [("many", "failed", 0.02, 0.1)]


# Slots


def test_a_queue_is_judged_by_the_hour_with_the_most_work(tmp_path: Path) -> None:
    """The busiest hour isn't the one with the most jobs, but with the most work; retries are arrivals too."""
    lake = Lake()
    lake.hour(MONDAY, enqueued=7_200, started=7_200)
    lake.durations(MONDAY, "run", [10] * 7_200)
    lake.hour(MONDAY + HOUR, enqueued=300, retries=50, released=6, lease_losses=4, started=360)
    lake.durations(MONDAY + HOUR, "run", [60_000] * 360)
    lake.durations(MONDAY + HOUR, "wait", [2_000] * 360)
    lake.usage(MONDAY + HOUR, 6 * 3_600_000, 360)
    (row,) = figures.queues(of(lake, tmp_path).now, 1.0)
    assert row.hour == MONDAY + HOUR
    assert row.load.per_second == pytest.approx(0.1)
    assert row.load.service_seconds == pytest.approx(60, rel=0.01)
    assert row.busy_slots == 6.0
    assert row.mean_busy_slots == pytest.approx(6 / 168)
    assert row.wait_p95 == pytest.approx(2_000, rel=0.01)
    assert row.needed.slots > 6
    assert row.needed.p95_wait_seconds <= 1.0


def test_an_hour_with_few_runs_takes_the_run_times_of_the_period(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY, enqueued=3_600)
    lake.durations(MONDAY, "run", [9_000])
    lake.durations(MONDAY + HOUR, "run", [100] * 999)
    (row,) = figures.queues(of(lake, tmp_path).now, 1.0)
    assert row.load.service_seconds == pytest.approx(0.109, rel=0.01)


def test_a_queue_without_runs_needs_no_slots(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY, enqueued=10)
    (row,) = figures.queues(of(lake, tmp_path).now, 1.0)
    assert (row.needed.slots, row.wait_p95) == (0, None)
