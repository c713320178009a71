"""The memory store keeps the contract."""

import pytest

from tenure.testing.conformance import *  # noqa: F403 the suite
from tenure.testing.factories import MemoryFactory
from tenure.testing.factory import StoreFactory


@pytest.fixture
def factory() -> StoreFactory:
    return MemoryFactory()
