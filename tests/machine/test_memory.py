"""The state machine on the memory store. Lockstep proves nothing there, for memory is the model: the checker does."""

from tenure.testing.factories import MemoryFactory
from tenure.testing.machine import run_machine

STEPS = 5_000
SEED = 20_270_115


def test_memory_keeps_the_contract() -> None:
    tally = run_machine(MemoryFactory(), steps=STEPS, seed=SEED)
    print(tally.table())
    assert tally.steps >= STEPS
    assert not tally.missing(at_least=STEPS // 1_000)
