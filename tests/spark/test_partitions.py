"""Several tasks, one state of the store."""

import asyncio
import json
import os
import select
import signal
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tenure.domain.calls import Claim, Claimed, Release, Settle
from tenure.domain.errors import SnapshotExpired
from tenure.spark.options import read_options
from tenure.spark.source import Part, TableReader, TenureSource
from tenure.stores.opening import open_store
from tenure.stores.sql.sqlite import shared
from tests.spark.stores import BOTH, ON_POSTGRES
from tests.stores.everything import job

JOBS = 200


@pytest.fixture
def url(store_url: str) -> str:
    add(store_url, *(f"job {n}" for n in range(JOBS)))
    return store_url


@pytest.fixture(autouse=True)
def copies() -> Iterator[set[Path]]:
    """Those that were there before; the others end with the test."""
    before = found()
    yield before
    for folder in found() - before:
        end(folder)


def found() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob(f"{shared.PREFIX}*"))


def end(folder: Path) -> None:
    keeper = int((folder / shared.KEEPER).read_text())
    descriptor = os.pidfd_open(keeper)
    os.kill(keeper, signal.SIGTERM)
    assert select.select([descriptor], [], [], 60)[0]
    os.close(descriptor)
    assert not folder.exists()


def add(url: str, *names: str) -> None:
    async def enqueue() -> None:
        store = open_store(url)
        await store.migrate()
        await store.enqueue([job(name) for name in names])
        await store.close()

    asyncio.run(enqueue())


def load(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("tenure").option("url", url).options(**options).load()


@BOTH
def test_parts_are_the_whole(spark: SparkSession, url: str) -> None:
    whole = sorted(load(spark, url).drop("status").collect())
    parts = load(spark, url, partitions="3")
    assert parts.rdd.getNumPartitions() == 3
    assert sorted(parts.drop("status").collect()) == whole
    assert len(whole) == JOBS


@BOTH
@pytest.mark.parametrize(("consistent", "seen"), [("true", JOBS), ("false", JOBS + 2)])
def test_what_comes_after_the_plan_is_seen_only_if_that_was_allowed(
    spark: SparkSession, url: str, consistent: str, seen: int
) -> None:
    """A plan is used again when its frame is."""
    jobs = load(spark, url, partitions="2", consistent=consistent)
    assert len(jobs.collect()) == JOBS
    add(url, "later", "later still")
    assert len(jobs.collect()) == seen
    assert load(spark, url, partitions="2", consistent=consistent).count() == JOBS + 2


@BOTH
def test_every_part_reads_the_state_of_the_plan(url: str) -> None:
    """Also one that starts after the store has moved on."""
    source = TenureSource({"url": url})
    reader = TableReader(read_options({"url": url, "partitions": "4"}), source.schema())
    parts = reader.partitions()
    assert len(parts) == 4
    rows = 0
    for number, part in enumerate(parts):
        add(url, f"meanwhile {number}")
        rows += sum(batch.num_rows for batch in reader.read(part))
    assert rows == JOBS


def test_a_view_that_is_gone_is_never_replaced_by_another(spark: SparkSession, url: str, copies: set[Path]) -> None:
    jobs = load(spark, url, partitions="2", snapshotSeconds="300")
    assert len(jobs.collect()) == JOBS
    (copy,) = found() - copies
    end(copy)
    add(url, "later")
    with pytest.raises(PySparkException, match=r"SnapshotExpired.*for 300 s.*load\(\) again.*snapshotSeconds"):
        jobs.collect()
    assert load(spark, url, partitions="2").count() == JOBS + 1


def test_its_keeper_belongs_to_spark(spark: SparkSession, url: str, copies: set[Path]) -> None:
    """Not to the process that planned, which Spark ends when it is idle."""
    load(spark, url, partitions="2").collect()
    (copy,) = found() - copies
    keeper = int((copy / shared.KEEPER).read_text())
    order = Path(f"/proc/{keeper}/cmdline").read_bytes()
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # a session has one
    assert f'"owner":{java}}}'.encode() in order


def test_one_part_needs_no_copy(spark: SparkSession, url: str, copies: set[Path]) -> None:
    assert load(spark, url).count() == JOBS
    assert load(spark, url, partitions="4", consistent="false").count() == JOBS
    assert found() == copies


def test_a_filter_that_excludes_everything_needs_none_either(url: str, copies: set[Path]) -> None:
    options = {"url": url, "table": "results", "state": "failed", "partitions": "4"}
    reader = TableReader(read_options(options), TenureSource(options).schema())
    (part,) = reader.partitions()
    assert isinstance(part, Part)
    assert list(reader.read(part)) == []
    assert found() == copies


@contextmanager
def moving(url: str) -> Iterator[None]:
    """Somebody claims jobs and gives them back, all the time."""
    begun, ended = threading.Event(), threading.Event()

    async def move() -> None:
        store = open_store(url)
        while not ended.is_set():
            claim = Claim(claim_id=os.urandom(16), worker="w", queues=(("mail", None),), n=20, ttl=60_000)
            claimed = await store.claim(claim)
            assert isinstance(claimed, Claimed)
            await store.settle([Settle(one.token, Release(0, "snooze")) for one in claimed.jobs])
            begun.set()
        await store.close()

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, move())
        assert begun.wait(60)
        try:
            yield
        finally:
            ended.set()
        running.result()


@ON_POSTGRES
def test_parts_agree_while_jobs_move(spark: SparkSession, url: str) -> None:
    with moving(url):
        jobs = load(spark, url, partitions="4").select("id", "version", "state")
        assert jobs.rdd.getNumPartitions() == 4
        first, second = (sorted(jobs.collect()) for _ in range(2))
        later = sorted(load(spark, url).select("id", "version", "state").collect())
    assert len(first) == JOBS
    assert first == second
    assert first != later


@ON_POSTGRES
def test_a_part_that_is_read_too_late_says_so(url: str) -> None:
    reader = TableReader(read_options({"url": url, "partitions": "2"}), TenureSource({"url": url}).schema())
    first, last = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(first)) == JOBS // 2
    assert isinstance(last, Part)
    address = url.partition("?")[0]
    with psycopg.connect(address, autocommit=True) as server:
        listening = f"LISTEN {json.loads(last.handle or '')['channel']}"
        server.execute(
            "SELECT pg_terminate_backend(a.pid, 60000) FROM pg_stat_activity a JOIN pg_stat_activity b "
            "ON a.application_name = b.application_name WHERE b.query = %s",
            (listening,),
        )
    with pytest.raises(SnapshotExpired, match=r"for 600 s.*load\(\) again"):
        list(reader.read(last))
