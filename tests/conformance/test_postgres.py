"""The PostgreSQL store keeps the contract."""

import pytest

from tenure.testing.conformance import *  # noqa: F403 the suite
from tenure.testing.factories import PostgresFactory
from tenure.testing.factory import StoreFactory


@pytest.fixture
def factory(postgres_url: str) -> StoreFactory:
    return PostgresFactory(postgres_url)
