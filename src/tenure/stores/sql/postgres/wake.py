"""Waking those who wait, in this process and in others: LISTEN and NOTIFY on a connection of their own.

A NOTIFY takes a lock that every commit with one waits for, and a commit of its own: what happens soon after one leaves
with the next, and the first after a while goes with the transaction that it tells of, if that can be (`News`). A hint
may get lost, with a connection say; whoever waits looks again by itself after a while.
"""

import asyncio
import os
import select
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection, Notify

from tenure.domain.errors import StoreError
from tenure.domain.store import CANCELS, EVERYTHING, FEED_TOPIC, job_of
from tenure.stores.sql.postgres.awaited import AWAITED
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.reach import RECONNECT_SECONDS

LONGEST = 7_000
"""Bytes of a notification; a longer one says less, or that everything changed."""
NEWS_SECONDS = 0.004
PAUSE_SECONDS = 0.006
FEED_PAUSE_SECONDS = 0.1
"""After a notification: when one may go with a transaction, when one goes by itself, and when one that only says that
the feed has grown."""


def channel(server: Server) -> str:
    """Where a store's processes hear each other."""
    return f"tenure_{server.schema}"


MISSED = (EVERYTHING, CANCELS)
"""What a process tells itself that listens anew: anything may have been told before."""
UNHEARD = (CANCELS,)
"""What it tells itself each time that it tries in vain: for everything else callers look by themselves."""


def payload(topics: Collection[str]) -> str:
    """What a notification says. Where that is too much, announcements and single jobs go first: who waits for a job
    looks for itself when it hears of the feed.
    """
    few = {topic for topic in topics if not topic.startswith(AWAITED)}
    fewer = {topic for topic in few if FEED_TOPIC not in few or job_of(topic) is None}
    for told in (topics, few, fewer):
        text = "\n".join(sorted(told))
        if len(text.encode()) <= LONGEST:
            return text
    return "\n".join(MISSED) if CANCELS in topics else EVERYTHING


class News:
    """What a transaction has to tell, and may tell itself."""

    def __init__(self, wake: "Wake", topics: set[str]) -> None:
        self._wake = wake
        self.topics = topics
        self.channel = wake.channel
        self.carried = False
        """Whether it was told with a transaction that has been committed."""

    def text(self) -> str | None:
        """What the transaction is to tell; None if somebody just told something, and this may wait."""
        return self._wake.may_carry(self.topics)

    def told(self) -> None:
        """It has been committed."""
        self.carried = True
        self._wake.carried(self.topics)


class Wake:
    """One thread that tells and listens. It starts when it is first needed: a process that only enqueues, and whose
    transactions tell of themselves, does without.

    Behind a transaction pooler nobody can listen: whoever waits there looks again by itself. They still tell, for those
    who came directly.
    """

    def __init__(self, server: Server, tell: Callable[[Collection[str]], None]) -> None:
        self._server = server
        self.channel = channel(server)
        self._tell = tell
        self.own: dict[int, int] = {}
        """Connection, or this → process of the server that tells for this one: what they say is known here."""
        self._lock = threading.Lock()
        self._topics: set[str] = set()
        self._listening = False
        self._reminder: tuple[asyncio.AbstractEventLoop | None, float] = (None, 0.0)
        """The event loop that looks next whether there is something to tell, and when."""
        self._thread: threading.Thread | None = None
        self._known: float | None = None
        """What the thread knows of `_wanted`: it looks again by then."""
        self._ended = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._last = 0.0

    def listen(self) -> None:
        """From now on hints of other processes arrive, where they can."""
        if not self._server.pooled and not self._listening:
            self._listening = True
            self._start()
            self._poke()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(target=self._run, name="tenure-postgres-wake", daemon=True)
                self._thread.start()

    def tell(self, topics: Collection[str]) -> None:
        """Tells other processes, soon. On an event loop that is left to the next transaction, if one comes in time."""
        with self._lock:
            self._topics.update(topics)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._rouse()
        else:
            self._remind(loop)

    def _rouse(self) -> None:
        """Has the thread look, unless it will in time."""
        with self._lock:
            wanted = self._wanted()
            if wanted == self._known:
                return
            self._known = wanted
        self._start()
        self._poke()

    def _remind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Looks when it is time, unless somebody will."""
        with self._lock:
            pause = self._pause()
            if pause is None:
                return
            due, (known, when) = time.monotonic() + pause, self._reminder
            if known is not None and known.is_running() and when <= due:
                return
            self._reminder = loop, due
        loop.call_later(pause, self._reminded, loop)

    def _reminded(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has the thread tell what no transaction took along."""
        with self._lock:
            self._reminder = None, 0.0
            pause = None if self._ended else self._pause()
        if pause:
            self._remind(loop)
        elif pause is not None:
            self._rouse()

    def may_carry(self, topics: set[str]) -> str | None:
        """What a transaction may tell of its own topics, and of those that wait to be told."""
        with self._lock:
            due = time.monotonic() >= self._last + NEWS_SECONDS
            return payload(self._topics | topics) if due else None

    def carried(self, topics: set[str]) -> None:
        """A transaction has told of these. Others that it took along may be told once more."""
        with self._lock:
            self._topics -= topics
            self._last = time.monotonic()

    def close(self) -> None:
        """Sends what is still to be told, and ends the thread."""
        if self._topics:
            self._start()
        with self._lock:
            self._ended = True
            thread = self._thread
        self._poke()
        if thread is not None:
            thread.join()
        os.close(self._reader)
        os.close(self._writer)

    def _poke(self) -> None:
        with suppress(BlockingIOError):  # then it is awake already
            os.write(self._writer, b"x")

    # The thread

    def _run(self) -> None:
        while not self._closing() or self._topics:
            try:
                with self._server.connect() as connection:
                    self.own[id(self)] = connection.info.backend_pid
                    self._server.hints.back(self)
                    self._serve(connection)
            except (psycopg.Error, StoreError, OSError) as error:
                self._server.hints.lost(self, error)
                if self._listening:
                    self._tell(UNHEARD)
                if self._closing():
                    return
                select.select([self._reader], [], [], RECONNECT_SECONDS)
                time.sleep(PAUSE_SECONDS)

    def _closing(self) -> bool:
        with self._lock:
            return self._ended

    def _serve(self, connection: "Connection[Any]") -> None:
        heard: list[Notify] = []
        connection.add_notify_handler(heard.append)
        listens = False
        while True:
            if self._listening and not listens:
                connection.execute(f'LISTEN "{self.channel}"'.encode())
                self._tell(MISSED)
                listens = True
            with self._lock:
                self._known, pause = self._wanted(), self._pause()
            ready, _, _ = select.select([connection.fileno(), self._reader], [], [], pause)
            if self._reader in ready:
                os.read(self._reader, 4096)
            if connection.fileno() in ready:
                _hear(connection)
            with self._lock:
                closing, pause = self._ended, self._pause()
            if closing or pause == 0:
                self._send(connection)
            self._pass_on(heard)  # some may have come with the answer to what was sent
            if closing:
                return

    def _pass_on(self, heard: list[Notify]) -> None:
        ours = set(self.own.values())
        others = [notify for notify in heard if notify.pid not in ours]
        topics = {topic for notify in others for topic in notify.payload.split("\n")}
        heard.clear()
        if topics:
            self._tell(topics)

    def _pause(self) -> float | None:
        """How long to wait before telling what is there to tell; None when nothing is. Called with the lock."""
        wanted = self._wanted()
        return None if wanted is None else max(0.0, self._last + wanted - time.monotonic())

    def _wanted(self) -> float | None:
        """The pause since the last notification after which the next may go."""
        if not self._topics:
            return None
        return FEED_PAUSE_SECONDS if self._topics == {FEED_TOPIC} else PAUSE_SECONDS

    def _send(self, connection: "Connection[Any]") -> None:
        with self._lock:
            topics, self._topics = self._topics, set()
        if not topics:
            return
        try:
            connection.execute("SELECT pg_notify($1, $2)", (self.channel, payload(topics)))
        except psycopg.Error:
            with self._lock:
                self._topics |= topics  # over the next connection
            raise
        self._last = time.monotonic()


def _hear(connection: "Connection[Any]") -> None:
    """Reads what has come. psycopg's `notifies` gives what came with an answer, and then doesn't look for more."""
    libpq = connection.pgconn
    libpq.consume_input()
    while (notify := libpq.notifies()) is not None:
        if libpq.notify_handler is not None:
            libpq.notify_handler(notify)
