"""The state machine on the PostgreSQL store: every answer as the model gives it, and the checker agrees."""

import pytest

from tenure.testing.factories import PostgresFactory
from tenure.testing.machine import run_machine

STEPS = 2_000
SEED = 20_270_116


@pytest.mark.parametrize("patience", [None, 0], ids=["plain", "frontier"])
def test_postgres_keeps_the_contract(postgres_url: str, patience: int | None) -> None:
    tally = run_machine(PostgresFactory(postgres_url, patience=patience), steps=STEPS // 2, seed=SEED)
    print(tally.table())
    assert tally.steps >= STEPS // 2
    assert not tally.missing(at_least=1)
