"""The state machine on the memory store. Lockstep proves nothing there, for memory is the model: the checker does."""

from collections import defaultdict

import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tenure.testing.factories import MemoryFactory
from tenure.testing.machine import run_machine
from tenure.testing.machine.profiles import MEMORY
from tests.machine.kit import check, names

STEPS = defaultdict(lambda: 120, mixed=3_000)
SEED = 20_270_115


@pytest.mark.parametrize("profile", names(MEMORY))
def test_memory_keeps_the_contract(profile: str) -> None:
    check(MEMORY, profile, lambda _: MemoryFactory(), steps=STEPS[profile], seed=SEED)


def test_a_seed_means_the_same_whatever_numbers_stand_in_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what a change of the code breaks, and what it only makes happen later, look the same."""
    before = run_machine(MemoryFactory(), steps=500, seed=SEED)
    found = Constants()
    found.integers |= set(range(1_000))
    monkeypatch.setattr(providers, "_get_local_constants", lambda: found)
    providers.CONSTANTS_CACHE.cache.clear()
    assert run_machine(MemoryFactory(), steps=500, seed=SEED).table() == before.table()
