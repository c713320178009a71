"""One job that needs nothing but room, over a connection that is free: sent and answered without a fiber.

A call that may begin again, wait for a connection or ask twice takes more of a process's time than one that just sends.
Whatever is out of the ordinary goes the usual way.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from psycopg import pq

from tenure.domain.calls import Enqueued
from tenure.domain.job import NewJob
from tenure.domain.names import Ms
from tenure.stores.sql.postgres.connection import sound, still_there
from tenure.stores.sql.postgres.enqueue_direct import one_values
from tenure.stores.sql.postgres.lending import Connected
from tenure.stores.sql.postgres.loop_connections import LoopConnections
from tenure.stores.sql.postgres.loop_runner import LoopRunner
from tenure.stores.sql.postgres.place import Severed
from tenure.stores.sql.postgres.wake import News
from tenure.stores.ways import Way

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

HEARD, UNHEARD = frozenset({"heard"}), frozenset[str]()


def enqueue(
    connections: LoopConnections, job: NewJob, now: Ms | None, news: News, enqueued: Callable[[], None]
) -> "asyncio.Future[Enqueued | None] | None":
    """Its answer: None if it must go the usual way. None instead of an answer: it must, and nothing was sent.

    `enqueued` is called when it is, whether or not the caller still waits. Of one whose connection broke the answer is
    `Severed`.
    """
    tables = connections.borrow()
    if tables is None:
        return None
    if not still_there(tables.connection):
        connections.give_back(tables)
        raise Severed(committing=False)
    asked = _ask(connections, tables, job, now, news, enqueued)
    if asked is None:
        connections.give_back(tables)
        return None
    return asked.answer


def _ask(
    connections: LoopConnections,
    tables: Connected,
    job: NewJob,
    now: Ms | None,
    news: News,
    enqueued: Callable[[], None],
) -> "_Asked | None":
    runner, values = tables.runner, one_values(tables, job, now)
    if values is None or not isinstance(runner, LoopRunner):
        return None
    told = news.text()
    more = () if told is None else (news.channel, told)
    text = tables.place.part("arrive_one", UNHEARD if told is None else HEARD)
    asked = _Asked(connections, tables, job.id, None if told is None else news, enqueued)
    if not runner.ask(text, (*values, *more), asked.look, asked.end):
        return None
    tables.ways.took(Way.ENQUEUE_QUICK)
    return asked


class _Asked:
    """A job on its way."""

    __slots__ = ("_connections", "_enqueued", "_found", "_id", "_news", "_tables", "answer")

    def __init__(
        self,
        connections: LoopConnections,
        tables: Connected,
        id: str,
        news: News | None,
        enqueued: Callable[[], None],
    ) -> None:
        self._connections = connections
        self._tables = tables
        self._id = id
        self._news = news
        self._enqueued = enqueued
        self._found: PGresult | None = None
        self.answer: asyncio.Future[Enqueued | None] = connections.loop.create_future()

    def look(self) -> bool:
        """Whether all of the answer has come."""
        libpq = self._tables.connection.pgconn
        while not libpq.is_busy():
            result = libpq.get_result()
            if result is None:
                return True
            self._found = result
        return False

    def end(self, error: BaseException | None) -> None:
        """It has, or never will."""
        found, tables = self._found, self._tables
        fine = error is None and found is not None and found.status == pq.ExecStatus.TUPLES_OK
        done = fine and found is not None and found.ntuples > 0
        lost = not done and not (error is None and sound(tables.connection))
        if not done:
            tables.forget()
        if lost:
            tables.connection.close()
            self._connections.hang_up()
        self._connections.give_back(tables)
        if done:
            if self._news is not None:
                self._news.told()
            self._enqueued()
        if self.answer.done():  # nobody waits any more
            return
        if lost:
            self.answer.set_exception(Severed(committing=True))
        else:
            self.answer.set_result(Enqueued(self._id) if done else None)
