"""Working inside a user's own transaction on the same file: what they roll back never happened."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tenure.domain.errors import InvalidValue, StoreUnavailable
from tenure.domain.model import Unit
from tenure.domain.store import Clock
from tenure.stores.sql.joined import below
from tenure.stores.sql.sqlite.file import StoreFile, is_busy, store_error
from tenure.stores.sql.sqlite.forks import check_inherited
from tenure.stores.sql.sqlite.tables import SqliteTables

T = TypeVar("T")


def raw_connection(given: Any) -> sqlite3.Connection:
    """The sqlite3 connection itself, or the one below Django's `connection` or SQLAlchemy's `Connection`.

    Raises `InvalidValue` for anything else: what isn't known to be a connection isn't searched for one.
    """
    found = given if isinstance(given, sqlite3.Connection) else below(given)
    if not isinstance(found, sqlite3.Connection):
        raise InvalidValue(
            f"connection: a {type(given).__name__} isn't, and doesn't show, a sqlite3 connection; "
            "give one, or Django's connection, or SQLAlchemy's (of a session: session.connection())"
        )
    return found


def run_joined(file: StoreFile, clock: Clock, given: Any, part: Callable[[Unit], T]) -> T:
    """Runs a part in the caller's transaction, in the caller's thread. If it breaks, it alone is undone."""
    connection = raw_connection(given)
    _check_file(file, connection)
    _check_transaction(connection)
    with _plain_rows(connection):
        try:
            connection.execute("SAVEPOINT tenure")
            try:
                connection.execute(
                    "UPDATE meta SET one = 1"
                )  # takes the write lock: nothing read after it can be stale
                tables = SqliteTables(connection)
                unit = Unit(tables, max(clock(), tables.begin().mark))
                answer = part(unit)
                tables.keep(unit)
            except BaseException:
                connection.execute("ROLLBACK TO tenure")
                raise
            finally:
                connection.execute("RELEASE tenure")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                raise StoreUnavailable(
                    f"{file.path} is being written by someone else, and your transaction began by reading: "
                    "begin it with BEGIN IMMEDIATE"
                ) from error
            raise store_error(file.path, error) from error
        except sqlite3.Error as error:
            raise store_error(file.path, error) from error
    return answer


def _check_file(file: StoreFile, connection: sqlite3.Connection) -> None:
    for _, name, path in connection.execute("PRAGMA database_list").fetchall():
        if name == "main":
            if path and os.path.realpath(path) == file.place:
                check_inherited(file.path)
                return
            here = path or "memory"
            raise InvalidValue(f"connection: it is open on {here}, the jobs are in {file.path}: give one on that file")


def _check_transaction(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        return
    if connection.isolation_level is None:
        raise InvalidValue("connection: it is in no transaction; begin one, or enqueue without connection=")
    connection.execute("BEGIN IMMEDIATE")


@contextmanager
def _plain_rows(connection: sqlite3.Connection) -> Iterator[None]:
    """Whatever shape the user wants their rows in, ours are tuples."""
    rows, text = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = rows, text
