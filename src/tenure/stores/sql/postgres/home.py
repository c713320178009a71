"""Which database a connection leads to: jobs go to the one that the store's URL names, or nowhere."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

from tenure.domain.errors import InvalidValue
from tenure.stores.sql.postgres.connection import Server, translated
from tenure.stores.sql.rows import Row

Ask = Callable[[str], Sequence[Row]]
"""Runs a statement without parameters."""

_DATABASE = """
SELECT oid::bigint, datname::text, coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'the local socket'),
       has_function_privilege('pg_control_system()', 'EXECUTE')
FROM pg_database WHERE datname = current_database()
"""
_SYSTEM = "SELECT system_identifier::text FROM pg_control_system()"


class Database(NamedTuple):
    """A database of one cluster, whatever leads there."""

    oid: int
    system: str
    """The cluster's own number; empty where the role may not know it."""
    name: str
    address: str

    def is_same(self, other: "Database") -> bool:
        systems = {self.system, other.system} - {""}
        return (self.oid, self.name) == (other.oid, other.name) and len(systems) < 2


def database(ask: Ask) -> Database:
    """The one that a connection is open on."""
    ((oid, name, address, may_know),) = ask(_DATABASE)
    return Database(oid, ask(_SYSTEM)[0][0] if may_know else "", name, address)


class Home:
    """The store's database, and the connections of others that were found to lead there."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._known: Database | None = None
        self._found: WeakSet[Any] = WeakSet()

    def learn(self) -> Database:
        """Asks over a connection of its own, which blocks, unless it is known."""
        known = self._known
        if known is None:
            with self._server.connect() as connection:
                known = self._known = database(lambda text: connection.execute(text.encode()).fetchall())
        return known

    def knows(self, connection: Any) -> bool:
        """Whether a connection was looked at."""
        try:
            with self._lock:
                return self._known is not None and connection in self._found
        except TypeError:  # one of a kind that can't be remembered
            return False

    def check(self, what: str, connection: Any, ask: Ask) -> None:
        """Raises `InvalidValue` for a connection to another database. Once learned, nothing here opens a connection."""
        if self.knows(connection):
            return
        home = self.learn()
        with translated(self._server):
            here = database(ask)
        if not here.is_same(home):
            raise InvalidValue(
                f"{what}: it is open on database {here.name} at {here.address}, the jobs are in {home.name} at "
                f"{home.address} ({self._server.shown}): give one on that database"
            )
        try:
            with self._lock:
                self._found.add(connection)
        except TypeError:
            return
