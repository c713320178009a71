"""Connections for the store's calls, each lent to one call at a time: the store's own, or those of a user's pool.

Behind a transaction pooler each transaction may be on another of the server's connections, and what is set on one stays
there for whoever gets it next. A connection of a user's pool goes back to them. On both, settings are made for one
transaction at a time, and no statement is prepared.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import iscoroutinefunction
from typing import Any, Protocol

from psycopg import Connection

from tenure.domain.errors import InvalidValue, StoreError
from tenure.stores.sql.postgres.connection import GUESTS_WRITING, WRITING, Server, set_locally, sound, still_there
from tenure.stores.sql.postgres.home import Home
from tenure.stores.sql.postgres.place import Place, Severed
from tenure.stores.sql.postgres.runners import ConnectionRunner, OwnRunner, PsycopgRunner
from tenure.stores.sql.postgres.tables import PostgresTables


class Pool(Protocol):
    """A user's connections; psycopg_pool's ConnectionPool is one."""

    def connection(self) -> "AbstractContextManager[Connection[Any]]":
        """A connection that nobody else uses until the block ends."""


class Connected(PostgresTables):
    """The tables over a connection that nobody else uses. A guest leaves it as it was."""

    begins = "meta_begun"

    def __init__(self, runner: ConnectionRunner, place: Place, guest: bool) -> None:
        super().__init__(runner, place)
        self.runner = runner
        self.guest = guest

    @property
    def connection(self) -> "Connection[Any]":
        return self.runner.connection

    def move(self, connection: "Connection[Any]") -> None:
        """From now on over another connection; what is known of the configuration stays known."""
        self.runner.connection = connection

    def say(self, text: bytes) -> None:
        """Runs a statement that has no parameters."""
        self.runner.say(text)

    @contextmanager
    def transaction(self, begin: bytes = b"") -> Iterator[None]:
        with self.runner.pipelined():
            if begin:
                self.say(GUESTS_WRITING if self.guest and begin == WRITING else begin)
            if self.guest:
                self.say(set_locally(self.connection))
            yield


class Lender(Protocol):
    """Where connections come from."""

    def lent(self) -> "AbstractContextManager[Connected]":
        """A connection that nobody else uses. One that broke isn't used again."""

    def hang_up(self) -> None:
        """The other connections are likely to be broken too."""


class OwnConnections:
    """Opened as they are needed, and kept."""

    def __init__(self, server: Server, place: Place) -> None:
        self._server = server
        self._place = place
        self._lock = threading.Lock()
        self.idle: list[Connected] = []

    @contextmanager
    def lent(self) -> Iterator[Connected]:
        with self._lock:
            tables = self.idle.pop() if self.idle else None
        if tables is None:
            tables = Connected(OwnRunner(self._server.connect()), self._place, guest=self._server.pooled)
        elif not still_there(tables.connection):
            raise Severed(committing=False)
        try:
            yield tables
        finally:
            tables.end()
            if not tables.connection.closed:
                with self._lock:
                    self.idle.append(tables)

    def hang_up(self) -> None:
        with self._lock:
            idle, self.idle = self.idle, []
        for tables in idle:
            tables.connection.close()


class PooledConnections:
    """A user's, who also closes them."""

    def __init__(self, pool: Pool, place: Place, home: Home) -> None:
        self._pool = pool
        self._home = home
        self._place = place
        self._lock = threading.Lock()
        self._idle: list[Connected] = []
        """Without a connection."""

    @contextmanager
    def lent(self) -> Iterator[Connected]:
        with self._pool.connection() as connection:
            if not isinstance(connection, Connection):
                raise InvalidValue(f"pool: it lends a {type(connection).__name__}, not psycopg's Connection")
            tables = self._tables(connection)
            before, connection.autocommit = connection.autocommit, True
            try:
                self._check(tables)
                yield tables
            finally:
                tables.end()
                if not connection.closed:
                    connection.autocommit = before
                with self._lock:
                    self._idle.append(tables)

    def _check(self, tables: Connected) -> None:
        """It may have broken while it lay there."""
        try:
            self._home.check("pool", tables.connection, lambda text: tables.runner.run(text, ()).fetchall())
        except StoreError as error:
            if not sound(tables.connection):
                raise Severed(committing=False) from error
            raise

    def _tables(self, connection: "Connection[Any]") -> Connected:
        with self._lock:
            tables = self._idle.pop() if self._idle else None
        if tables is None:
            return Connected(PsycopgRunner(connection, prepare=False), self._place, guest=True)
        tables.move(connection)
        return tables

    def hang_up(self) -> None:
        """A pool looks after its connections itself."""


def check_pool(pool: Any) -> None:
    """Raises `InvalidValue` for what isn't a pool of blocking connections."""
    if not callable(getattr(pool, "connection", None)):
        raise InvalidValue(f"pool: a {type(pool).__name__} has no connection(); give psycopg_pool's ConnectionPool")
    if iscoroutinefunction(getattr(pool, "getconn", None)):
        raise InvalidValue("pool: its connections belong to an event loop; give psycopg_pool's ConnectionPool")
