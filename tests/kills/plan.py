"""What a campaign is to do, and where its processes meet."""

from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from tenure.domain.names import Ms
from tenure.stores.clock import system_clock
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.history import JsonLines, RecordingStore

TTL: Ms = 1_000
GRACE: Ms = 1_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign. `victims` of the worker processes are killed, the others live through it."""

    folder: str
    seed: int = 1
    jobs: int = 20_000
    processes: int = 4
    victims: int = 2
    producers: int = 2
    kills: int = 50
    producer_kills: int = 5
    batch: int = 20
    hold_seconds: float = 0.25
    """How long a worker works on a batch, at most; stalls not counted."""
    pace_seconds: float = 1.5
    """From one kill to the next, at least."""

    @property
    def database(self) -> Path:
        return Path(self.folder) / "jobs.db"

    @property
    def histories(self) -> Path:
        return Path(self.folder) / "histories"


def client(plan: Plan, name: str) -> RecordingStore:
    """A process's own way into the store, which writes down every call before it is sent."""
    return RecordingStore(SqliteStore(plan.database), JsonLines(plan.histories / f"{name}.jsonl"), name, system_clock)


Line = Connection
"""A pipe between the campaign and one of its processes; its end tells either that the other is gone."""
