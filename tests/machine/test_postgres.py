"""The state machine on the PostgreSQL store: every answer as the model gives it, and the checker agrees."""

from collections import defaultdict

import pytest

from tenure.testing.factories import PostgresFactory
from tenure.testing.machine.profiles import POSTGRES
from tests.machine.kit import check, names

STEPS = defaultdict(lambda: 240, mixed=800)
SEED = 20_270_116


@pytest.mark.parametrize("profile", names(POSTGRES))
def test_postgres_keeps_the_contract(postgres_url: str, profile: str) -> None:
    check(POSTGRES, profile, lambda one: PostgresFactory(postgres_url, **one.options), steps=STEPS[profile], seed=SEED)
