"""The memory store: the model over dictionaries. The reference, and the store for tests.

It is the oracle that the state machine compares every other store with, so it shares no code with them but the model,
the protocol's verbs and hints: a fault in shared code would be in both answers. No refactoring may give it the tables,
encodings or short ways of another store (`tests/machine/test_oracle.py`).
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tenure.domain.model import Unit
from tenure.domain.names import Ms
from tenure.domain.store import Capabilities, Clock, ClockFloor
from tenure.stores.base import ModelStore, Operation
from tenure.stores.clock import system_clock
from tenure.stores.hints import Changed
from tenure.stores.memory_tables import MemoryTables

T = TypeVar("T")

SCHEMA = 1


class MemoryStore(ModelStore):
    """Keeps everything in this process, and nothing after it. Any thread may call it."""

    def __init__(self, clock: Clock = system_clock) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._tables = MemoryTables()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="memory",
            clock_floor=ClockFloor.STORE,
            survives_process_crash=False,
            survives_power_loss=False,
            survives_failover=False,
            user_transactions=False,
            multi_process=False,
            multi_host=False,
            exact_depth=True,
            snapshot_reads=True,
        )

    async def migrate(self) -> int:
        return SCHEMA

    async def close(self) -> None:
        """Nothing to let go of."""

    def _now(self) -> Ms:
        return max(self._clock(), self._tables.meta().mark)

    async def _write(self, *parts: Operation) -> list[Any]:
        replies = []
        changed = Changed()
        with self._lock:
            now = self._now()
            for part in parts:
                unit = Unit(self._tables, now)
                replies.append(part(unit))
                self._tables.keep(unit)
                changed.add(unit)
        self._hints.tell_changed(changed)
        return replies

    async def _read(self, part: Callable[[Unit], T]) -> T:
        with self._lock:
            return part(Unit(self._tables, self._now()))

    async def verify(self) -> list[str]:
        """Differences between indexes and records; none in a sound store."""
        with self._lock:
            return self._tables.verify()
