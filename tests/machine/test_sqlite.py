"""The state machine on the SQLite store: every answer as the model gives it, and the checker agrees."""

from tenure.testing.factories import SqliteFactory
from tenure.testing.machine import run_machine

STEPS = 5_000
SEED = 20_270_116


def test_sqlite_keeps_the_contract() -> None:
    tally = run_machine(SqliteFactory(), steps=STEPS, seed=SEED)
    print(tally.table())
    assert tally.steps >= STEPS
    assert not tally.missing(at_least=STEPS // 1_000)
