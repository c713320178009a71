"""Payloads and results as a job type's own columns."""

import asyncio
import shutil
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from tenure.domain.job import NewJob
from tenure.engine.ids import uuid7
from tenure.stores.sql.sqlite import SqliteStore
from tests.spark import shop


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Orders in every codec, one in a blob, and some that no code of today would have made."""
    path = tmp_path_factory.mktemp("bodies") / "jobs.db"
    store = SqliteStore(path)

    async def fill() -> None:
        with shop.app.on_store(store):
            async with shop.app:
                codecs = ["json", "msgpack", "json.zlib", "msgpack.zlib"]
                calls = [shop.order.options(codec=codec).build(**shop.arguments(n)) for n, codec in enumerate(codecs)]
                large = {**shop.arguments(10), "note": "x" * 3_000}
                gone = {**shop.arguments(11), "note": "y" * 3_000}
                await shop.app.enqueue_many([*calls, shop.order.build(**large)])
                kept = files()
                await shop.app.enqueue(shop.order.build(**gone))
                for file in files() - kept:
                    file.unlink()
                async with shop.app.worker() as worker:
                    await worker.idle()
                await store.enqueue([raw(b'{"number":"twelve"}'), raw(b"\xff"), raw(b"{}", codec="yaml")])
                await shop.app.enqueue_many([shop.count.build(n) for n in (1, (1 << 64) - 1)])

    asyncio.run(fill())
    yield f"sqlite:///{path}"
    shutil.rmtree(shop.BLOBS)


def files() -> set[Path]:
    return {path for path in shop.BLOBS.rglob("*") if path.is_file()}


def raw(payload: bytes, codec: str = "json") -> NewJob:
    return NewJob(tenant="default", id=uuid7(), queue="x", job_type="order", payload=payload, codec=codec)


def load(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("tenure").option("url", url).options(**options).load()


def parsed(spark: SparkSession, url: str, job_type: str, **options: str) -> DataFrame:
    return load(spark, url, app=shop.NAME, jobType=job_type, **options)


def fields(row: Row) -> dict[str, Any]:
    return row.asDict(recursive=True)


def test_a_payload_is_a_struct_of_the_handlers_parameters(spark: SparkSession, url: str) -> None:
    rows = parsed(spark, url, "order").where("payload_error is null").orderBy("payload.number").collect()
    expected = {
        "weight": 1.5,
        "gift": True,
        "picture": b"\x00\xff",
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 8),  # noqa: DTZ001 as Spark gives times in the session's zone, UTC
        "size": "large",
        "lines": [{"article": "shoe", "price": Decimal("19.99")}],
        "to": {"city": "Ulm", "zip": None},
        "counts": {"a": 1},
        "anything": '[1,"x",null]',
    }
    notes = {0: None, 1: None, 2: None, 3: None, 10: "x" * 3_000}
    found = {row["payload"]["number"]: fields(row["payload"]) for row in rows}
    assert found == {n: {"number": n, **expected, "note": note} for n, note in notes.items()}


def test_what_cant_be_opened_is_nothing_with_its_reason(spark: SparkSession, url: str) -> None:
    rows = parsed(spark, url, "order").where("payload_error is not null").collect()
    assert {row["payload"] for row in rows} == {None}
    reasons = [row["payload_error"] for row in rows]
    for says in ("BlobNotFound", "codec 'yaml' isn't known", "Expected `int`, got `str`", "JSON is malformed"):
        assert sum(says in reason for reason in reasons) == 1, reasons
    assert len(reasons) == 4


def test_a_number_that_spark_cant_hold_is_put_down_as_an_error(spark: SparkSession, url: str) -> None:
    rows = parsed(spark, url, "count").collect()
    found = sorted((row["payload"] is None, row["payload_error"] or "") for row in rows)
    assert found[0] == (False, "")
    assert found[1][0]
    assert "Overflow" in found[1][1] or "too large" in found[1][1]


def test_a_result_is_typed_too(spark: SparkSession, url: str) -> None:
    table = parsed(spark, url, "order", table="results")
    assert table.schema["result"].dataType.simpleString() == "struct<number:bigint,at:timestamp>"
    found = {row[0]: row[1] for row in table.selectExpr("result.number", "year(result.at)").collect()}
    assert found == dict.fromkeys([0, 1, 2, 3, 10], 2026)


def test_json_of_any_job_type(spark: SparkSession, url: str) -> None:
    table = load(spark, url, bodies="json", app=shop.NAME).where("job_type = 'count' or codec = 'msgpack.zlib'")
    found = table.selectExpr("job_type", "get_json_object(payload, '$.n')", "get_json_object(payload, '$.weight')")
    assert {tuple(row) for row in found.collect()} == {
        ("count", "1", None),
        ("count", str((1 << 64) - 1), None),
        ("order", None, "1.5"),
    }


def test_without_the_app_a_blob_is_said_to_need_it(spark: SparkSession, url: str) -> None:
    rows = load(spark, url, bodies="json").where("codec = 'json.blob'").collect()
    assert len(rows) == 2
    assert all(row["payload"] is None and "blob store" in row["payload_error"] for row in rows)


def test_a_schema_of_ones_own_needs_no_bodies(spark: SparkSession, url: str) -> None:
    reader = spark.read.format("tenure").option("url", url).option("app", shop.NAME).option("jobType", "order")
    assert reader.schema("id string, payload_error string").load().where("payload_error is null").count() == 5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"app": "no_such_module:app", "jobType": "order"}, "no module 'no_such_module'"),
        ({"app": "tests.spark.shop:nothing", "jobType": "order"}, "has no 'nothing': it has app"),
        ({"app": "tests.spark.shop:NAME", "jobType": "order"}, "is a str, not a Tenure"),
        ({"app": "tests.spark.shop:app", "jobType": "odrer"}, "tests.spark.shop:app has count, order"),
        ({"app": "tests.spark.shop:app"}, "give the options app .MODULE:APP. and jobType"),
        ({"bodies": "parsed", "jobType": "order"}, "give the options app"),
    ],
)
def test_what_cant_be_parsed_is_refused_before_any_work(
    spark: SparkSession, url: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(PySparkException, match=says):
        load(spark, url, **options)
