"""One consistent view of a store, read page by page: what others write meanwhile isn't seen."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import TypeVar

from tenure.domain.calls import EventPage, FeedSpan, JobFilter, JobPage
from tenure.domain.errors import CursorExpired, Refused
from tenure.domain.event import unfold, unfolded_size
from tenure.domain.model import Unit, read
from tenure.domain.names import Ms
from tenure.domain.store import Columns, Span
from tenure.stores.sql.scan import scan
from tenure.stores.sql.tables import SqlTables

T = TypeVar("T")

EVERYTHING = Span()
CHUNKS_AT_ONCE = 32
"""A chunk may have a megabyte."""
SIZES_AT_ONCE = 1_000

_CHUNKS = "SELECT position, body FROM tenure.feed WHERE position > ? AND position <= ? ORDER BY position"
_SIZES = "SELECT position, length(body), substr(body, 1, 1) FROM tenure.feed WHERE position > ? ORDER BY position"


class SqlSnapshot:
    """Reads tables whose transaction stays open. `translated` makes Tenure's errors of the database's."""

    def __init__(self, tables: SqlTables, now: Ms, translated: Callable[[], AbstractContextManager[None]]) -> None:
        self._tables = tables
        self._now = now
        self._translated = translated
        self._span = FeedSpan(tables.meta().feed_floor, tables.meta().feed_head)

    def query(self, where: JobFilter, *, after: str | None = None, limit: int = 1_000) -> JobPage:
        return self._read(lambda unit: read.query(unit, where, after, limit))

    def events(self, *, tenant: str | None = None, after: str | None = None, limit: int = 1_000) -> EventPage | Refused:
        return self._read(lambda unit: read.events(unit, tenant, after, limit))

    def identity(self) -> str:
        with self._translated():
            return str(self._tables.row("identity")[0])

    def feed(self) -> FeedSpan:
        return self._span

    def chunks(self, after: int, until: int) -> Iterator[tuple[int, bytes]]:
        if after < self._span.floor:
            raise CursorExpired()
        with self._translated():
            for page in self._tables.pages(_CHUNKS, (after, until), CHUNKS_AT_ONCE):
                yield from ((position, unfold(body)) for position, body in page)

    def chunk_sizes(self, after: int) -> Iterator[tuple[int, int]]:
        with self._translated():
            for page in self._tables.pages(_SIZES, (after,), SIZES_AT_ONCE):
                yield from ((position, unfolded_size(size, first)) for position, size, first in page)

    def scan(
        self, where: JobFilter, fields: Collection[str], *, span: Span | None = None, limit: int = 1_000
    ) -> Iterator[Columns]:
        with self._translated():
            yield from scan(self._tables, self._now, where, fields, span or EVERYTHING, limit)

    def split(self, parts: int) -> list[Span]:
        """Even ranges of arrival numbers: retention takes the oldest first, so what is left is nearly dense."""
        with self._translated():
            first, last = self._tables.row("arrivals")
        if first is None:
            return [EVERYTHING]
        jobs = last - first + 1
        borders = sorted({first - 1 + jobs * part // parts for part in range(1, parts)} - {first - 1})
        points = [None, *map(str, borders), None]
        return [Span(after, until) for after, until in pairwise(points)]

    def _read(self, part: Callable[[Unit], T]) -> T:
        with self._translated():
            return part(Unit(self._tables, self._now))
