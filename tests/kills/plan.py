"""What a campaign is to do, and where its processes meet."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import msgspec

from tenure.domain.errors import OutcomeUnknown, StoreUnavailable
from tenure.domain.names import Ms
from tenure.stores.clock import system_clock
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.history import JsonLines, RecordingStore

T = TypeVar("T")

logging.getLogger("psycopg").setLevel(logging.ERROR)  # it says of each lost connection that it is lost

PATIENCE = 60.0
"""Seconds without any progress after which a campaign is stuck, which is a fault."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign. `victims` of the worker processes are killed, the others live through it."""

    folder: str
    url: str | None = None
    """Of a PostgreSQL server; without one, a SQLite file in the folder."""
    seed: int = 1
    ttl: Ms = 1_000
    grace: Ms = 1_000
    jobs: int = 20_000
    processes: int = 4
    victims: int = 2
    producers: int = 2
    kills: int = 50
    producer_kills: int = 5
    server_kills: int = 0
    batch: int = 20
    produced_at_once: int = 25
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

    @property
    def rounds(self) -> int:
        """In each one there is a kill."""
        return max(1, self.kills, self.server_kills)

    def due(self, total: int, number: int) -> int:
        """How many of so many, spread over all rounds, belong to one of them."""
        return divided(total, self.rounds)[number]


def divided(total: int, parts: int) -> list[int]:
    """So many in parts that are as alike as can be."""
    return [total * (number + 1) // parts - total * number // parts for number in range(parts)]


def opened(plan: Plan) -> SqliteStore | PostgresStore:
    return SqliteStore(plan.database) if plan.url is None else PostgresStore(plan.url)


def client(plan: Plan, name: str) -> RecordingStore:
    """A process's own way into the store, which writes down every call before it is sent."""
    return RecordingStore(opened(plan), JsonLines(plan.histories / f"{name}.jsonl"), name, system_clock)


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Asks until there is an answer: the same again is safe (§5a), and a server that was killed is back soon."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return await call()
        except (OutcomeUnknown, StoreUnavailable):
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.05)


Line = Connection
"""A pipe between the campaign and one of its processes; its end tells either that the other is gone."""
