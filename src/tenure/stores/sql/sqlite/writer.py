"""The writer: one thread per process that owns the writing connection and commits in groups.

Calls queue up while a transaction is on its way to the disk; the next transaction takes them all, each in a savepoint
of its own, so one that breaks takes nothing with it. A call is answered after its COMMIT, never before.
"""

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgspec

from tenure.domain.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from tenure.domain.model import Unit
from tenure.domain.store import Clock
from tenure.stores.base import Operation
from tenure.stores.hints import Changed
from tenure.stores.sql.sqlite.file import BUSY_MS, StoreFile, is_busy, store_error
from tenure.stores.sql.sqlite.forks import Held
from tenure.stores.sql.sqlite.tables import SqliteTables, disconnect
from tenure.stores.ways import Way, Ways

STEP_MS = 100
"""How long another program's transaction is waited for at a time."""
UNWRITTEN = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
"""How a COMMIT fails whose last page didn't get into the log: it is certainly none."""
GROUP = 64
"""Calls in one transaction at most, so that none waits for too many others."""


class Call(msgspec.Struct, frozen=True):
    """A call's parts, and where its answer goes."""

    parts: Sequence[Operation]
    reply: "Future[list[Any]]"


class Answer(msgspec.Struct, frozen=True):
    """What a call came to inside an open transaction."""

    replies: list[Any]
    error: BaseException | None = None


class Writer:
    """Serialises every write of this process. `kept` is told what each commit changed."""

    def __init__(
        self,
        file: StoreFile,
        clock: Clock,
        kept: Callable[[Changed], None],
        ways: Ways,
    ) -> None:
        self._file = file
        self._clock = clock
        self._kept = kept
        self._ways = ways
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._held = Held(self._connected, disconnect)
        self._thread = threading.Thread(target=self._run, name="tenure-sqlite-writer", daemon=True)
        self._thread.start()

    def submit(self, parts: Sequence[Operation]) -> "Future[list[Any]]":
        """Queues a call; its future is done when it is durable, or refused."""
        reply: Future[list[Any]] = Future()
        self._calls.put(Call(parts, reply))
        return reply

    def close(self) -> None:
        """Finishes what is queued, then ends the thread and its connection."""
        self._calls.put(None)
        self._thread.join()

    # The thread

    def _run(self) -> None:
        while True:
            calls, ended = self._next_group()
            if calls:
                self._serve(calls)
            if ended:
                self._held.close()
                return

    def _next_group(self) -> tuple[list[Call], bool]:
        calls: list[Call] = []
        call = self._calls.get()
        while call is not None:
            if call.reply.set_running_or_notify_cancel():  # from here on its caller can't take it back
                calls.append(call)
            if len(calls) == GROUP:
                return calls, False
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                return calls, False
        return calls, True

    def _serve(self, calls: list[Call]) -> None:
        changed = Changed()
        try:
            answers = self._commit(calls, changed)
        except BaseException as error:
            for call in calls:
                call.reply.set_exception(error)
            return
        self._kept(changed)
        for call, answer in zip(calls, answers, strict=True):
            if answer.error is None:
                call.reply.set_result(answer.replies)
            else:
                call.reply.set_exception(answer.error)

    def _commit(self, calls: list[Call], changed: Changed) -> list[Answer]:
        """One transaction for all. A COMMIT of unknown outcome is run again: every call is repeatable (§5a)."""
        for attempt in (1, 2):
            try:
                with self._file.locked():
                    return self._begun(calls, changed)
            except _CommitFailed as failed:
                self._held.close()
                if attempt == 2:
                    raise OutcomeUnknown() from failed.__cause__
            except sqlite3.Error as error:
                self._held.close()
                raise store_error(self._file.path, error) from error
            except (StoreFull, StoreUnavailable):
                self._held.close()
                raise
        raise AssertionError("unreachable")

    def _begun(self, calls: list[Call], changed: Changed) -> list[Answer]:
        """Waits for a program that doesn't take our lock, a little at a time: nobody can fork meanwhile."""
        until = time.monotonic() + BUSY_MS / 1_000
        while True:
            with self._held.used() as tables:
                try:
                    tables.connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if not is_busy(error) or time.monotonic() > until:
                        raise
                    continue
                return self._transaction(tables, calls, changed)

    def _transaction(self, tables: SqliteTables, calls: list[Call], changed: Changed) -> list[Answer]:
        connection = tables.connection
        tables.begin()
        if len(calls) > 1:
            self._ways.took(Way.GROUPED)
        answers = [self._savepoint(tables, call, changed) for call in calls]
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            told = store_error(self._file.path, error)
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if isinstance(told, StoreFull) and error.sqlite_errorcode in UNWRITTEN:
                raise told from error
            raise _CommitFailed from error
        self._file.check_still_there(connection)
        return answers

    def _savepoint(self, tables: SqliteTables, call: Call, changed: Changed) -> Answer:
        connection = tables.connection
        connection.execute("SAVEPOINT call")
        try:
            answer = Answer(self._parts(tables, call.parts, changed))
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError):
                raise  # the device or the file failed: nobody's call can be trusted to have fitted
            connection.execute("ROLLBACK TO call")
            tables.begin(rolled_back=True)
            answer = Answer([], error)
        connection.execute("RELEASE call")
        return answer

    def _parts(self, tables: SqliteTables, parts: Sequence[Operation], changed: Changed) -> list[Any]:
        now = max(self._clock(), tables.meta().mark)
        replies = []
        for part in parts:
            unit = Unit(tables, now)
            replies.append(part(unit))
            tables.keep(unit)
            changed.add(unit)
        return replies

    def _connected(self) -> SqliteTables:
        tables = SqliteTables(self._file.connect(), self._ways)
        tables.connection.execute(f"PRAGMA busy_timeout = {STEP_MS}")
        return tables


class _CommitFailed(Exception):
    """The COMMIT itself failed: it may or may not have reached the disk."""
