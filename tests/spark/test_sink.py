"""Rows become jobs, once each whatever happens on the way, and come back with what became of them."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Unpack

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from tenure import InvalidValue, Job, Tenure
from tenure.domain.errors import StoreFrozen, WriteFailed
from tenure.domain.names import MAX_PAYLOAD
from tenure.engine.queue import QueueOptions
from tenure.spark import batch_summary, enqueue, results
from tests.spark.sink_app import Enriched, Place, jobs
from tests.spark.stores import BOTH

APP = "tests.spark.sink_app:app"


@pytest.fixture
def app(store_url: str) -> Iterator[Tenure]:
    made = Tenure(store_url)
    made.include(jobs)
    yield made
    made.sync.close()


@pytest.fixture
def url(app: Tenure) -> str:
    return str(app.url)


def people(spark: SparkSession, n: int = 50) -> DataFrame:
    return spark.range(n).selectExpr("cast(id as int) as id", "concat('n', id) as name")


def write(rows: DataFrame, url: str, /, **options: str) -> None:
    given = {"url": url, "jobType": "enrich", "keyColumns": "id", **options}
    rows.write.format("tenure").mode("append").options(**given).save()


def stored(app: Tenure) -> dict[str, Job]:
    """The jobs by their key, which no two may share."""
    found = list(app.sync.fleet.jobs())
    by_key = {job.key: job for job in found if job.key is not None}
    assert len(by_key) == len(found)
    return by_key


def work(app: Tenure) -> None:
    async def main() -> None:
        async with app, app.worker() as worker:
            await worker.idle()

    asyncio.run(main())


@contextmanager
def working(app: Tenure, *queues: str) -> Iterator[None]:
    """A worker beside the block."""
    started, ended = threading.Event(), threading.Event()

    async def main() -> None:
        async with app, app.worker(queues):
            started.set()
            await asyncio.to_thread(ended.wait)

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, main())
        assert started.wait(60)
        try:
            yield
        finally:
            ended.set()
        running.result()


def configure(app: Tenure, queue: str, **options: Unpack[QueueOptions]) -> None:
    async def main() -> None:
        async with app:
            await app.queue(queue).configure(**options)

    asyncio.run(main())


# In


@BOTH
def test_a_row_is_the_job_that_the_api_would_have_made(spark: SparkSession, app: Tenure, url: str) -> None:
    summary = enqueue(people(spark), url=url, job_type="enrich", key_columns=["id"], app=APP)
    assert (summary.enqueued, summary.duplicate, summary.rejected, summary.state) == (50, 0, 0, "written")
    assert summary == batch_summary(url, summary.batch)
    found = stored(app)
    assert found.keys() == {str(n) for n in range(50)}
    assert {(job.queue, job.tenant, job.max_attempts) for job in found.values()} == {("enrichment", "default", 2)}
    assert found["7"].payload == {"id": 7, "name": "n7"}
    assert found["7"].labels == {"batch": summary.batch}
    work(app)
    assert app.sync.handle(found["7"].id).result() == Enriched(3.5, "N7")


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_a_typed_handler_gets_what_the_columns_hold(spark: SparkSession, app: Tenure, url: str, codec: str) -> None:
    rows = spark.sql(
        """select 1 as id, cast(1.10 as decimal(9, 2)) as amount, timestamp '2026-03-01 12:00:00.25' as at,
        date '2026-03-01' as day, X'00ff' as raw, named_struct('city', 'Zürich', 'zip', cast(null as int)) as place,
        array('a', 'b') as tags, map('x', 1) as counts, cast(null as double) as ratio, true as yes"""
    )
    enqueue(rows, url=url, job_type=f"kinds.{codec}", key_columns=["id"], app=APP)
    work(app)
    handed = (
        Decimal("1.10"),
        "2026-03-01T12:00:00.250000+00:00",
        "2026-03-01",
        b"\0\xff",
        Place("Zürich", None),
        ["a", "b"],
        {"x": 1},
        None,
        True,
    )
    (back,) = results(rows, url=url, job_type=f"kinds.{codec}", key_columns=["id"], schema="string", app=APP).collect()
    assert (back["state"], back["result"]) == ("succeeded", repr(handed))


def test_a_session_in_another_time_zone_makes_the_same_jobs(spark: SparkSession, app: Tenure, url: str) -> None:
    rows = spark.sql("select 1 as id, map('x', timestamp '2026-03-01 12:00:00Z') as times")
    first = enqueue(rows, url=url, job_type="seen", key_columns=None)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        second = enqueue(rows, url=url, job_type="seen", key_columns=None)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert (first.enqueued, second.duplicate) == (1, 1)
    (job,) = stored(app).values()
    assert job.payload == {"id": 1, "times": {"x": "2026-03-01T12:00:00Z"}}


def test_columns_say_what_differs_from_row_to_row(spark: SparkSession, app: Tenure, url: str) -> None:
    configure(app, "keyed", mode="keyed")
    rows = spark.sql(
        """select * from values
        (1, 'keyed', 'acme', 7, timestamp '2100-01-01 00:00:00Z', 'g1', map('team', 'crm')),
        (2, null, null, null, null, null, null)
        as t(id, q, t, p, at, g, l)"""
    )
    columns = {"queueColumn": "q", "tenantColumn": "t", "priorityColumn": "p", "runAtColumn": "at"}
    plain = {"queue": "plain", "tenant": "default", "priority": "-5", "maxAttempts": "9", "batchId": "b1"}
    write(rows, url, **columns, **plain, groupColumn="g", labelsColumn="l")
    one, two = stored(app)["1"], stored(app)["2"]
    assert (one.queue, one.tenant, one.priority, one.group) == ("keyed", "acme", 7, "g1")
    assert one.run_at == datetime(2100, 1, 1, tzinfo=UTC)
    assert one.labels == {"team": "crm", "batch": "b1"}
    assert (two.queue, two.tenant, two.priority, two.group) == ("plain", "default", -5, None)
    assert (two.labels, two.max_attempts, one.payload, two.payload) == ({"batch": "b1"}, 9, {"id": 1}, {"id": 2})


def test_a_struct_can_be_the_payload(spark: SparkSession, app: Tenure, url: str) -> None:
    rows = people(spark, 3).selectExpr("concat('k', id) as k", "named_struct('id', id, 'name', name) as body", "1 as x")
    summary = enqueue(rows, url=url, job_type="enrich", key_columns=["k"], payload="body", app=APP)
    assert summary.enqueued == 3
    assert stored(app)["k1"].payload == {"id": 1, "name": "n1"}


def test_what_workers_have_published_is_known_without_an_app(spark: SparkSession, app: Tenure, url: str) -> None:
    work(app)  # a worker that starts says what it can do
    enqueue(people(spark, 2), url=url, job_type="enrich", key_columns=["id"])
    assert {job.queue for job in stored(app).values()} == {"enrichment"}
    for rows, says in (
        (people(spark, 2).selectExpr("id", "name as nam"), "'nam': job enrich takes no such argument; did you mean"),
        (people(spark, 2).select("id"), "job enrich needs 'name'"),
    ):
        with pytest.raises(PySparkException, match=says):
            write(rows, url)


# Once


@BOTH
def test_the_same_rows_again_are_duplicates(spark: SparkSession, app: Tenure, url: str) -> None:
    first = enqueue(people(spark), url=url, job_type="enrich", key_columns=["id"], queue="enrichment")
    work(app)
    rows = people(spark, 60).repartition(5)
    again = enqueue(rows, url=url, job_type="enrich", key_columns=["id"], queue="enrichment", batch=first.batch)
    assert (first.enqueued, again.enqueued, again.duplicate) == (50, 10, 50)
    assert len(stored(app)) == 60


@BOTH
def test_writes_at_the_same_time_make_each_job_once(spark: SparkSession, app: Tenure, url: str) -> None:
    together = threading.Barrier(2)

    def go(_: int) -> int:
        rows = spark.createDataFrame([(n, f"n{n}") for n in range(400)], "id int, name string").repartition(2)
        together.wait(60)
        return enqueue(rows, url=url, job_type="enrich", key_columns=["id"], batch_size=7).enqueued

    with ThreadPoolExecutor(2) as threads:
        made = list(threads.map(go, range(2)))
    assert sum(made) == 400
    assert len(stored(app)) == 400


@BOTH
def test_a_task_that_dies_half_way_is_completed_by_its_retry(
    spark: SparkSession, app: Tenure, url: str, tmp_path: Path
) -> None:
    flag = tmp_path / "died"
    rows = spark.range(40).coalesce(1).selectExpr("cast(id as int) as id", f"'{flag}' as flag")
    summary = enqueue(rows, url=url, job_type="mortal", key_columns=["id"], app=APP, batch_size=10)
    assert flag.exists()
    assert (summary.enqueued, summary.duplicate) == (20, 20)  # two batches were in when the process died
    assert stored(app).keys() == {str(n) for n in range(40)}


def test_a_write_that_failed_is_completed_by_running_it_again(spark: SparkSession, app: Tenure, url: str) -> None:
    configure(app, "enrichment", max_depth=20)
    rows = people(spark).coalesce(1)
    with pytest.raises(PySparkException, match="nothing is enqueued twice"):
        write(rows, url, queue="enrichment", onFull="fail", batchId="b1")
    assert batch_summary(url, "b1").state == "failed"
    assert len(stored(app)) == 20
    configure(app, "enrichment", max_depth=None)
    write(rows, url, queue="enrichment", onFull="fail", batchId="b1")
    summary = batch_summary(url, "b1")
    assert (summary.state, summary.enqueued, summary.duplicate, len(stored(app))) == ("written", 30, 20, 50)


@BOTH
def test_a_full_queue_is_waited_for(spark: SparkSession, app: Tenure, url: str) -> None:
    configure(app, "enrichment", max_depth=4)
    with working(app, "enrichment"):
        summary = enqueue(people(spark), url=url, job_type="enrich", key_columns=["id"], app=APP, batch_size=20)
    assert summary.enqueued == 50
    assert len(stored(app)) == 50


def test_a_full_queue_is_waited_for_no_longer_than_told(spark: SparkSession, app: Tenure, url: str) -> None:
    configure(app, "enrichment", max_depth=4)
    with pytest.raises(PySparkException, match=r"queue 'enrichment' of tenant 'default' is full \(no room for"):
        write(people(spark), url, queue="enrichment", waitSeconds="0")
    assert len(stored(app)) == 4


def test_two_tenants_may_have_the_same_keys(spark: SparkSession, app: Tenure, url: str) -> None:
    for tenant in ("acme", "default"):
        assert enqueue(people(spark, 5), url=url, job_type="enrich", key_columns=["id"], tenant=tenant).enqueued == 5
    assert {job.tenant for job in app.sync.fleet.jobs()} == {"acme", "default"}


# Rejected


def test_a_rejected_row_fails_the_write_once_the_others_are_in(spark: SparkSession, app: Tenure, url: str) -> None:
    rows = spark.sql("select * from values (1, 'a'), (null, 'b'), (3, null) as t(id, name)").coalesce(1)
    with pytest.raises(WriteFailed, match=r"2 of 3 rows.*\n.*\n.* row 1: key column 'id' is null") as told:
        enqueue(rows, url=url, job_type="enrich", key_columns=["id"], app=APP, batch="b1")
    assert "row 2, key '3': enrich(): payload: Expected `str`, got `null`" in str(told.value)
    assert list(stored(app)) == ["1"]
    summary = batch_summary(url, "b1")
    assert (summary.state, summary.enqueued, summary.rejected, len(summary.examples)) == ("failed", 1, 2, 2)


def test_rejected_rows_can_be_left_out(spark: SparkSession, app: Tenure, url: str) -> None:
    big = f"if(id % 2 = 0, repeat('x', {MAX_PAYLOAD}), 'x') as text"
    rows = spark.range(100).selectExpr("id", big).coalesce(1)
    summary = enqueue(rows, url=url, job_type="print", key_columns=["id"], on_reject="skip")
    assert (summary.state, summary.enqueued, summary.rejected, len(summary.examples)) == ("written", 50, 50, 20)
    assert summary.examples[1].row == 2
    assert summary.examples[1].key == "2"
    assert "at most 262144 are allowed" in summary.examples[1].reason
    assert len(stored(app)) == 50


@pytest.mark.parametrize(
    ("select", "options", "says"),
    [
        ("id, 'other' as name", {}, "the key is held by job .*, which has another body"),
        ("id + 100 as id, name, 'g' as g", {"groupColumn": "g"}, "queue enrichment is plain"),
        ("id, name, 101 as p", {"priorityColumn": "p"}, "priority 101: give an integer from -100"),
        ("id, name, 'a b' as q", {"queueColumn": "q"}, "queue 'a b'"),
        ("id, name, cast(null as string) as t", {"tenantColumn": "t"}, "tenant column 't' is null"),
        ("id, name, map('batch', 'mine') as l", {"labelsColumn": "l"}, "label 'batch' is the write's own"),
        ("id, named_struct('id', id, 'name', name) as b", {"payload": "b"}, None),
        ("id, if(id > 5, named_struct('id', id, 'name', name), null) as b", {"payload": "b"}, "column 'b' is null"),
        ("id, double('nan') as name", {}, "nan isn't a JSON number"),
        ("id + 100 as id, name, '_x' as t", {"tenantColumn": "t"}, "belong to the store"),
    ],
)
def test_why_a_row_is_rejected(
    spark: SparkSession, app: Tenure, url: str, select: str, options: dict[str, str], says: str | None
) -> None:
    write(people(spark, 2), url, queue="enrichment")
    rows = people(spark, 2).selectExpr(*_split(select))
    if says is None:
        write(rows, url, queue="enrichment", **options)
    else:
        with pytest.raises(PySparkException, match=says):
            write(rows, url, queue="enrichment", **options)
    assert len(list(app.sync.fleet.jobs())) == 2


def _split(select: str) -> list[str]:
    """Expressions, at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in select:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"keyColumns": "ident"}, "no column 'ident'"),
        ({"keyColumns": "tags"}, "column 'tags' is array<string>"),
        ({"keyColumns": "ratio"}, "column 'ratio' is double"),
        ({"priorityColumn": "name"}, "column 'name' is string; it must be tinyint or smallint or int or bigint"),
        ({"runAtColumn": "id"}, "column 'id' is int; it must be timestamp"),
        ({"labelsColumn": "name"}, "it must be map<string,string>"),
        ({"groupColumn": "nam"}, "did you mean 'name'"),
        ({"payload": "name"}, "it must be a struct"),
        ({"keyColumn": "id"}, "did you mean 'keyColumns'"),
        ({"app": "tests.spark.nowhere:app"}, "no module 'tests.spark.nowhere'"),
        ({"app": APP, "jobType": "enrch"}, "the app has no job 'enrch'; did you mean 'enrich'"),
        ({"app": APP}, "'tags': job enrich takes no such argument"),
        ({"url": "memory://"}, "lives in one process"),
        ({"url": "sqlite:////nowhere/jobs.db"}, "its folder doesn't exist"),
        ({"url": "nosuch://x"}, "no store is known"),
    ],
)
def test_what_cant_work_is_refused_before_any_job_is_made(
    spark: SparkSession, app: Tenure, url: str, options: dict[str, str], says: str
) -> None:
    rows = people(spark, 2).selectExpr("*", "array('a') as tags", "double(1) as ratio")
    with pytest.raises(PySparkException, match=says):
        write(rows, url, **options)
    assert not stored(app)


def test_the_function_refuses_with_errors_of_its_own(spark: SparkSession, url: str) -> None:
    rows = people(spark, 2)
    for given, says in (
        ({"key_columns": "id"}, "give a list of names"),
        ({"key_columns": []}, "give a list of names"),
        ({"key_columns": ["ident"]}, "no column 'ident'"),
        ({"key_columns": ["id"], "colour": "red"}, "there is no option 'colour'"),
        ({"key_columns": ["id"], "on_full": "explode"}, "give one of wait, fail"),
        ({"key_columns": ["id"], "payload": "name"}, "it must be a struct"),
    ):
        arguments: dict[str, Any] = {"url": url, "job_type": "enrich", **given}
        with pytest.raises(InvalidValue, match=says):
            enqueue(rows, **arguments)
    write(rows, url)
    with pytest.raises(InvalidValue, match="no write of that id"):
        batch_summary(url, "nothing")


def test_jobs_are_never_overwritten(spark: SparkSession, app: Tenure, url: str) -> None:
    write(people(spark, 2), url)
    with pytest.raises(PySparkException, match=r"say mode\('append'\)"):
        people(spark, 2).write.format("tenure").mode("overwrite").options(
            url=url, jobType="enrich", keyColumns="id"
        ).save()
    assert len(stored(app)) == 2


def test_a_frozen_store_takes_nothing(spark: SparkSession, app: Tenure, url: str) -> None:
    async def freeze() -> None:
        async with app:
            await (await app.opened()).freeze()

    asyncio.run(freeze())
    with pytest.raises(PySparkException, match=str(StoreFrozen())):
        write(people(spark, 2), url)
    assert not stored(app)


# Streams


def stream(spark: SparkSession, folder: Path, url: str, **options: str) -> None:
    rows = spark.readStream.schema("id int, name string").json(str(folder / "in"))
    given = {"url": url, "jobType": "enrich", "keyColumns": "id", "batchId": "s1", **options}
    query = (
        rows.writeStream.format("tenure")
        .options(**given, checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)


def arrive(folder: Path, name: str, ids: range) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = "".join(f'{{"id": {n}, "name": "n{n}"}}\n' for n in ids)
    (folder / "in" / f"{name}.json").write_text(lines, encoding="utf-8")


@BOTH
def test_a_stream_goes_on_where_it_was_and_counts_each_row_once(
    spark: SparkSession, app: Tenure, url: str, tmp_path: Path
) -> None:
    arrive(tmp_path, "one", range(30))
    stream(spark, tmp_path, url)
    assert batch_summary(url, "s1").enqueued == 30
    arrive(tmp_path, "two", range(20, 50))
    stream(spark, tmp_path, url)
    told = batch_summary(url, "s1")
    assert (told.enqueued, told.duplicate, told.micro_batch) == (50, 10, 1)
    (tmp_path / "checkpoint" / "commits" / "1").unlink()  # as if it had died just before Spark noted the end
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink()
    stream(spark, tmp_path, url)
    assert batch_summary(url, "s1") == told
    assert len(stored(app)) == 50


def test_a_stream_stops_at_a_row_that_cant_be_a_job_unless_told_otherwise(
    spark: SparkSession, app: Tenure, url: str, tmp_path: Path
) -> None:
    arrive(tmp_path, "one", range(3))
    with (tmp_path / "in" / "one.json").open("a") as file:
        file.write('{"name": "nobody"}\n')
    with pytest.raises(PySparkException, match="key column 'id' is null"):
        stream(spark, tmp_path, url)
    assert batch_summary(url, "s1").state == "failed"
    stream(spark, tmp_path, url, onReject="skip")
    told = batch_summary(url, "s1")
    assert (told.state, told.duplicate, told.rejected, len(stored(app))) == ("written", 3, 1, 3)


def test_a_stream_needs_a_name(spark: SparkSession, url: str, tmp_path: Path) -> None:
    arrive(tmp_path, "one", range(1))
    with pytest.raises(PySparkException, match="option batchId"):
        stream(spark, tmp_path, url, batchId="")


# And back


def by_id(rows: DataFrame) -> dict[int, Row]:
    return {row["id"]: row for row in rows.collect()}


@BOTH
def test_rows_come_back_with_what_became_of_them(spark: SparkSession, app: Tenure, url: str) -> None:
    rows = people(spark)
    summary = enqueue(rows, url=url, job_type="enrich", key_columns=["id"], app=APP)
    work(app)
    more = people(spark, 52)
    back = results(more, url=url, job_type="enrich", key_columns=["id"], schema="score double, seen string")
    assert back.columns == ["id", "name", "job_id", "state", "result", "error_family", "error_message"]
    found, now = by_id(back), stored(app)
    assert found.keys() == set(range(52))
    assert found[7].asDict(recursive=True) == {
        "id": 7,
        "name": "n7",
        "job_id": now["7"].id,
        "state": "succeeded",
        "result": {"score": 3.5, "seen": "N7"},
        "error_family": None,
        "error_message": None,
    }
    assert now["4"].last_error is not None
    assert (found[4]["state"], found[4]["error_message"]) == ("succeeded", None)
    assert (found[3]["state"], found[3]["error_family"], found[3]["result"]) == ("failed", "Fail", None)
    assert found[3]["error_message"] == "nothing is known of n3"
    assert (found[51]["state"], found[51]["job_id"]) == (None, None)
    text = results(rows, url=url, job_type="enrich", key_columns=["id"], batch=summary.batch, prefix="job_")
    assert by_id(text)[8]["job_result"] == '{"score":4.0,"seen":"N8"}'
    other = results(rows, url=url, job_type="enrich", key_columns=["id"], batch="another")
    assert {row["state"] for row in other.collect()} == {None}


def test_a_replayed_job_stands_for_its_row(spark: SparkSession, app: Tenure, url: str) -> None:
    rows = people(spark, 4)
    enqueue(rows, url=url, job_type="enrich", key_columns=["id"], app=APP)
    work(app)
    again = app.sync.replay(stored(app)["3"].id, payload={"id": 5, "name": "five"})
    work(app)
    back = by_id(results(rows, url=url, job_type="enrich", key_columns=["id"]))
    assert len(back) == 4
    assert (back[3]["job_id"], back[3]["result"]) == (again.id, '{"score":2.5,"seen":"FIVE"}')


def test_the_way_back_knows_every_kind_of_key(spark: SparkSession, app: Tenure, url: str) -> None:
    rows = spark.sql(
        """select * from values
        (1, 'plain', timestamp '2026-03-01 12:00:00Z', 'acme'), (2, '[1]', timestamp '2026-03-02 12:00:00Z', 'acme'),
        (3, repeat('é', 200), timestamp '2026-03-02 12:00:00Z', 'default'), (4, 'a\tb', null, 'default'),
        (5, '', null, 'acme') as t(id, text, at, t)"""
    )
    columns: list[list[str] | None] = [["text"], ["text", "id"], ["id", "t"], None]
    for number, key_columns in enumerate(columns):
        said: dict[str, Any] = {"url": url, "job_type": f"k{number}", "key_columns": key_columns, "tenant_column": "t"}
        assert enqueue(rows, **said).enqueued == 5
        back = results(rows, **said).collect()
        assert {(row["id"], row["state"]) for row in back} == {(n, "pending") for n in range(1, 6)}, key_columns
    assert enqueue(rows.where("at is not null"), url=url, job_type="k9", key_columns=["at", "id"]).enqueued == 3
    keys = {job.key for job in app.sync.fleet.jobs(job_type="k9")}
    assert '["2026-03-01T12:00:00Z",1]' in keys


def test_a_batch_can_be_read_as_tables(spark: SparkSession, app: Tenure, url: str) -> None:
    for batch, n in (("b1", 3), ("b2", 5)):
        write(people(spark, n), url, queue="enrichment", batchId=batch)
    work(app)
    reader = spark.read.format("tenure").option("url", url)
    assert {row["key"] for row in reader.option("batch", "b2").load().collect()} == {"3", "4"}
    found = reader.option("table", "results").option("batch", "b1").load().select("key").collect()
    assert {row["key"] for row in found} == {"0", "1", "2"}
    letters = reader.option("table", "dead_letters").option("batch", "b2").load().select("key").collect()
    assert [row["key"] for row in letters] == ["3"]


def test_results_have_names_of_their_own(spark: SparkSession, url: str) -> None:
    rows = people(spark, 1).selectExpr("id", "name as state")
    with pytest.raises(InvalidValue, match=r"column 'state' is there already.*prefix='job_'"):
        results(rows, url=url, job_type="enrich", key_columns=["id"])
