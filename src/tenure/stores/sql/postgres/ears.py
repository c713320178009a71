"""Hearing other processes on an event loop: what they tell reaches whoever waits there without passing a thread."""

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection

from tenure.domain.errors import StoreError
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.dial import Dial
from tenure.stores.sql.postgres.patience import PatientConnection
from tenure.stores.sql.postgres.reach import RECONNECT_SECONDS
from tenure.stores.sql.postgres.wake import MISSED, UNHEARD, channel


class Ears:
    """A connection of one event loop that listens, and another when it breaks. Hints are missing meanwhile.

    No task: nobody is told of one that is still there when the loop ends.
    """

    def __init__(
        self, server: Server, own: dict[int, int], tell: Callable[[Collection[str]], None], threads: Executor
    ) -> None:
        self._server = server
        self._own = own
        """Connection → process of the server that tells for this one: what they say is known here."""
        self._tell = tell
        self._dial = Dial(self._listening, threads)
        self._loop = asyncio.get_running_loop()
        self._connection: Connection[Any] | None = None
        self._closed = False
        self._connect()

    def close(self) -> None:
        self._closed = True
        self._server.hints.forget(self)
        self._dial.close()
        self._hang_up()

    def _connect(self) -> None:
        if not self._closed:
            with suppress(RuntimeError):  # the store was closed
                self._dial.start(self._loop).add_done_callback(self._connected)

    def _listening(self) -> PatientConnection:
        connection = self._server.connect()
        try:
            connection.execute(f'LISTEN "{channel(self._server)}"'.encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected(self, connecting: "asyncio.Future[None]") -> None:
        try:
            connecting.result()
        except (psycopg.Error, StoreError, OSError) as error:
            self._connect_later(error)
            return
        if self._closed:
            return
        connection = self._connection = self._dial.take()
        self._server.hints.back(self)
        self._loop.add_reader(connection.fileno(), self._hear, connection)
        self._tell(MISSED)

    def _connect_later(self, error: Exception) -> None:
        self._server.hints.lost(self, error)
        self._tell(UNHEARD)
        self._loop.call_later(RECONNECT_SECONDS, self._connect)

    def _hear(self, connection: "Connection[Any]") -> None:
        libpq, topics, ours = connection.pgconn, set[str](), self._own.values()
        socket = connection.fileno()
        try:
            libpq.consume_input()
            while (notify := libpq.notifies()) is not None:
                if notify.be_pid not in ours:
                    topics.update(notify.extra.decode().split("\n"))
        except psycopg.Error as error:
            self._loop.remove_reader(socket)
            self._hang_up()
            self._connect_later(error)
        if topics:
            self._tell(topics)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if not connection.closed and not self._loop.is_closed():
                self._loop.remove_reader(connection.fileno())
            connection.close()
