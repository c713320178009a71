"""Connections to the server: how they are set up, and what its errors mean for a caller."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection, RawCursor
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

from tenure.domain.errors import InvalidValue, StoreError, StoreFull, StoreUnavailable, Unsupported
from tenure.stores.sql.postgres.arrays import adapt
from tenure.stores.sql.postgres.place import Overtaken

OLDEST_SERVER = 140_000
SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")

CONNECT_SECONDS = 5
KEPT_STATEMENTS = 1_000
"""More than there are: a statement is planned once for each connection."""

SETTINGS = {
    "application_name": "tenure",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "jit": "off",
    "lock_timeout": "0",
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "60000",
    "timezone": "UTC",
}
"""Every statement here finds its rows by an index, whatever statistics say of tables that are empty one moment and full
the next: plans made for the empty ones walk all dead rows of the full ones."""

_NAMES = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SETTINGS.items())
_SET_UP = f"SELECT {_NAMES}".encode()

_OVERTAKEN = frozenset(
    [
        "22012",  # division by zero: a statement that had to change so many rows changed fewer
        "23505",  # unique violation
        "40001",  # serialization failure
        "40P01",  # deadlock
        "55P03",  # lock not available
    ]
)
_FULL = "53100"
_ABSENT = frozenset(["3F000", "42P01", "42703"])
_FORBIDDEN = "42501"
_TOO_MANY = "53300"
_READ_ONLY = "25006"
_CANCELLED = "57014"


class Server:
    """Where a store is: a server's address, and a schema there."""

    def __init__(self, url: str) -> None:
        place, _, query = url.partition("?")
        options = [option for option in query.split("&") if option]
        schemas = [option.removeprefix("schema=") for option in options if option.startswith("schema=")]
        self.schema = schemas[-1] if schemas else "tenure"
        if not SCHEMA_NAME.fullmatch(self.schema):
            raise InvalidValue(
                f"schema {self.schema!r:.80}: give up to 48 of a-z, 0-9 and _, not beginning with a digit"
            )
        rest = "&".join(option for option in options if not option.startswith("schema="))
        self._address = f"{place}?{rest}" if rest else place
        try:
            known = conninfo_to_dict(self._address)
        except psycopg.Error as error:
            raise InvalidValue(f"url: {str(error).strip()}") from None
        host = known.get("host") or known.get("hostaddr") or "the local socket"
        self.shown = f"postgresql://{host}/{known.get('dbname') or ''} (schema {self.schema})"

    def connect(self) -> "Connection[Any]":
        """A connection set up for explicit transactions and prepared statements."""
        with translated(self):
            connection = Connection.connect(
                self._address,
                autocommit=True,
                cursor_factory=RawCursor,
                row_factory=tuple_row,
                prepare_threshold=1 << 30,  # only what says so itself
                connect_timeout=CONNECT_SECONDS,
            )
            connection.prepared_max = KEPT_STATEMENTS
            try:
                self._check_version(connection.info.server_version)
                connection.execute(_SET_UP)
                adapt(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    async def connect_async(self) -> "AsyncConnection[Any]":
        """A connection for a handler: as psycopg makes them."""
        with translated(self):
            connection = await AsyncConnection.connect(self._address, connect_timeout=CONNECT_SECONDS)
            self._check_version(connection.info.server_version)
            return connection

    def _check_version(self, version: int) -> None:
        if version < OLDEST_SERVER:
            raise Unsupported(f"{self.shown}: PostgreSQL {version // 10_000} is too old: Tenure needs 14 or newer")


@contextmanager
def translated(server: Server) -> Iterator[None]:
    """The server's errors as Tenure's, whichever driver brought them."""
    try:
        yield
    except Exception as error:
        state = getattr(error, "sqlstate", None)
        if state in _OVERTAKEN:
            raise Overtaken from error
        if isinstance(error, psycopg.Error) or state is not None:
            raise store_error(server, state, error) from error
        raise


def store_error(server: Server, state: str | None, error: Exception) -> StoreError:
    """What an error of the server means for a caller, and what to do about it."""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if state == _FULL:
        return StoreFull(f"{server.shown}: no room left on the server's device; nothing of this call was kept")
    if state in _ABSENT:
        return StoreUnavailable(f"{server.shown} has no schema yet, or an older one: call migrate() first")
    if state == _FORBIDDEN:
        return StoreUnavailable(f"{server.shown}: the role may not do this ({said}): grant it, or use another")
    if state == _TOO_MANY:
        return StoreUnavailable(f"{server.shown} has no connection left ({said}): raise max_connections")
    if state == _READ_ONLY:
        return StoreUnavailable(f"{server.shown} is in recovery or read-only: connect to the primary")
    if state == _CANCELLED:
        return StoreUnavailable(f"{server.shown}: a statement took too long and was ended ({said})")
    return StoreUnavailable(f"{server.shown}: {said}")
