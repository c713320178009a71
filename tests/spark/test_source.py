"""Tables as Spark sees them, against what the store itself says."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bench.spark_only import programs_without_java
from tenure import Context, Fail, Tenure
from tenure.domain.event import Event
from tenure.spark.options import TABLES as NAMES
from tenure.spark.tables import TABLES
from tests.spark import quick

JOBS = 60


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenure]:
    """A store with a little of everything, two tenants, and one job that still waits."""
    made = Tenure(f"sqlite:///{tmp_path_factory.mktemp('store') / 'jobs.db'}")

    @made.job(queue="mail", max_attempts=2)
    async def work(ctx: Context, n: int) -> int:
        if n % 10 == 3:
            raise Fail("never")
        return 2 * n

    async def fill() -> None:
        async with made:
            calls = [work.options(tenant=_tenant(n), labels={"half": str(n % 2)}).build(n) for n in range(JOBS)]
            await made.enqueue_many(calls)
            async with made.worker() as worker:
                await worker.idle()
            await made.enqueue(work.options(delay=3_600, key="later").build(1_000))

    asyncio.run(fill())
    yield made
    made.sync.close()


def _tenant(n: int) -> str:
    return "acme" if n % 3 == 0 else "default"


def table(spark: SparkSession, app: Tenure, name: str = "jobs", **options: str) -> DataFrame:
    reader = spark.read.format("tenure").option("url", str(app.url)).option("table", name)
    return reader.options(**options).load()


def ids(rows: DataFrame) -> set[str]:
    return {row["id"] for row in rows.select("id").collect()}


def test_jobs_are_those_of_the_store(spark: SparkSession, app: Tenure) -> None:
    rows = {row["id"]: row for row in table(spark, app).collect()}
    jobs = list(app.sync.fleet.jobs())
    assert rows.keys() == {job.id for job in jobs}
    assert len(rows) == JOBS + 1
    for job in jobs:
        row = rows[job.id]
        assert (row["tenant"], row["queue"], row["state"], row["status"]) == (
            job.tenant,
            job.queue,
            job.state,
            job.status,
        )
        assert (row["attempt"], row["labels"], row["key"]) == (job.attempt, dict(job.labels), job.key)
        assert row["payload"].startswith(b'{"n":')


def test_a_time_is_the_same_instant(spark: SparkSession, app: Tenure) -> None:
    (row,) = (
        table(spark, app).where("key = 'later'").selectExpr("unix_millis(run_at) - unix_millis(enqueued_at)").collect()
    )
    assert row[0] == 3_600_000


def test_events_are_the_feed_in_order(spark: SparkSession, app: Tenure) -> None:
    found = [(row["kind"], row["job_id"]) for row in table(spark, app, "events", rows="7").collect()]
    assert found == [(event.kind, event.job_id) for event in app.sync.fleet.events()]


def test_attempts_dead_letters_and_results_follow_from_the_jobs(spark: SparkSession, app: Tenure) -> None:
    failed = ids(table(spark, app).where("state = 'failed'"))
    attempts = table(spark, app, "attempts")
    assert attempts.count() == JOBS
    assert ids(attempts.where("outcome = 'failed' and error_message = 'never'")) == failed
    assert ids(table(spark, app, "dead_letters").where("disposition = 'open'")) == failed
    results = table(spark, app, "results").selectExpr("id", "cast(string(result) as int) as value").collect()
    assert {row["value"] for row in results} == {2 * n for n in range(JOBS) if n % 10 != 3}


@pytest.mark.parametrize(
    "where",
    [
        "tenant = 'acme'",
        "state in ('failed', 'pending')",
        "tenant = 'default' and state = 'failed' and queue = 'mail'",
        "enqueued_at > timestamp '2020-01-01' and enqueued_at < timestamp '2100-01-01'",
        "enqueued_at < timestamp '2020-01-01'",
        "tenant = 'no such tenant!'",
        "labels['half'] = '1'",
        "tenant = 'acme' or state = 'failed'",
    ],
)
def test_filters_choose_the_same_rows_wherever_they_are_evaluated(spark: SparkSession, app: Tenure, where: str) -> None:
    rows = table(spark, app)
    everything = spark.createDataFrame(rows.collect(), rows.schema)
    assert ids(rows.where(where)) == ids(everything.where(where))


def test_options_narrow_too(spark: SparkSession, app: Tenure) -> None:
    assert table(spark, app, tenant="acme", labels="half=1").count() == sum(
        1 for n in range(JOBS) if _tenant(n) == "acme" and n % 2
    )


def test_a_schema_of_ones_own_leaves_columns_out(spark: SparkSession, app: Tenure) -> None:
    reader = spark.read.format("tenure").option("url", str(app.url))
    assert reader.schema("id string, state string").load().where("state = 'failed'").columns == ["id", "state"]
    for schema, says in (("id string, sate string", "sate"), ("id bigint", "it is string, not bigint")):
        with pytest.raises(PySparkException, match=says):
            reader.schema(schema).load().count()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "option url"),
        ({"url": "memory://"}, "lives in one process"),
        ({"url": "sqlite:////nowhere/jobs.db"}, "doesn't exist"),
        ({"url": "nosuch://x"}, "no store is known"),
        ({"url": "sqlite:////nowhere/jobs.db", "tabel": "jobs"}, "did you mean 'table'"),
    ],
)
def test_what_cant_be_read_is_refused_before_any_work(spark: SparkSession, options: dict[str, str], says: str) -> None:
    with pytest.raises(PySparkException, match=says):
        spark.read.format("tenure").options(**options).load()


def test_every_table_has_columns_and_every_field_of_an_event_one() -> None:
    assert set(NAMES) == set(TABLES)
    names = {column.name for column in TABLES["events"].columns}
    assert names == (set(Event.__struct_fields__) - {"more"}) | {"pos", "idx", "extra"}


def test_a_session_starts_with_no_java_but_the_wheels(tmp_path: Path) -> None:
    """As on a machine where pip is all there is."""
    path = programs_without_java(tmp_path / "programs")
    environment = {**os.environ, "PATH": str(path), "XDG_CACHE_HOME": str(tmp_path), **quick.environment(tmp_path)}
    environment.pop("JAVA_HOME", None)
    code = "import tenure.spark; print(tenure.spark.session(master='local[1]').range(3).count())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "3", done.stderr[-2_000:]
    assert (tmp_path / "tenure" / "java" / "bin" / "java").exists()
