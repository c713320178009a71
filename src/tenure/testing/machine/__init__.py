"""The state machine: random worlds in which a store must answer as the model does, at every step.

`run_machine(factory, steps=..., seed=...)` runs it; `python -m tenure.testing.machine --help` too. Lockstep compares
the store under test with the oracle (`lockstep.py`, `oracle.py`); the history checker judges what it says by rules of
its own, which is what proves a store that *is* the model. The rules are in `produce`, `lease`, `commands`, `operate`,
`overlap`, `transfer`; `profiles` says what the world is like, and how often a store must take each of its ways.
"""

from tenure.testing.machine.lockstep import Divergence
from tenure.testing.machine.runner import run_machine
from tenure.testing.machine.tally import Tally

__all__ = ["Divergence", "Tally", "run_machine"]
