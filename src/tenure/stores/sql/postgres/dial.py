"""Connections that a thread opens for an event loop, which may be gone when they are there."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor

from tenure.domain.errors import StoreUnavailable
from tenure.stores.sql.postgres.patience import PatientConnection


class Dial:
    """Opens connections. One that nobody takes any more is closed."""

    def __init__(self, connect: Callable[[], PatientConnection], threads: Executor) -> None:
        self._connect = connect
        self._threads = threads
        self._lock = threading.Lock()
        self._open: list[PatientConnection] = []
        """Those that nobody has taken yet."""
        self._closed = False

    def start(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[None]":
        """Done when there is one to take. Nobody may be left to: the loop may have ended, or the caller given up."""
        return loop.run_in_executor(self._threads, self._add)

    def _add(self) -> None:
        connection = self._connect()
        with self._lock:
            if not self._closed:
                self._open.append(connection)
                return
        connection.close()

    def take(self) -> PatientConnection:
        """One that has been opened, for whoever will close it."""
        with self._lock:
            if self._open:
                return self._open.pop()
        raise StoreUnavailable("the store was closed while this call opened a connection")

    def close(self) -> None:
        """Nobody takes any more."""
        with self._lock:
            self._closed = True
            left, self._open = self._open, []
        for connection in left:
            connection.close()
