"""A view of the file: a reading transaction that stays open. Not for hours: the log can't be folded back past it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tenure.domain.store import Clock
from tenure.stores.sql.snapshot import SqlSnapshot
from tenure.stores.sql.sqlite.file import StoreFile, translated
from tenure.stores.sql.sqlite.tables import SqliteTables


@contextmanager
def snapshot(file: StoreFile, clock: Clock) -> Iterator[SqlSnapshot]:
    """A view of the file as it is now, for this thread, until the block ends."""
    with translated(file.path):
        connection = file.connect()
    with opened(file, clock, connection) as made:
        yield made


@contextmanager
def opened(file: StoreFile, clock: Clock, connection: sqlite3.Connection) -> Iterator[SqlSnapshot]:
    """What a connection sees now, until the block ends and closes it."""
    with closing(connection):
        with translated(file.path):
            connection.execute("BEGIN")
            tables = SqliteTables(connection)
            meta = tables.begin()
            made = SqlSnapshot(tables, max(clock(), meta.mark), lambda: translated(file.path))
        yield made
