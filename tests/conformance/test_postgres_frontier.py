"""Claims that always go from frontiers keep the contract: the topics that claims and sweeps are in."""

import pytest

from tenure.testing.conformance import (
    TestExchange,
    TestExpiry,
    TestFairness,
    TestGroups,
    TestLeases,
    TestOrder,
    world,
)
from tenure.testing.factories import PostgresFactory
from tenure.testing.factory import StoreFactory

__all__ = ["TestExchange", "TestExpiry", "TestFairness", "TestGroups", "TestLeases", "TestOrder", "world"]


@pytest.fixture
def factory(postgres_url: str) -> StoreFactory:
    return PostgresFactory(postgres_url, patience=0)
