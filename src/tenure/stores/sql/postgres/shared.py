"""One view of the schema for several processes, on any host: an exported snapshot, with a process that keeps it.

A snapshot can be taken up by others while the transaction that exported it is open. The keeper (keeper.py) holds that
transaction; whoever has taken the snapshot up needs it no longer. Readers hold a lock, shared, and tell the keeper when
they have read: it ends once nobody has read for the agreed time, or the owner's process has ended.
"""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from uuid import uuid4

import msgspec
import psycopg

from tenure.domain.errors import InvalidValue, SnapshotExpired
from tenure.domain.names import Ms
from tenure.domain.store import Clock
from tenure.stores.sql.keepers import start
from tenure.stores.sql.postgres.connection import Server, translated
from tenure.stores.sql.postgres.snapshot import BEGIN, ViewTables, viewed
from tenure.stores.sql.snapshot import SqlSnapshot

_KEEPER_MODULE = "tenure.stores.sql.postgres.keeper"
_SNAPSHOT = re.compile(r"[0-9A-F]{1,16}(-[0-9A-F]{1,16}){1,3}")
_GONE = frozenset(
    [
        "22023",  # invalid parameter value: no such snapshot, up to PostgreSQL 16
        "42704",  # undefined object: the same in newer ones
        "55000",  # object not in prerequisite state: the transaction that exported it has just ended
    ]
)


class Order(msgspec.Struct, frozen=True):
    """What a keeper is started with; the server's address it gets as a secret."""

    channel: str
    """Where readers tell that they have read, and the name of the lock that they hold."""
    at: Ms | None
    """The time of the view: what depends on time is the same for all its readers. None: the server's."""
    seconds: float
    owner: int


class Handle(msgspec.Struct, frozen=True, tag=True):
    """What is taken up, and of when it is."""

    snapshot: str
    channel: str
    at: Ms
    seconds: float


def share(server: Server, clock: Clock | None, seconds: float, owner: int) -> str:
    """Starts a keeper and waits for its snapshot. What keeps it from exporting one is raised here."""
    order = Order(f"tenure_view_{uuid4().hex}", None if clock is None else clock(), seconds, owner)
    return start(_KEEPER_MODULE, order, Handle, server.shown, secret=server.url)


@contextmanager
def open_shared(server: Server, text: str) -> Iterator[SqlSnapshot]:
    """The view behind a handle. While it is open, its keeper stays."""
    try:
        handle = msgspec.json.decode(text, type=Handle)
    except msgspec.MsgspecError as error:
        raise InvalidValue(f"handle {text!r:.80}: it isn't one of a shared snapshot ({error})") from None
    if not _SNAPSHOT.fullmatch(handle.snapshot):
        raise InvalidValue(f"handle {text!r:.80}: it names no snapshot of a server")
    with closing(server.connect()) as connection:
        tables = ViewTables(connection, server)
        with translated(server):
            _take_up(tables, handle)
        with viewed(server, tables, handle.at) as made:
            yield made
        with translated(server):
            connection.execute("SELECT pg_notify($1, '')", (handle.channel,))
            connection.execute("COMMIT")


def _take_up(tables: ViewTables, handle: Handle) -> None:
    connection = tables.connection
    connection.execute(BEGIN)
    try:
        connection.execute(f"SET TRANSACTION SNAPSHOT '{handle.snapshot}'".encode())
    except psycopg.Error as error:
        raise (_gone(handle) if error.sqlstate in _GONE else error) from None
    stays = connection.execute(
        "SELECT pg_try_advisory_xact_lock_shared(hashtextextended($1, 0))", (handle.channel,)
    ).fetchone()
    if stays != (True,):
        raise _gone(handle)


def _gone(handle: Handle) -> SnapshotExpired:
    return SnapshotExpired(
        f"the view of the store is gone: it was kept until nobody had read it for {handle.seconds:g} s, and on this "
        "server only. In Spark, load() again, with a larger option snapshotSeconds if tasks wait for longer"
    )
