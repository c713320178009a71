"""One Spark session for all tests of this folder that need one; tests/conftest.py has them run in one process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.spark import session
from tests.schemas import new_schema

SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.log.level": "OFF",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""Compiling takes longer than what tests do: a small lake took 28 s with the defaults, 21 s with these."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session(master="local[2,3]", config=SMALL)
    yield made
    made.stop()


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a test's store is to be: in a file, or on a server where `tests.spark.stores.BOTH` says so."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
    else:
        with new_schema(request.getfixturevalue("postgres_url")) as url:
            yield url
