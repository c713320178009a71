"""Connections to the server: how they are set up, and what its errors mean for a caller."""

import re
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel, RawCursor
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from tenure.domain.errors import InvalidValue, StoreAway, StoreError, StoreFull, StoreUnavailable, Unsupported
from tenure.stores.sql.postgres.arrays import adapt
from tenure.stores.sql.postgres.patience import KEEPALIVE, STATEMENT_SECONDS, PatientConnection
from tenure.stores.sql.postgres.place import Held, Overtaken
from tenure.stores.sql.postgres.reach import Reach

OLDEST_SERVER = 140_000
SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
CONNECTIONS = 8
"""How many calls of one process are on their way at once, unless the URL says otherwise."""
MOST_CONNECTIONS = 1_000
OPTIONS = ("schema", "connections", "pooler")
"""Of a URL, those that are ours; the others are the driver's."""

PATIENCE: dict[str, Any] = {"connect_timeout": 5, **KEEPALIVE}
"""What holds unless the URL says otherwise."""
KEPT_STATEMENTS = 1_000
"""More than there are: a statement is planned once for each connection."""

SETTINGS = {
    "bytea_output": "hex",
    "datestyle": "ISO, MDY",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "read committed",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "lock_timeout": "0",
    "plan_cache_mode": "force_generic_plan",
    "row_security": "on",
    "search_path": "pg_catalog",
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    **{f"tcp_{name}" if name.startswith("keep") else name: str(value) for name, value in KEEPALIVE.items()},
    "timezone": "UTC",
}
"""Every statement here finds its rows by an index, whatever statistics say of tables that are empty one moment and full
the next: plans made for the empty ones walk all dead rows of the full ones. What a host that is gone has locked is free
again within half a minute: the server looks for it too. The others are here for what a database or a role may have been
given (ALTER … SET): whoever waits for jobs is idle, a shared view is an idle transaction, and each statement of a call
sees what was committed before it."""
TRANSACTION_TIMEOUT = {"transaction_timeout": "0"}
"""Since PostgreSQL 17."""
WRITING, GUESTS_WRITING = b"BEGIN", b"BEGIN ISOLATION LEVEL READ COMMITTED"
"""How transactions that write begin. A session of our own has its isolation already."""
_HANDLERS = {
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": f"{STATEMENT_SECONDS}s",
}
"""What a handler's transaction must not be ended by; everything else there is as the database has it."""


def _set(settings: dict[str, str], local: bool, version: int) -> bytes:
    settings = settings | (TRANSACTION_TIMEOUT if version >= 170_000 else {})
    calls = (f"set_config('{name}', '{value}', {str(local).lower()})" for name, value in settings.items())
    return f"SELECT {', '.join(calls)}".encode()


def set_locally(connection: "Connection[Any]") -> bytes:
    """The settings for one transaction, on a connection that must be left as it was."""
    return _set(SETTINGS, local=True, version=connection.info.server_version)


_OVERTAKEN = frozenset(
    [
        "22012",  # division by zero: a statement that had to change so many rows changed fewer
        "23505",  # unique violation
        "40001",  # serialization failure
        "40P01",  # deadlock
    ]
)
_HELD = "55P03"  # lock not available
_FULL = "53100"
_ABSENT = frozenset(["3F000", "42P01", "42703"])
_FORBIDDEN = "42501"
_TOO_MANY = "53300"
_STARTING = "57P03"
_TOO_MANY_SAID = re.compile("too many clients|too many connections|remaining connection slots|no more connections")
_STARTING_SAID = re.compile("the database system is ")
"""libpq doesn't say with which state a server refused a connection. In another language it counts as refused."""
_REFUSED_SAID = re.compile("FATAL: ")
"""A server is there and won't have it: a wrong password, no such database. In another language it counts as away."""
_READ_ONLY = "25006"
_CANCELLED = "57014"


C = TypeVar("C", bound="Connection[Any]")


class NotNow(StoreAway):
    """The server is there and lets nobody in: it has no connection left, or is starting. That passes."""


class Server:
    """Where a store is: a server's address, a schema there, and how to come to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        place, _, query = url.partition("?")
        options = [option for option in query.split("&") if option]
        own = dict(option.split("=", 1) for option in options if option.startswith(_OWN))
        self.schema = own.get("schema", "tenure")
        if not SCHEMA_NAME.fullmatch(self.schema):
            raise InvalidValue(
                f"schema {self.schema!r:.80}: give up to 48 of a-z, 0-9 and _, not beginning with a digit"
            )
        self.connections = _count(own.get("connections", str(CONNECTIONS)))
        """How many calls are on their way at once."""
        if own.get("pooler", "transaction") != "transaction":
            raise InvalidValue(f"pooler {own['pooler']!r:.80}: give transaction, or leave it out")
        self.pooled = "pooler" in own
        """Whether each transaction may be on another of the server's connections."""
        rest = "&".join(option for option in options if not option.startswith(_OWN))
        self._address = f"{place}?{rest}" if rest else place
        try:
            known = conninfo_to_dict(self._address)
        except psycopg.Error as error:
            raise InvalidValue(f"url: {str(error).strip()}") from None
        self._patience = {name: value for name, value in PATIENCE.items() if name not in known}
        host = known.get("host") or known.get("hostaddr") or "the local socket"
        self.role = known.get("user") or "role"
        self.hints = Reach()
        self.shown = f"postgresql://{host}/{known.get('dbname') or ''} (schema {self.schema})"

    def connect(self) -> PatientConnection:
        """A connection set up for explicit transactions and prepared statements; behind a pooler as it comes."""
        return self._connected(PatientConnection, SETTINGS)

    def connect_to_build(self) -> "Connection[Any]":
        """The same for a statement that may take hours, and say nothing meanwhile."""
        return self._connected(Connection, SETTINGS | {"statement_timeout": "0"})

    def _connected(self, kind: type[C], settings: dict[str, str]) -> C:
        with translated(self):
            connection = kind.connect(
                self._address,
                autocommit=True,
                cursor_factory=RawCursor,
                row_factory=tuple_row,
                prepare_threshold=None if self.pooled else 1 << 30,  # only what says so itself
                application_name="tenure",
                **self._patience,
            )
            connection.prepared_max = KEPT_STATEMENTS
            try:
                self._check_version(connection.info.server_version)
                if not self.pooled:
                    connection.execute(_set(settings, local=False, version=connection.info.server_version))
                connection.isolation_level = IsolationLevel.READ_COMMITTED
                adapt(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    async def connect_async(self) -> "AsyncConnection[Any]":
        """A connection for a handler, as psycopg makes them; behind a pooler in a transaction already."""
        with translated(self):
            connection = await AsyncConnection.connect(self._address, **self._patience)
            if self.pooled:
                connection.prepare_threshold = None
            self._check_version(connection.info.server_version)
            await connection.set_autocommit(not self.pooled)
            await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
            await connection.execute(_set(_HANDLERS, local=self.pooled, version=connection.info.server_version))
            if not self.pooled:
                await connection.set_autocommit(False)
            return connection

    def _check_version(self, version: int) -> None:
        if version < OLDEST_SERVER:
            raise Unsupported(f"{self.shown}: PostgreSQL {version // 10_000} is too old: Tenure needs 14 or newer")


_OWN = tuple(f"{name}=" for name in OPTIONS)


def _count(given: str) -> int:
    if not (given.isascii() and given.isdigit() and 0 < int(given) <= MOST_CONNECTIONS):
        raise InvalidValue(f"connections {given!r:.80}: give a whole number from 1 to {MOST_CONNECTIONS}")
    return int(given)


def still_there(connection: "Connection[Any]") -> bool:
    """Whether the server hasn't gone while nobody asked it: of what isn't sent to one that has, nobody is in doubt.
    If it has, the connection is closed, for all who watch it.
    """
    with suppress(psycopg.OperationalError):
        connection.pgconn.consume_input()  # what it said last
        connection.pgconn.consume_input()  # and that it went
    if connection.closed:
        connection.close()
    return not connection.closed


def sound(connection: "Connection[Any]") -> bool:
    """Whether a connection can be used again. One that can't is closed: a server that goes may say so in the middle of
    an answer, and the connection still looks open then.
    """
    idle = connection.info.transaction_status is TransactionStatus.IDLE
    if not idle or connection.info.pipeline_status is not PipelineStatus.OFF:
        connection.close()
    return not connection.closed


class translated:
    """The server's errors as Tenure's, whichever driver brought them. Used like a function, around every call."""

    __slots__ = ("_server",)

    def __init__(self, server: Server) -> None:
        self._server = server

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception):
            return
        state = getattr(error, "sqlstate", None)
        if state in _OVERTAKEN:
            raise Overtaken from error
        if state == _HELD:
            raise Held from error
        if isinstance(error, psycopg.Error) or state is not None:
            raise store_error(self._server, state, error) from error


def store_error(server: Server, state: str | None, error: Exception) -> StoreError:
    """What an error of the server means for a caller, and what to do about it."""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if state == _FULL:
        return StoreFull(f"{server.shown}: no room left on the server's device; nothing of this call was kept")
    if state in _ABSENT:
        return StoreUnavailable(f"{server.shown} has no schema yet, or one of another version: call migrate() first")
    if state == _FORBIDDEN:
        return StoreUnavailable(f"{server.shown}: the role may not do this ({said}): {grants(server)}")
    if state == _TOO_MANY or (state is None and _TOO_MANY_SAID.search(said)):
        return NotNow(f"{server.shown} has no connection left ({said}): raise max_connections")
    if state == _STARTING or (state is None and _STARTING_SAID.search(said)):
        return NotNow(f"{server.shown} lets nobody in yet ({said})")
    if state == _READ_ONLY:
        return StoreUnavailable(
            f"{server.shown} is in recovery or read-only: connect to the primary. If a transaction or a role may only "
            "read, by default_transaction_read_only say, use one that may write"
        )
    if state == _CANCELLED:
        return StoreUnavailable(f"{server.shown}: a statement took too long and was ended ({said})")
    if state is None and not _REFUSED_SAID.search(str(error)):
        return StoreAway(f"{server.shown}: {said}")
    return StoreUnavailable(f"{server.shown}: {said}")


def grants(server: Server) -> str:
    """What its owner must say for a role to work in a schema that is there; the role that migrates makes it."""
    schema, role = f'"{server.schema}"', f'"{server.role}"'
    return (
        f"GRANT USAGE ON SCHEMA {schema} TO {role}; "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}; "
        f"GRANT SELECT, USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}; "
        f"for migrate(), GRANT CREATE ON DATABASE to a role that is to own the schema"
    )
