"""A frame that is used more than once, and stores that can't be read."""

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, EqualTo

from tenure.domain.errors import StoreUnavailable
from tenure.spark.source import PushingReader, TableReader, TenureSource
from tenure.stores.opening import open_store
from tests.spark.stores import ON_POSTGRES
from tests.stores.everything import Everything, id_of, job

URL = "sqlite:///{}"


async def fill(url: str) -> None:
    """40 jobs of tenant acme, 2 of zoo."""
    store = open_store(url)
    await store.migrate()
    await store.enqueue([job(f"job {n}", queue=f"q{n % 2}", labels={"half": str(n % 2)}) for n in range(40)])
    await store.enqueue([job(f"job {n}", tenant="zoo", job_type="feed") for n in range(2)])
    await store.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("reading") / "jobs.db"
    asyncio.run(fill(URL.format(file)))
    return file


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("tenure").option("url", URL.format(path)).options(**options).load()


def rows(reader: DataSourceReader) -> int:
    assert isinstance(reader, TableReader)
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def test_filters_of_one_use_arent_those_of_the_next(spark: SparkSession, path: Path) -> None:
    """Spark 4.3 plans a source once for all uses of a frame, with the filters of whichever came last."""
    jobs = load(spark, path)
    assert jobs.where("tenant = 'zoo'").count() == 2
    assert jobs.count() == 42
    both = jobs.where("tenant = 'zoo'").union(jobs.where("tenant = 'acme' and queue = 'q1'"))
    assert both.count() == 22
    jobs.createOrReplaceTempView("jobs_of_a_test")
    counted = spark.sql(
        "select (select count(*) from jobs_of_a_test where tenant = 'zoo'), (select count(*) from jobs_of_a_test)"
    )
    assert tuple(counted.collect()[0]) == (2, 42)


def test_a_frame_that_is_used_once_may_have_its_filters_pushed_down(spark: SparkSession, path: Path) -> None:
    assert load(spark, path, pushdown="true").where("tenant = 'zoo' and queue = 'mail'").count() == 2
    assert load(spark, path, pushdown="true").where("queue = 'no such queue!'").count() == 0
    events = load(spark, path, pushdown="true", table="events").where("tenant = 'zoo'")
    assert [row["job_id"] for row in events.collect()] == [id_of("job 0"), id_of("job 1")]


def test_what_is_pushed_down_isnt_read(path: Path) -> None:
    options = {"url": URL.format(path), "pushdown": "true"}
    reader = TenureSource(options).reader(TenureSource(options).schema())
    assert isinstance(reader, PushingReader)
    filters = [EqualTo(("tenant",), "zoo")]
    assert list(reader.pushFilters(list(filters))) == filters
    assert rows(reader) == 2


CHOSEN: list[tuple[dict[str, str], int]] = [
    ({"queue": "q1"}, 20),
    ({"jobType": "feed"}, 2),
    ({"state": "running,failed"}, 0),
    ({"state": "pending", "labels": "half=1"}, 20),
    ({"enqueuedFrom": "2100-01-01"}, 0),
    ({"enqueuedBefore": "2100-01-01", "partitions": "2"}, 42),
    ({"table": "dead_letters", "state": "pending"}, 0),
]


@pytest.mark.parametrize(("options", "chosen"), CHOSEN)
def test_options_choose_jobs(spark: SparkSession, path: Path, options: dict[str, str], chosen: int) -> None:
    assert load(spark, path, **options).count() == chosen


@ON_POSTGRES
def test_options_and_filters_choose_the_same_on_a_server(store_url: str) -> None:
    asyncio.run(fill(store_url))
    zoo = [EqualTo(("tenant",), "zoo")]
    for options, chosen in (
        *CHOSEN,
        ({"table": "events", "tenant": "zoo"}, 2),
        ({"tenant": "zoo", "partitions": "2"}, 2),
    ):
        source = TenureSource({"url": store_url, **{name.lower(): value for name, value in options.items()}})
        assert rows(source.reader(source.schema())) == chosen, options
    pushing = TenureSource({"url": store_url, "pushdown": "true"})
    reader = pushing.reader(pushing.schema())
    assert list(reader.pushFilters(list(zoo))) == zoo
    assert rows(reader) == 2


@ON_POSTGRES
def test_a_server_that_cant_be_read_is_refused_with_what_to_do(store_url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"no schema yet.*migrate"):
        TenureSource({"url": store_url}).schema()
    with pytest.raises(StoreUnavailable, match=r"postgresql://127\.0\.0\.1/none"):
        TenureSource({"url": "postgresql://nobody@127.0.0.1:1/none"}).schema()


def test_a_relative_file_is_the_one_of_the_folder_that_spark_was_started_in(spark: SparkSession, path: Path) -> None:
    relative = os.path.relpath(path, os.getcwd())
    assert spark.read.format("tenure").option("url", f"sqlite:///{relative}").load().count() == 42


def test_tasks_get_the_whole_path(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    source = TenureSource({"url": "sqlite:///jobs.db"})
    reader = source.reader(source.schema())
    monkeypatch.chdir(tmp_path)
    assert rows(reader) == 42


def test_a_store_of_a_newer_schema_is_refused_before_any_work(spark: SparkSession, tmp_path: Path) -> None:
    made = Everything(tmp_path / "jobs.db")
    asyncio.run(made.store.migrate())
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(PySparkException, match=r"has schema 99, this Tenure knows up to \d+: upgrade tenure"):
        load(spark, tmp_path / "jobs.db")


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """A store in a folder where this test may not write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(Everything(folder / "jobs.db").store.migrate())
        for path, mode in (*((file, 0o444) for file in folder.iterdir()), (folder, 0o555)):
            path.chmod(mode)
        yield folder / "jobs.db"
        folder.chmod(0o755)


@contextmanager
def nobody() -> Iterator[None]:
    """Root may write anywhere: then it isn't root who tries."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_store_that_is_read_only_is_refused_with_what_to_do(unwritable: Path) -> None:
    """SQLite keeps its readers in a file beside the store, so reading takes the right to write there."""
    source = TenureSource({"url": URL.format(unwritable)})
    with nobody(), pytest.raises(StoreUnavailable, match="check who owns the file and its folder"):
        source.schema()
