"""A transaction that a handler shares with its job: both happen, or neither."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from tenure.domain.calls import Settle, Settled
from tenure.domain.errors import Refused, StoreUnavailable
from tenure.domain.model import Unit
from tenure.domain.store import Clock
from tenure.stores.sql import hot
from tenure.stores.sql.joined import JoinedCalls
from tenure.stores.sql.sqlite.file import StoreFile, translated
from tenure.stores.sql.sqlite.joined import run_joined

T = TypeVar("T")


class SqliteTransaction(JoinedCalls):
    """One writing transaction, behind the lock that all writers of Tenure take. Not for long: everyone else waits."""

    def __init__(self, file: StoreFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._owner = os.getpid()
        self._lock = ExitStack()
        self._connection: sqlite3.Connection | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """For the handler's own statements. It commits with the job, or not at all."""
        if self._connection is None:
            raise StoreUnavailable("this transaction has ended")
        self.check_owner()
        return self._connection

    @property
    def ours(self) -> bool:
        """Whether it was begun by this process, and not by one that this was forked from."""
        return os.getpid() == self._owner

    def check_owner(self) -> None:
        if not self.ours:
            raise StoreUnavailable("this transaction belongs to the process that began it, not to a forked child")

    def begin(self) -> None:
        self._lock.enter_context(self._file.locked())
        with translated(self._file.path):
            self._connection = self._file.connect()
            self._connection.execute("BEGIN IMMEDIATE")

    def _run(self, part: Callable[[Unit], T]) -> T:
        return run_joined(self._file, self._clock, self.connection, part)

    def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        return self._run(lambda unit: hot.settle(unit, settlements))

    def commit(self) -> None:
        with translated(self._file.path):
            self.connection.execute("COMMIT")
        self._file.check_still_there(self.connection)

    def close(self) -> None:
        """Undoes what wasn't committed, and lets the others write."""
        connection, self._connection = self._connection, None
        if not self.ours:
            return  # it goes on in the process that began it
        try:
            if connection is not None:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                connection.close()
        finally:
            self._lock.close()
