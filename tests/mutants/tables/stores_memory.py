"""Deliberate bugs in `stores/memory.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/memory.py"

MUTANTS = (
    Mutant(
        name="clock-goes-back",
        what="The store follows a clock that goes back.",
        breaks="H11, H3: time stands still",
        edits=(
            Edit("MemoryStore._now", "return max(self._clock(), self._tables.meta().mark)", "return self._clock()"),
        ),
        killers=("machine-memory",),
    ),
)
