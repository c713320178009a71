"""A share of the suite on the servers that the system itself has, beside the one that tests bring along."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.testing.conformance import (  # noqa: F401 the share
    TestBugs,
    TestExchange,
    TestRetention,
    world,
)
from tenure.testing.factories import PostgresFactory
from tenure.testing.factory import StoreFactory
from tenure.testing.postgres import PostgresServer, distributions


@pytest.fixture(scope="module", params=distributions(), ids=lambda path: path.parent.name)
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    binaries: Path = request.param
    made = PostgresServer(binaries)
    yield made
    made.remove()


@pytest.fixture
def factory(server: PostgresServer) -> StoreFactory:
    return PostgresFactory(server.url)
