"""One consistent view of the file, read page by page: what others write meanwhile isn't seen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tenure.domain.calls import EventPage, JobFilter, JobPage
from tenure.domain.errors import Refused
from tenure.domain.model import Unit, read
from tenure.domain.store import Clock
from tenure.stores.sql.sqlite.file import StoreFile, translated
from tenure.stores.sql.sqlite.tables import SqliteTables

T = TypeVar("T")


class SqliteSnapshot:
    """Keeps a reading transaction open. Not for hours: the log can't be folded back past it."""

    def __init__(self, file: StoreFile, clock: Clock, tables: SqliteTables) -> None:
        self._file = file
        self._tables = tables
        self._now = max(clock(), tables.begin().mark)

    def query(self, where: JobFilter, *, after: str | None = None, limit: int = 1_000) -> JobPage:
        return self._read(lambda unit: read.query(unit, where, after, limit))

    def events(self, *, tenant: str | None = None, after: str | None = None, limit: int = 1_000) -> EventPage | Refused:
        return self._read(lambda unit: read.events(unit, tenant, after, limit))

    def _read(self, part: Callable[[Unit], T]) -> T:
        with translated(self._file.path):
            return part(Unit(self._tables, self._now))


@contextmanager
def snapshot(file: StoreFile, clock: Clock) -> Iterator[SqliteSnapshot]:
    """A view of the file as it is now, for this thread, until the block ends."""
    with translated(file.path):
        connection = file.connect()
    try:
        with translated(file.path):
            connection.execute("BEGIN")
            opened = SqliteSnapshot(file, clock, SqliteTables(connection))
        yield opened
    finally:
        connection.close()
