"""Whether a lake is what its feed says: every table against plain Python over the same events, row by row."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.history import plain
from tenure.spark import table

GOLD = ("hourly", "latency", "failures", "usage")
SILVER = ("jobs", "attempts", "dispositions")


def rows_of(spark: SparkSession, lake: Path, name: str) -> plain.Table:
    """A table as the plain computation has it."""
    keys = plain.KEYS[name.split(".")[1]]
    rows = [
        {column: _milliseconds(value) for column, value in row.items()}
        for row in table(spark, lake, name).toArrow().to_pylist()
    ]
    found = {tuple(row[key] for key in keys): row for row in rows}
    if len(found) != len(rows):
        raise AssertionError(f"a key of {name} stands twice")
    return found


def _milliseconds(value: Any) -> Any:
    return round(value.timestamp() * 1_000) if isinstance(value, datetime) else value


def gold_differs(spark: SparkSession, store: Path, lake: Path) -> tuple[int, dict[str, list[str]]]:
    """How many rows were compared, and where they differ."""
    gold = plain.gold(plain.events_of(store))
    return _differs(spark, lake, {f"gold.{name}": getattr(gold, name) for name in GOLD})


def silver_differs(spark: SparkSession, store: Path, lake: Path) -> tuple[int, dict[str, list[str]]]:
    silver = plain.silver(plain.events_of(store))
    return _differs(spark, lake, {f"silver.{name}": getattr(silver, name) for name in SILVER})


def _differs(spark: SparkSession, lake: Path, expected: Mapping[str, plain.Table]) -> tuple[int, dict[str, list[str]]]:
    said = {name: plain.compare(rows, rows_of(spark, lake, name)) for name, rows in expected.items()}
    return sum(map(len, expected.values())), {name: lines for name, lines in said.items() if lines}


def bronze_differs(spark: SparkSession, store: Path, lake: Path) -> list[str]:
    """Whether every event is there, once."""
    places = [(pos, idx) for pos, idx, _ in plain.events_of(store)]
    rows = table(spark, lake, "bronze.events").select("pos", "idx").collect()
    found = sorted((row["pos"], row["idx"]) for row in rows)
    return [] if found == places else [f"{len(found)} events, not {len(places)}"]


def differences(spark: SparkSession, store: Path, lake: Path) -> dict[str, list[str]]:
    """Of all tables; empty when they are right."""
    bronze = bronze_differs(spark, store, lake)
    return {
        **gold_differs(spark, store, lake)[1],
        **silver_differs(spark, store, lake)[1],
        **({"bronze.events": bronze} if bronze else {}),
    }
