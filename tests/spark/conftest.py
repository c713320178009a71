"""One Spark session for all tests of this folder, which run in one process for that."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.spark import session

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    quiet = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"}
    made = session(master="local[2,3]", config=quiet)
    yield made
    made.stop()
