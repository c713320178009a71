"""The feed as a stream: every event once, whatever the triggers, restarts and retention."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tenure.domain.errors import EventsLost, InvalidValue, StoreUnavailable
from tenure.spark.stream import FeedReader, split, stream_options
from tenure.spark.tables import EVENTS
from tests.schemas import new_schema
from tests.spark.feeds import enqueue, forget, made, url_of
from tests.spark.stores import BOTH, ON_POSTGRES

Place = tuple[int, int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with ten chunks of one to ten events."""
    return made(tmp_path / "jobs.db", chunks=range(1, 11))


@pytest.fixture
def feed(store_url: str) -> str:
    """The same on either kind of store."""
    return made(store_url, chunks=range(1, 11))


def reader(place: Path | str, **options: str) -> FeedReader:
    given = {"url": url_of(place), "table": "events", **options}
    return FeedReader(stream_options(given), EVENTS.spark)


def follow(spark: SparkSession, place: Path | str, **options: Any) -> DataFrame:
    return spark.readStream.format("tenure").option("url", url_of(place)).options(table="events", **options).load()


def run(events: DataFrame, folder: Path) -> list[list[Place]]:
    """Takes what is there now into a table, and answers what each trigger brought."""
    brought: list[list[Place]] = []

    def keep(batch: DataFrame, _: int) -> None:
        brought.append([(row["pos"], row["idx"]) for row in batch.orderBy("pos", "idx").collect()])

    query = events.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return brought


def all_of(chunks: Iterator[int] | range, first: int = 1) -> list[Place]:
    return [(position, place) for position, size in enumerate(chunks, first) for place in range(size)]


@BOTH
def test_triggers_end_at_chunks_and_bring_each_event_once(spark: SparkSession, feed: str, tmp_path: Path) -> None:
    brought = run(follow(spark, feed, maxEventsPerTrigger=9), tmp_path)
    assert [len(batch) for batch in brought] == [6, 9, 6, 7, 8, 9, 10]
    assert [place for batch in brought for place in batch] == all_of(range(1, 11))


@BOTH
def test_a_query_goes_on_where_its_checkpoint_ends(spark: SparkSession, feed: str, tmp_path: Path) -> None:
    first = run(follow(spark, feed), tmp_path)
    enqueue(feed, [2, 3])
    second = run(follow(spark, feed), tmp_path)
    assert [place for batch in first for place in batch] == all_of(range(1, 11))
    assert [place for batch in second for place in batch] == [(11, 0), (11, 1), (12, 0), (12, 1), (12, 2)]


def test_a_query_may_begin_at_the_end_or_at_a_position(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    assert not any(run(follow(spark, path, startingPosition="latest"), tmp_path / "a"))
    assert run(follow(spark, path, startingPosition="9"), tmp_path / "b") == [[(10, place) for place in range(10)]]


def test_one_tenants_events(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    enqueue(path, [4], tenant="other")
    assert run(follow(spark, path, tenant="other"), tmp_path) == [[(11, place) for place in range(4)]]


@BOTH
def test_any_range_reads_the_same_again(feed: str) -> None:
    one = reader(feed, partitions="3")
    start, end = {**one.initialOffset(), "position": 2}, {**one.initialOffset(), "position": 9}
    times = [
        [batch.to_pylist() for partition in one.partitions(start, end) for batch in one.read(partition)]
        for _ in range(2)
    ]
    assert times[0] == times[1]
    assert sum(len(batch) for batch in times[0]) == sum(range(3, 10))


@BOTH
def test_what_comes_after_the_trigger_began_is_left_for_the_next(feed: str) -> None:
    one = reader(feed)
    one.prepareForTriggerAvailableNow()
    enqueue(feed, [5])
    assert one.latestOffset(one.initialOffset(), ReadAllAvailable())["position"] == 10
    assert reader(feed).latestOffset(one.initialOffset(), ReadAllAvailable())["position"] == 11


@BOTH
def test_a_chunk_larger_than_the_limit_is_taken_whole(feed: str) -> None:
    one = reader(feed)
    start = {**one.initialOffset(), "position": 8}
    assert one.latestOffset(start, ReadMaxRows(2))["position"] == 9


def test_retention_that_overtook_a_query_is_said(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    run(follow(spark, path, maxEventsPerTrigger=5, startingPosition="2"), tmp_path)
    with pytest.raises(EventsLost, match="retention has taken everything up to 12"):
        enqueue(path, [1, 1, 1, 1])
        forget(path, 12)
        reader(path).latestOffset({**reader(path).initialOffset(), "position": 10}, ReadAllAvailable())
    with pytest.raises(StreamingQueryException, match="retention has taken everything up to 12"):
        run(follow(spark, path), tmp_path)


def test_a_checkpoint_of_another_store_is_refused(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    run(follow(spark, path), tmp_path)
    other = made(tmp_path / "other.db", chunks=range(1, 30))
    with pytest.raises(StreamingQueryException, match="another store"):
        run(follow(spark, other), tmp_path)


@BOTH
def test_a_store_older_than_its_reader_is_refused(feed: str) -> None:
    start = {**reader(feed).initialOffset(), "position": 99}
    with pytest.raises(InvalidValue, match="ends at 10: the store is older"):
        reader(feed).latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"table": "jobs", "maxEventsPerTrigger": "5"}, "only events can be followed"),
        ({"table": "events", "maxEventsPerTrigger": "0"}, "maxEventsPerTrigger='0'"),
        ({"table": "events", "maxEventsPerTriger": "5"}, "did you mean 'maxEventsPerTrigger'"),
        ({"table": "events", "startingPosition": "first"}, "give earliest, latest or a position"),
        ({"table": "events", "startingPosition": "latest", "tenant": "no one!"}, "tenant"),
    ],
)
def test_what_cant_be_followed_is_refused_before_any_work(
    spark: SparkSession, path: Path, options: dict[str, str], says: str
) -> None:
    with pytest.raises(PySparkException, match=says):
        spark.readStream.format("tenure").option("url", url_of(path)).options(**options).load()


def test_a_range_is_split_evenly() -> None:
    assert [(one.after, one.until) for one in split(10, 17, 3)] == [(10, 12), (12, 14), (14, 17)]
    assert [(one.after, one.until) for one in split(10, 12, 5)] == [(10, 11), (11, 12)]
    assert split(10, 10, 5) == []


def test_a_feed_of_a_store_of_an_older_schema_asks_for_migration(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE identity")
    with pytest.raises(StoreUnavailable, match="of another version: call migrate"):
        reader(path).initialOffset()


@ON_POSTGRES
def test_on_a_server_too_lost_events_and_other_stores_are_refused(feed: str, postgres_url: str) -> None:
    start = {**reader(feed).initialOffset(), "position": 3}
    forget(feed, 5)
    with pytest.raises(EventsLost, match="retention has taken everything up to 5"):
        reader(feed).latestOffset(start, ReadAllAvailable())
    with new_schema(postgres_url) as other, pytest.raises(InvalidValue, match="another store"):
        reader(made(other)).latestOffset(start, ReadAllAvailable())
