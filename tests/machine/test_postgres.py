"""The state machine on the PostgreSQL store: every answer as the model gives it, and the checker agrees."""

from tenure.testing.factories import PostgresFactory
from tenure.testing.machine import run_machine

STEPS = 2_000
SEED = 20_270_116


def test_postgres_keeps_the_contract(postgres_url: str) -> None:
    tally = run_machine(PostgresFactory(postgres_url), steps=STEPS, seed=SEED)
    print(tally.table())
    assert tally.steps >= STEPS
    assert not tally.missing(at_least=1)
