"""One consistent view of the file, read page by page: what others write meanwhile isn't seen."""

import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TypeVar

from tenure.domain.calls import EventPage, FeedSpan, JobFilter, JobPage
from tenure.domain.errors import CursorExpired, Refused
from tenure.domain.model import Unit, read
from tenure.domain.store import Clock, Columns, Span
from tenure.stores.sql.sqlite.file import StoreFile, translated
from tenure.stores.sql.sqlite.scan import scan
from tenure.stores.sql.sqlite.tables import SQL, SqliteTables

T = TypeVar("T")

EVERYTHING = Span()


class SqliteSnapshot:
    """Keeps a reading transaction open. Not for hours: the log can't be folded back past it."""

    def __init__(self, file: StoreFile, clock: Clock, tables: SqliteTables) -> None:
        self._file = file
        self._tables = tables
        meta = tables.begin()
        self._now = max(clock(), meta.mark)
        self._span = FeedSpan(meta.feed_floor, meta.feed_head)

    def query(self, where: JobFilter, *, after: str | None = None, limit: int = 1_000) -> JobPage:
        return self._read(lambda unit: read.query(unit, where, after, limit))

    def events(self, *, tenant: str | None = None, after: str | None = None, limit: int = 1_000) -> EventPage | Refused:
        return self._read(lambda unit: read.events(unit, tenant, after, limit))

    def identity(self) -> str:
        with translated(self._file.path):
            row = self._tables.connection.execute(SQL["identity"]).fetchone()
        return str(row[0])

    def feed(self) -> FeedSpan:
        return self._span

    def chunks(self, after: int, until: int) -> Iterator[tuple[int, bytes]]:
        if after < self._span.floor:
            raise CursorExpired()
        with translated(self._file.path):
            yield from self._tables.connection.execute(SQL["chunks_between"], (after, until))

    def chunk_sizes(self, after: int) -> Iterator[tuple[int, int]]:
        with translated(self._file.path):
            yield from self._tables.connection.execute(SQL["chunk_sizes"], (after,))

    def scan(
        self, where: JobFilter, fields: Collection[str], *, span: Span | None = None, limit: int = 1_000
    ) -> Iterator[Columns]:
        with translated(self._file.path):
            yield from scan(self._tables, self._now, where, fields, span or EVERYTHING, limit)

    def split(self, parts: int) -> list[Span]:
        """Even ranges of arrival numbers: retention takes the oldest first, so what is left is nearly dense."""
        with translated(self._file.path):
            first, last = self._tables.connection.execute(SQL["arrivals"]).fetchone()
        if first is None:
            return [EVERYTHING]
        jobs = last - first + 1
        borders = sorted({first - 1 + jobs * part // parts for part in range(1, parts)} - {first - 1})
        points = [None, *map(str, borders), None]
        return [Span(after, until) for after, until in pairwise(points)]

    def _read(self, part: Callable[[Unit], T]) -> T:
        with translated(self._file.path):
            return part(Unit(self._tables, self._now))


@contextmanager
def snapshot(file: StoreFile, clock: Clock) -> Iterator[SqliteSnapshot]:
    """A view of the file as it is now, for this thread, until the block ends."""
    with translated(file.path):
        connection = file.connect()
    with opened(file, clock, connection) as made:
        yield made


@contextmanager
def opened(file: StoreFile, clock: Clock, connection: sqlite3.Connection) -> Iterator[SqliteSnapshot]:
    """What a connection sees now, until the block ends and closes it."""
    with closing(connection):
        with translated(file.path):
            connection.execute("BEGIN")
            made = SqliteSnapshot(file, clock, SqliteTables(connection))
        yield made
