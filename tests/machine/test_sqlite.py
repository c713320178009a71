"""The state machine on the SQLite store: every answer as the model gives it, and the checker agrees."""

from collections import defaultdict

import pytest

from tenure.testing.factories import SqliteFactory
from tenure.testing.machine.profiles import SQLITE
from tests.machine.kit import check, names

STEPS = defaultdict(lambda: 400, mixed=2_500)
SEED = 20_270_116


@pytest.mark.parametrize("profile", names(SQLITE))
def test_sqlite_keeps_the_contract(profile: str) -> None:
    check(SQLITE, profile, lambda _: SqliteFactory(), steps=STEPS[profile], seed=SEED)
