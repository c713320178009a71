"""The PostgreSQL store: many hosts, durable at every answer, in the user's own transactions."""

import asyncio
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar, cast

import psycopg
from msgspec.structs import replace
from psycopg import Connection

from tenure.domain import model
from tenure.domain.calls import Claim, Claimed, Document, Enqueued, EventPage, Settle, Settled, Stored
from tenure.domain.errors import OutcomeUnknown, Refused, StoreUnavailable
from tenure.domain.job import NewJob
from tenure.domain.model import Unit
from tenure.domain.names import Ms
from tenure.domain.store import FEED_TOPIC, Capabilities, Clock, ClockFloor, queue_topic
from tenure.stores.base import ModelStore, Operation, check_batch, putting
from tenure.stores.hints import Hints
from tenure.stores.sql import hot
from tenure.stores.sql.postgres.arriving import arrive
from tenure.stores.sql.postgres.connection import Server, translated
from tenure.stores.sql.postgres.joined import async_runner, is_async, run_joined, sync_runner
from tenure.stores.sql.postgres.migrate import migrate
from tenure.stores.sql.postgres.place import Overtaken, Place, Severed
from tenure.stores.sql.postgres.runners import OwnRunner, Runner
from tenure.stores.sql.postgres.settling import finish
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.sql.postgres.transaction import PostgresTransaction
from tenure.stores.sql.postgres.verify import verify
from tenure.stores.sql.postgres.wake import Wake

T = TypeVar("T")

CONNECTIONS = 8
"""How many calls of one process are on their way at once."""
TRY_SECONDS = 10.0
"""For how long a call that is overtaken, or whose connection broke, begins again."""
BUSY_MS: Ms = 5
"""When to ask again after a claim that found less than it wanted, and another claim at something it passed over."""
SLACK_MS: Ms = 1_000

_INHERITED: "list[_Open]" = []
"""What a forked child got from its parent: the connections are the parent's."""


class PostgresStore(ModelStore):
    """Keeps jobs in one schema of a PostgreSQL database. Opening is lazy; a forked child opens connections of its own.

    `migrate` creates the schema. Every answer of a mutating call comes after a COMMIT. Time is the server's.
    """

    _settle = staticmethod(hot.settle)

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        super().__init__()
        self._server = Server(url)
        self._clock = clock
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="postgres",
            clock_floor=ClockFloor.JOB,
            survives_process_crash=True,
            survives_power_loss=True,
            survives_failover=True,
            user_transactions=True,
            multi_process=True,
            multi_host=True,
            exact_depth=False,
            snapshot_reads=False,
        )

    @staticmethod
    def _claim(unit: Unit, request: Claim) -> Claimed | Refused:
        """A claim that passed over something because another claim is at it will want to look again soon."""
        tables = unit.tables
        if isinstance(tables, PostgresTables) and not unit.meta.frozen:
            tables.expect_claim(request, unit.now)
        reply = hot.claim(unit, request)
        if isinstance(reply, Refused) or len(reply.jobs) == request.n:
            return reply
        busy = isinstance(tables, PostgresTables) and tables.busy
        return replace(reply, wake_after=BUSY_MS) if busy else reply

    async def migrate(self) -> int:
        return await asyncio.to_thread(self._migrate)

    def _migrate(self) -> int:
        with translated(self._server), self._server.connect() as connection:
            return migrate(connection, self._server)

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            opened, self._open = self._open, None
        if opened is not None and opened.pid == os.getpid():
            await asyncio.to_thread(opened.close)

    async def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> list[Enqueued | Refused]:
        check_batch("jobs", jobs)
        return await self._in_thread(self._opened().enqueue, jobs, atomic)

    async def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        check_batch("settlements", settlements)
        return await self._in_thread(self._opened().settle, settlements)

    async def put_document(
        self, document: Document, *, expect: int | None = None, ttl: Ms | None = None
    ) -> Stored | Refused:
        """One after the other, as they were called: one whose caller gave up mustn't come after the next."""
        opened, part = self._opened(), putting(document, expect, ttl)
        (reply,) = await asyncio.wrap_future(opened.in_order.submit(opened.write, [part]))
        return cast(Stored | Refused, reply)

    async def _write(self, *parts: Operation) -> list[Any]:
        return await self._in_thread(self._opened().write, parts)

    async def _read(self, part: Callable[[Unit], T]) -> T:
        return await self._in_thread(self._opened().read, part)

    async def events(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1_000
    ) -> EventPage | Refused:
        await self._in_thread(self._opened().sequence)
        return await super().events(tenant=tenant, after=after, limit=limit)

    async def dump(self, *, after: str | None = None, limit: int = 1_000) -> Any:
        await self._in_thread(self._opened().sequence)
        return await super().dump(after=after, limit=limit)

    def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        """Enqueues in the transaction that the caller has open in this database; told to others when it commits."""
        return self._join(sync_runner(connection), jobs)

    async def enqueue_in_async(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        """The same on a connection of this event loop."""
        if not is_async(connection):
            return self.enqueue_in(connection, jobs)
        runner = await async_runner(connection)
        return await asyncio.to_thread(self._join, runner, jobs)

    def _join(self, runner: Runner, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        place = self._opened().place
        return run_joined(self._server, place, self._clock, runner, lambda unit: model.enqueue(unit, jobs))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresTransaction]:
        """A transaction for a handler's own writes, and the end of its lease with them."""
        async with await self._server.connect_async() as connection:  # commits when the block ends well
            yield PostgresTransaction(self._server, self._opened().place, self._clock, connection)

    async def verify(self) -> list[str]:
        """Differences between records and what is derived from them; none in a sound store."""
        return await self._in_thread(self._opened().verify)

    async def wait(self, topics: Collection[str], timeout_seconds: float) -> bool:
        self._opened().wake.listen()
        return await super().wait(topics, timeout_seconds)

    async def _in_thread(self, what: Callable[..., T], *values: Any) -> T:
        """A caller that gives up leaves the call alone: it ends as it would have."""
        pool = self._opened().pool
        return await asyncio.wrap_future(pool.submit(what, *values))

    def _opened(self) -> "_Open":
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"{self._server.shown}: this store was closed")
            if self._open is not None and self._open.pid != os.getpid():
                _INHERITED.append(self._open)
                self._open = None
            if self._open is None:
                self._open = _Open(self._server, self._clock, self._hints)
            return self._open


class _Connected(PostgresTables):
    """The tables over a connection of the store's own."""

    def __init__(self, connection: "Connection[Any]", place: Place) -> None:
        super().__init__(OwnRunner(connection), place)
        self.connection = connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.connection.pipeline() as pipeline:
            try:
                yield
                pipeline.sync()
            except BaseException:
                with suppress(psycopg.Error):
                    pipeline.sync()  # else it complains of what it never sent
                raise


class _Open:
    """What one process holds: connections, the threads that use them, and the one that wakes."""

    def __init__(self, server: Server, clock: Clock | None, hints: Hints) -> None:
        self.pid = os.getpid()
        self._server = server
        self._clock = clock
        self._hints = hints
        self.place = Place(server.schema, SLACK_MS if clock is None else 0)
        self._lock = threading.Lock()
        self._idle: list[_Connected] = []
        self.pool = ThreadPoolExecutor(CONNECTIONS, "tenure-postgres")
        self.in_order = ThreadPoolExecutor(1, "tenure-postgres-in-order")
        self.wake = Wake(server, hints.tell)

    def enqueue(self, jobs: Sequence[NewJob], atomic: bool) -> list[Enqueued | Refused]:
        """By one statement if that will do, else as any other call."""
        topics = {FEED_TOPIC, *(queue_topic(queue) for queue in {job.queue for job in jobs})}

        def attempt(careful: bool) -> list[Enqueued | Refused]:
            if not careful and self._arrived(jobs):
                return [Enqueued(job.id) for job in jobs]
            parts = [lambda unit: model.enqueue(unit, jobs, atomic)]
            return cast(list[Enqueued | Refused], self._transaction(parts, jobs, topics, careful)[0])

        replies = self._again(attempt)
        self._tell(topics)
        return replies

    def _arrived(self, jobs: Sequence[NewJob]) -> bool:
        with self._at_once() as tables:
            return tables.config >= 0 and arrive(tables, jobs, None if self._clock is None else self._clock())

    def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        """By one statement if that will do, else as any other call."""
        topics: set[str] = set()

        def attempt(careful: bool) -> list[Settled | Refused]:
            finished = None if careful else self._finished(settlements)
            if finished is not None:
                topics.update(finished[1].topics(self._hints.jobs_awaited))
                return finished[0]
            parts = [lambda unit: hot.settle(unit, settlements)]
            return cast(list[Settled | Refused], self._transaction(parts, (), topics, careful)[0])

        replies = self._again(attempt)
        self._tell(topics)
        return replies

    def _finished(self, settlements: Sequence[Settle]) -> tuple[list[Settled | Refused], Unit] | None:
        with self._at_once() as tables:
            return finish(tables, settlements, self._clock)

    def write(self, parts: Sequence[Operation], jobs: Sequence[NewJob] = ()) -> list[Any]:
        """Runs the parts in one transaction, again from the beginning whenever somebody else was faster.

        `jobs` are those that an enqueue will ask about.
        """
        topics: set[str] = set()
        replies = self._again(lambda careful: self._transaction(parts, jobs, topics, careful))
        self._tell(topics)
        return replies

    def _tell(self, topics: set[str]) -> None:
        if topics:
            self._hints.tell(topics)
            self.wake.tell(topics)

    def _again(self, attempt: Callable[[bool], T]) -> T:
        """Whoever was overtaken begins again, and so does one whose connection broke: a server that restarts is back
        soon. Every call may be sent again (§5a).
        """
        deadline, pause, careful = time.monotonic() + TRY_SECONDS, 0.001, False
        severed: Severed | None = None
        while True:
            try:
                return attempt(careful)
            except Overtaken as overtaken:
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"{self._server.shown}: others were faster for {TRY_SECONDS:.0f} s, "
                        "or an open transaction holds what this call needs"
                    ) from overtaken
            except (Severed, StoreUnavailable) as error:
                in_doubt = severed is not None and severed.committing
                if isinstance(error, Severed):
                    severed = Severed(in_doubt or error.committing)
                    self._hang_up()
                elif severed is None:
                    raise
                if time.monotonic() > deadline:
                    if severed.committing:
                        raise OutcomeUnknown() from error
                    raise StoreUnavailable(
                        f"{self._server.shown}: the connection broke, and no other is to be had"
                    ) from error
            time.sleep(pause * random.random())
            pause, careful = min(2 * pause, 0.1), True

    def _hang_up(self) -> None:
        """The other connections are likely to be broken too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for tables in idle:
            tables.connection.close()

    def _transaction(
        self, parts: Sequence[Operation], jobs: Sequence[NewJob], topics: set[str], careful: bool
    ) -> list[Any]:
        topics.clear()
        with self._connected("BEGIN") as tables:
            if jobs:
                tables.expect_enqueue(jobs)
            now = self._begin(tables, writing=True, careful=careful)
            replies = []
            for part in parts:
                unit = Unit(tables, now)
                replies.append(part(unit))
                tables.keep(unit)
                topics |= unit.topics(self._hints.jobs_awaited)
            return replies

    def _begin(self, tables: PostgresTables, *, writing: bool, careful: bool = False) -> Ms:
        _, now = tables.begin(writing, careful)
        return now if self._clock is None else self._clock()

    def read(self, part: Callable[[Unit], T]) -> T:
        """Runs a part on one view of the store."""

        def attempt(_: bool) -> T:
            with self._connected("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY") as tables:
                return part(Unit(tables, self._begin(tables, writing=False)))

        return self._again(attempt)

    def sequence(self) -> None:
        """Gives new chunks their places in the feed."""

        def attempt(_: bool) -> None:
            with self._connected("BEGIN") as tables:
                tables.sequence()

        self._again(attempt)

    def verify(self) -> list[str]:
        self.sequence()
        with self._connected("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY") as tables:
            tables.begin(writing=False)
            return verify(tables)

    @contextmanager
    def _connected(self, begin: str) -> Iterator[PostgresTables]:
        """A transaction on a connection that nobody else uses."""
        committing = False
        with self._lent() as tables:
            connection = tables.connection
            try:
                with translated(self._server), tables.transaction():
                    connection.execute(begin.encode())
                    yield tables
                    committing = True
                    connection.execute("COMMIT")
            except BaseException as error:
                tables.forget()
                if connection.closed:
                    raise Severed(committing) from error
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _at_once(self) -> "Iterator[_Connected]":
        """A connection for statements that are transactions of their own."""
        with self._lent() as tables:
            try:
                with translated(self._server):
                    yield tables
            except Exception as error:
                tables.forget()
                if tables.connection.closed:
                    raise Severed(committing=True) from error
                raise

    @contextmanager
    def _lent(self) -> "Iterator[_Connected]":
        """A connection that nobody else uses. One that broke isn't used again."""
        with self._lock:
            tables = self._idle.pop() if self._idle else None
        if tables is None:
            tables = _Connected(self._server.connect(), self.place)
        try:
            yield tables
        finally:
            tables.end()
            if not tables.connection.closed:
                with self._lock:
                    self._idle.append(tables)

    def close(self) -> None:
        self.in_order.shutdown()
        self.pool.shutdown()
        self.wake.close()
        for tables in self._idle:
            tables.connection.close()
