"""What an upgrade is to do, and where its store is."""

import shutil
from pathlib import Path
from typing import Literal

import msgspec
import psycopg
from msgspec.structs import replace

from tenure.domain.names import MINUTE, SECOND, Ms
from tenure.stores.clock import system_clock
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.history import JsonLines, RecordingStore

Kind = Literal["sqlite", "postgres"]
PRODUCED = {"old-producer": 10_000_000, "new-producer": 20_000_000, "old-late": 30_000_000}
"""Who enqueues while others migrate, and the number of their first job."""
REPLAYED = 40_000_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One upgrade. `server` is a PostgreSQL server's address, and `database` the store's own there."""

    folder: str
    base: str
    server: str | None = None
    database: str = "upgraded"
    jobs: int = 2_000
    held: int = 60
    """Jobs that an old worker holds from before the migration until after it."""
    old_workers: int = 1
    new_workers: int = 1
    batch: int = 50
    """Jobs in a call of a worker: who waits for a file waits for all that came before."""
    ttl: Ms = MINUTE
    grace: Ms = SECOND
    pace_seconds: float = 0.02
    """Of producers, from one call to the next."""

    @property
    def kind(self) -> Kind:
        return "sqlite" if self.server is None else "postgres"

    @property
    def url(self) -> str:
        if self.server is None:
            return f"sqlite:///{self.file}"
        return f"{self.server.rpartition('/')[0]}/{self.database}"

    @property
    def file(self) -> Path:
        return Path(self.folder) / f"{self.database}.db"

    @property
    def histories(self) -> Path:
        return Path(self.folder) / "histories"

    def create(self) -> None:
        self.histories.mkdir(parents=True, exist_ok=True)
        self._ask("CREATE DATABASE {}", self.database)

    def copied(self, name: str) -> "Plan":
        """The store copied whole, while nobody uses it."""
        copy = replace(self, database=f"{self.database}_{name}")
        if self.server is None:
            shutil.copyfile(self.file, copy.file)
        self._ask("CREATE DATABASE {} TEMPLATE {}", copy.database, self.database)
        return copy

    def drop(self) -> None:
        if self.server is None:
            self.file.unlink(missing_ok=True)
        self._ask("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.database)

    def _ask(self, statement: str, *names: str) -> None:
        if self.server is not None:
            with psycopg.connect(self.server, autocommit=True) as connection:
                connection.execute(statement.format(*(f'"{name}"' for name in names)).encode())


def opened(plan: Plan) -> SqliteStore | PostgresStore:
    return SqliteStore(plan.file) if plan.server is None else PostgresStore(plan.url)


def client(plan: Plan, name: str) -> RecordingStore:
    """A process's own way into the store, which writes down every call before it is sent."""
    return RecordingStore(opened(plan), JsonLines(plan.histories / f"{name}.jsonl"), name, system_clock)
