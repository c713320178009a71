"""What the tests of this folder share: a Spark session, and a process for programs that start sessions of their own.

tests/conftest.py has those that use the same one run in one process.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.spark import session
from tenure.testing.postgres import PostgresServer
from tests.schemas import new_schema
from tests.spark.programs import Programs
from tests.spark.quick import SMALL


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server for these tests alone. The views that they keep outlive them: until Spark ends, the server clears no
    dead rows, claims walk over them, and no index that is built beside writers is finished.
    """
    server = PostgresServer()
    yield server.url
    server.remove()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session(master="local[2,3]", config=SMALL)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def only_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    made = Programs(tmp_path_factory.mktemp("programs"))
    yield made
    made.close()


@pytest.fixture
def programs(only_programs: Programs) -> Programs:
    """In an empty folder."""
    only_programs.clear()
    return only_programs


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a test's store is to be: in a file, or on a server where `tests.spark.stores.BOTH` says so."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
    else:
        with new_schema(request.getfixturevalue("postgres_url")) as url:
            yield url
