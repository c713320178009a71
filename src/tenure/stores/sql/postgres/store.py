"""The PostgreSQL store: many hosts, durable at every answer, in the user's own transactions."""

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar, cast

import psycopg
from msgspec.structs import replace

from tenure.domain import model
from tenure.domain.calls import Claim, Claimed, Document, Enqueued, EventPage, Exchanged, Settle, Settled, Stored
from tenure.domain.errors import KeyWaits, OutcomeUnknown, Refused, StoreCorrupt, StoreUnavailable
from tenure.domain.job import Alike, NewJob, Ref
from tenure.domain.model import Unit
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.domain.store import CANCELS, FEED_TOPIC, Capabilities, Clock, ClockFloor, job_of, queue_topic
from tenure.stores import fibers
from tenure.stores.base import ModelStore, Operation, carries_keys, check_batch, putting
from tenure.stores.hints import Changed, Hints
from tenure.stores.sql import hot
from tenure.stores.sql.postgres import one_statement
from tenure.stores.sql.postgres.awaited import ANNOUNCE_SECONDS, AWAITED, Awaited
from tenure.stores.sql.postgres.claim_direct import claim as lone_claim
from tenure.stores.sql.postgres.claim_direct import claim_few
from tenure.stores.sql.postgres.connection import WRITING, NotNow, Server, sound, translated
from tenure.stores.sql.postgres.ears import Ears
from tenure.stores.sql.postgres.enqueue_direct import MANY, arrive
from tenure.stores.sql.postgres.frontier import PATIENCE
from tenure.stores.sql.postgres.home import Home
from tenure.stores.sql.postgres.joined import async_runner, is_async, run_joined, sync_runner
from tenure.stores.sql.postgres.lending import (
    Connected,
    Lender,
    OwnConnections,
    Pool,
    PooledConnections,
    check_pool,
)
from tenure.stores.sql.postgres.loop_connections import LoopConnections, of_this_call
from tenure.stores.sql.postgres.migrate import migrate
from tenure.stores.sql.postgres.place import Held, Overtaken, Place, Severed, Unreadable
from tenure.stores.sql.postgres.quarantine import Bad, contradiction, set_aside, unreadable
from tenure.stores.sql.postgres.runners import UsersRunner
from tenure.stores.sql.postgres.settle_direct import finish
from tenure.stores.sql.postgres.shared import open_shared, share
from tenure.stores.sql.postgres.snapshot import snapshot
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.sql.postgres.transaction import PostgresTransaction
from tenure.stores.sql.postgres.verify import verify
from tenure.stores.sql.postgres.wake import News, Wake
from tenure.stores.sql.postgres.watch import Watch
from tenure.stores.sql.snapshot import SqlSnapshot
from tenure.stores.ways import Way, Ways

T = TypeVar("T")

TRY_SECONDS = 10.0
"""For how long a call that is overtaken, or whose connection broke, begins again."""
KEY_SECONDS = 60.0
"""For how long one waits for an open transaction that holds its key."""
MIGRATE_SECONDS = 60.0
"""For how long a migration waits for tables that others use, a second at a time."""
BUSY_MS: Ms = 5
"""When to ask again after a claim that found less than it wanted, and another claim at something it passed over."""
SLACK_MS: Ms = 1_000
DEAF_SECONDS = 2.0
"""How often to look for cancels where hints of other processes don't arrive."""
ENQUEUES_AHEAD = 3
"""Two for the server, and one that is being made ready."""
READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_INHERITED: "list[_Open]" = []
"""What a forked child got from its parent: the connections are the parent's."""


def runs_on_loops(server: Server, pool: Pool | None) -> bool:
    """Whether calls may run on event loops: on connections of our own, where loops can watch their sockets."""
    return pool is None and not server.pooled and sys.platform != "win32"


class PostgresStore(ModelStore):
    """Keeps jobs in one schema of a PostgreSQL database. Opening is lazy; a forked child opens connections of its own.

    `migrate` creates the schema. Every answer of a mutating call comes after a COMMIT. Time is the server's.

    Calls go over connections of the store's own, or over those of a `pool` that the caller made, and closes: to the
    same database, by the same role. What listens, migrates, or belongs to a handler comes by the URL.

    `patience` is how many index entries a claim may read before this process keeps frontiers (`frontier.py`), None
    for any number.
    """

    has_row_security = True

    def __init__(
        self, url: str, clock: Clock | None = None, *, pool: Pool | None = None, patience: int | None = PATIENCE
    ) -> None:
        super().__init__()
        if pool is not None:
            check_pool(pool)
        self._server = Server(url)
        self._home = Home(self._server)
        self._pool = pool
        self._made_by = os.getpid()
        self._clock = clock
        self._patience = patience
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
            snapshot_reads=True,
            enqueues_ahead=ENQUEUES_AHEAD if runs_on_loops(self._server, self._pool) else 1,
            keys_wait=True,
        )

    @staticmethod
    def _claim(unit: Unit, request: Claim) -> Claimed | Refused:
        """A claim that passed over something because another claim is at it will want to look again soon."""
        tables = unit.tables
        if isinstance(tables, PostgresTables) and not unit.meta.frozen:
            tables.expect_claim(request, unit.now)
            lone = tables.lone_line(request)
            if lone is not None and (claimed := lone_claim(tables, unit, request, *lone)) is not None:
                return claimed
        reply = hot.claim(unit, request)
        if isinstance(reply, Refused) or len(reply.jobs) == request.n:
            return reply
        busy = isinstance(tables, PostgresTables) and tables.busy
        return replace(reply, wake_after=BUSY_MS) if busy else reply

    @staticmethod
    def _settle(unit: Unit, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        return hot.settle(unit, settlements)

    async def migrate(self, *, row_security: bool = False) -> int:
        return await asyncio.to_thread(self._migrate, row_security)

    def _migrate(self, row_security: bool) -> int:
        deadline = time.monotonic() + MIGRATE_SECONDS
        while True:
            try:
                with translated(self._server), self._server.connect() as connection:
                    return migrate(connection, self._server, row_security)
            except Overtaken as overtaken:
                if time.monotonic() > deadline:
                    why = str(overtaken) or (
                        f"its tables were in use for {MIGRATE_SECONDS:.0f} s without a pause; "
                        "end long transactions (tenure doctor names them), then migrate"
                    )
                    raise StoreUnavailable(f"{self._server.shown}: {why}") from overtaken
            time.sleep(random.random())

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            opened, self._open = self._open, None
        if opened is not None and opened.pid == os.getpid():
            opened.leave_loops()
            await asyncio.to_thread(opened.close)

    async def enqueue(
        self, jobs: Sequence[NewJob], *, atomic: bool = False, patient: bool = True
    ) -> list[Enqueued | Refused]:
        check_batch("jobs", jobs)
        opened = self._opened()
        severed: Severed | None = None
        if len(jobs) == 1:
            try:
                enqueued = await opened.enqueue_quickly(jobs[0])
            except Severed as error:
                severed = error
            else:
                if enqueued is not None:
                    return [enqueued]
        return await opened.on_loop(opened.enqueue, jobs, atomic, patient, severed)

    async def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        check_batch("settlements", settlements)
        opened = self._opened()
        return await opened.on_loop(opened.settle, settlements)

    async def put_document(
        self, document: Document, *, expect: int | None = None, ttl: Ms | None = None
    ) -> Stored | Refused:
        """One after the other, as they were called: one whose caller gave up mustn't come after the next."""
        opened, part = self._opened(), putting(document, expect, ttl)
        (reply,) = await asyncio.wrap_future(opened.in_order.submit(opened.write, [part]))
        return cast(Stored | Refused, reply)

    async def claim(self, request: Claim) -> Claimed | Refused:
        opened = self._opened()
        return await opened.on_loop(opened.claim, request, lambda unit: self._claim(unit, request))

    async def exchange(self, settlements: Sequence[Settle], request: Claim) -> Exchanged:
        check_batch("settlements", settlements)
        opened = self._opened()
        parts = [lambda unit: self._settle(unit, settlements), lambda unit: self._claim(unit, request)]
        return Exchanged(*await opened.on_loop(opened.exchange, parts, carries_keys(settlements)))

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
        """Refused while rows are set aside: they would be missing there, and nobody would know."""
        await self._in_thread(self._opened().sequence)
        page = await super().dump(after=after, limit=limit)
        if await self._in_thread(self._opened().anything_aside):
            raise StoreCorrupt(
                f"{self._server.shown} has rows set aside (tenure doctor): put them right, or delete them"
            )
        return page

    def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        """Enqueues in the transaction that the caller has open in this database; told to others when it commits."""
        return self._join(sync_runner(connection), jobs)

    async def enqueue_in_async(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        """The same on a connection of this event loop."""
        if not is_async(connection):
            return self.enqueue_in(connection, jobs)
        runner = await async_runner(connection)
        if not self._home.knows(runner.connection):
            await self._in_thread(self._home.learn)
        return await fibers.start(None, self._join, runner, jobs)  # threads are few, and a key may be long in coming

    def _join(self, runner: UsersRunner, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        place = self._opened().place
        self._home.check("connection", runner.connection, lambda text: runner.run(text, ()).fetchall())
        self.ways.took(Way.ENQUEUE_JOINED)
        return run_joined(self._server, place, self._clock, runner, lambda unit: model.enqueue(unit, jobs))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresTransaction]:
        """A transaction for a handler's own writes, and the end of its lease with them."""
        async with await self._server.connect_async() as connection:  # commits when the block ends well
            yield PostgresTransaction(self._server, self._opened().place, self._clock, connection)

    def snapshot(self) -> AbstractContextManager[SqlSnapshot]:
        """The store as it is now, read by the calling thread on a connection of its own, until the block ends.

        Of what is committed while it begins, the feed may lack what the jobs show; the next view has it.
        """
        return snapshot(self._server, self._clock)

    def share(self, seconds: float, owner: int) -> str:
        """Exports what the server shows now; a process of its own keeps it."""
        return share(self._server, self._clock, seconds, owner)

    def open_shared(self, handle: str) -> AbstractContextManager[SqlSnapshot]:
        """The view behind a handle, on any host."""
        return open_shared(self._server, handle)

    async def verify(self) -> list[str]:
        """Differences between records and what is derived from them; none in a sound store."""
        return await self._in_thread(self._opened().verify)

    async def wait(self, topics: Collection[str], timeout_seconds: float) -> bool:
        """A wait for a job is announced, unless it ends at once."""
        opened = self._opened()
        if self._server.pooled:
            return await self._wait_deaf(topics, timeout_seconds)
        opened.listen()
        refs = [ref for ref in map(job_of, topics) if ref is not None]
        if not refs:
            return await super().wait(topics, timeout_seconds)
        announcing = asyncio.get_running_loop().call_later(ANNOUNCE_SECONDS, opened.announce, refs)
        try:
            return await super().wait(topics, timeout_seconds)
        finally:
            announcing.cancel()

    async def _wait_deaf(self, topics: Collection[str], timeout_seconds: float) -> bool:
        """Behind a pooler nobody hears of other processes. Callers look by themselves; for cancels they wait for an
        hour, so there it is the store that says when to look.
        """
        until_due = min(timeout_seconds, DEAF_SECONDS) if CANCELS in topics else timeout_seconds
        heard = await super().wait(topics, until_due)
        return heard or until_due < timeout_seconds

    async def _in_thread(self, what: Callable[..., T], *values: Any) -> T:
        """A caller that gives up leaves the call alone: it ends as it would have."""
        pool = self._opened().pool
        return await asyncio.wrap_future(pool.submit(what, *values))

    def _opened(self) -> "_Open":
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"{self._server.shown}: this store was closed")
            if self._pool is not None and self._made_by != os.getpid():
                raise StoreUnavailable(
                    f"{self._server.shown}: its pool is the parent process's; make pool and store after the fork"
                )
            if self._open is not None and self._open.pid != os.getpid():
                _INHERITED.append(self._open)
                self._open = None
            if self._open is None:
                self._open = _Open(
                    self._server, self._home, self._pool, self._clock, self._hints, self._patience, self.ways
                )
            return self._open


class _Open:
    """What one process holds: connections, the threads that use them, and the one that wakes."""

    def __init__(
        self,
        server: Server,
        home: Home,
        pool: Pool | None,
        clock: Clock | None,
        hints: Hints,
        patience: int | None,
        ways: Ways,
    ) -> None:
        self.pid = os.getpid()
        self._server = server
        self._clock = clock
        self._hints = hints
        self.place = Place(server.schema, SLACK_MS if clock is None else 0, patience, ways)
        self.connections: Lender = (
            OwnConnections(server, self.place) if pool is None else PooledConnections(pool, self.place, home)
        )
        self.pool = ThreadPoolExecutor(server.connections, "tenure-postgres")
        self.in_order = ThreadPoolExecutor(1, "tenure-postgres-in-order")
        self.wake = Wake(server, self.heard)
        self._awaited = Awaited()
        self._watch = Watch(hints, self.still_open)
        self._lock = threading.Lock()
        self._on_loops = runs_on_loops(server, pool)
        self._loops: dict[asyncio.AbstractEventLoop, LoopConnections] = {}
        self._ears: dict[asyncio.AbstractEventLoop, Ears] = {}

    def listen(self) -> None:
        """From now on hints of other processes arrive on this event loop."""
        if not self._on_loops:
            self.wake.listen()
            return
        loop = asyncio.get_running_loop()
        if loop not in self._ears:
            with self._lock:
                ended = [self._ears.pop(other) for other in list(self._ears) if other.is_closed()]
                self._ears[loop] = Ears(self._server, self.wake.own, self.heard, self.pool)
            for ears in ended:
                ears.close()

    def announce(self, refs: Sequence[Ref]) -> None:
        """Lets other processes know that jobs are waited for here."""
        if topics := self._awaited.announce(refs):
            self.wake.tell(topics)

    def heard(self, topics: Collection[str]) -> None:
        """What another process told."""
        announced = {topic for topic in topics if topic.startswith(AWAITED)}
        if announced:
            refs = [ref for topic in announced if (ref := job_of(topic.removeprefix(AWAITED))) is not None]
            if ended := self._awaited.heard(refs):
                self.wake.tell(ended)
        self._hints.tell(set(topics) - announced)
        if FEED_TOPIC in topics:
            self._watch.rouse()

    def still_open(self, refs: Sequence[Ref]) -> set[Ref]:
        """Those of these jobs that haven't ended."""
        with self._at_once() as tables:
            return {(tenant, id) for tenant, id, state in tables.of("states", refs) if not State(state).terminal}

    async def on_loop(self, what: Callable[..., T], *values: Any) -> T:
        """Runs a call on this event loop, or in a thread where it may not. One whose caller gives up goes on."""
        if not self._on_loops:
            return await asyncio.wrap_future(self.pool.submit(what, *values))
        loop = asyncio.get_running_loop()
        connections = self._loops.get(loop) or self._add_loop(loop)
        return await fibers.start(connections, what, *values)

    def _add_loop(self, loop: asyncio.AbstractEventLoop) -> LoopConnections:
        """Those of loops that have ended go."""
        with self._lock:
            ended = [self._loops.pop(other) for other in list(self._loops) if other.is_closed()]
            made = self._loops[loop] = LoopConnections(self._server, self.place, self.pool, self.wake.own)
        for connections in ended:
            connections.leave()
        return made

    def leave_loops(self) -> None:
        """Closes the connections of all event loops, each on its own."""
        with self._lock:
            leaving = [(loop, connections.leave) for loop, connections in self._loops.items()]
            leaving += [(loop, ears.close) for loop, ears in self._ears.items()]
            self._loops, self._ears = {}, {}
        for loop, leave in leaving:
            if loop is asyncio.get_running_loop() or not loop.is_running():
                leave()
            else:
                loop.call_soon_threadsafe(leave)

    def _lender(self) -> Lender:
        return of_this_call() or self.connections

    async def enqueue_quickly(self, job: NewJob) -> Enqueued | None:
        """None if the job must go the usual way, and so must one whose connection broke."""
        connections = self._loops.get(asyncio.get_running_loop())
        if connections is None:
            return None
        changed = Changed({FEED_TOPIC, queue_topic(job.queue)})
        news = News(self.wake, changed.topics)
        now = None if self._clock is None else self._clock()
        asked = one_statement.enqueue(connections, job, now, news, lambda: self._tell(changed, carried=news.carried))
        return None if asked is None else await asked

    def enqueue(
        self, jobs: Sequence[NewJob], atomic: bool, patient: bool = True, severed: Severed | None = None
    ) -> list[Enqueued | Refused]:
        """By one statement if that will do, else as any other call. Large calls of one loop keep their order.

        `severed`: they may be there already.
        """
        line = of_this_call()
        turn = line.turn() if line is not None and len(jobs) >= MANY else None
        try:
            return self._enqueue(jobs, atomic, patient, lambda: turn.end() if turn is not None else None, severed)
        finally:
            if turn is not None:
                turn.end()

    def _enqueue(
        self,
        jobs: Sequence[NewJob],
        atomic: bool,
        patient: bool,
        placed: Callable[[], None],
        severed: Severed | None,
    ) -> list[Enqueued | Refused]:
        kinds = [jobs.kind] if type(jobs) is Alike else jobs
        changed = Changed({FEED_TOPIC, *(queue_topic(queue) for queue in {job.queue for job in kinds})})
        news = News(self.wake, changed.topics)

        def attempt(careful: bool) -> list[Enqueued | Refused]:
            if not careful and self._arrived(jobs, news, placed):
                return list(map(Enqueued, jobs.ids if type(jobs) is Alike else [job.id for job in jobs]))
            self.place.ways.took(Way.ENQUEUE_MODEL)
            parts = [lambda unit: model.enqueue(unit, jobs, atomic)]
            return cast(list[Enqueued | Refused], self._transaction(parts, jobs, changed, careful)[0])

        replies = self._again(attempt, severed, KEY_SECONDS if patient else 0.0)
        self._tell(changed, carried=news.carried)
        return replies

    def _arrived(self, jobs: Sequence[NewJob], news: News, placed: Callable[[], None]) -> bool:
        with self._at_once() as tables:
            tables.know_config()
            return arrive(tables, jobs, None if self._clock is None else self._clock(), news, placed)

    def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        """By one statement if that will do, else as any other call."""
        changed = Changed()

        def attempt(careful: bool) -> list[Settled | Refused]:
            finished = None if careful else self._finished(settlements)
            if finished is not None:
                changed.add(finished[1])
                return finished[0]
            parts = [lambda unit: hot.settle(unit, settlements)]
            return cast(list[Settled | Refused], self._transaction(parts, (), changed, careful, keyed=keyed)[0])

        keyed = carries_keys(settlements)
        replies = self._again(attempt, key_seconds=0.0 if keyed else None)
        self._tell(changed)
        return replies

    def _finished(self, settlements: Sequence[Settle]) -> tuple[list[Settled | Refused], Unit] | None:
        with self._at_once() as tables:
            return finish(tables, settlements, self._clock)

    def claim(self, request: Claim, part: Callable[[Unit], Claimed | Refused]) -> Claimed | Refused:
        """A claim by itself: by one statement where few jobs are to be expected. Else what it looks at first is asked
        for as its transaction begins.
        """
        changed = Changed()

        def attempt(careful: bool) -> Claimed | Refused:
            may_be_few = self._on_loops and not careful and self.place.few
            if may_be_few and (claimed := self._claimed_few(request)) is not None:
                return claimed
            ahead = None if careful else partial(PostgresTables.look_ahead, request=request)
            return cast(Claimed | Refused, self._transaction([part], (), changed, careful, ahead, claiming=True)[0])

        reply = self._again(attempt)
        self._tell(changed)
        return reply

    def _claimed_few(self, request: Claim) -> Claimed | None:
        with self._at_once() as tables:
            return claim_few(tables, request, None if self._clock is None else self._clock())

    def exchange(self, parts: Sequence[Operation], keyed: bool) -> list[Any]:
        """The same where one of the parts claims; keyed: another carries jobs with keys."""
        return self.write(parts, claiming=True, keyed=keyed)

    def write(self, parts: Sequence[Operation], claiming: bool = False, keyed: bool = False) -> list[Any]:
        """Runs the parts in one transaction, again from the beginning whenever somebody else was faster."""
        changed = Changed()
        replies = self._again(
            lambda careful: self._transaction(parts, (), changed, careful, claiming=claiming, keyed=keyed),
            key_seconds=0.0 if keyed else None,
        )
        self._tell(changed)
        return replies

    def _tell(self, changed: Changed, carried: bool = False) -> None:
        """Tells this process, and others what they weren't told with the transaction."""
        self._hints.tell_changed(changed)
        topics = set() if carried else changed.topics
        if changed.ended:
            topics = topics | self._awaited.ended(changed.ended)
        if topics:
            self.wake.tell(topics)

    def _again(
        self, attempt: Callable[[bool], T], severed: Severed | None = None, key_seconds: float | None = None
    ) -> T:
        """Whoever was overtaken begins again, and so does one whose connection broke: a server that restarts is back
        soon, and one that is full or starting lets others in. Every call may be sent again (§5a).

        `key_seconds`: for how long a call that may wait for a key does.
        """
        begun = time.monotonic()
        deadline, pause, careful = begun + TRY_SECONDS, 0.001, severed is not None
        suspect: Bad | None = None
        bad: Bad | None = None
        while True:
            try:
                if bad is not None:
                    self._set_aside(bad)
                    bad = None
                return attempt(careful)
            except Unreadable as error:
                if time.monotonic() > deadline:
                    raise
                bad = unreadable(error)
            except Overtaken as overtaken:
                self.place.ways.took(Way.OVERTAKEN)
                if isinstance(overtaken, Held) and key_seconds is not None:
                    if severed is None and time.monotonic() >= begun + key_seconds:
                        raise KeyWaits(
                            f"{self._server.shown}: a transaction that is still open holds the key of one of these "
                            f"jobs (waited for {key_seconds:.0f} s): end it, then enqueue again"
                        ) from overtaken
                    deadline = max(deadline, begun + key_seconds)
                before, suspect = suspect, contradiction(overtaken)
                if suspect == before:
                    bad = suspect  # nobody is that much faster, twice
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"{self._server.shown}: others were faster for {TRY_SECONDS:.0f} s, "
                        "or an open transaction holds what this call needs"
                    ) from overtaken
            except (Severed, StoreUnavailable) as error:
                if isinstance(error, Severed):
                    if severed is None:  # however long that took, one more try is due
                        deadline = time.monotonic() + TRY_SECONDS
                    severed = Severed(error.committing or (severed is not None and severed.committing))
                    self._lender().hang_up()
                elif severed is None and not isinstance(error, NotNow):
                    raise
                if time.monotonic() > deadline:
                    if severed is not None and severed.committing:
                        raise OutcomeUnknown() from error
                    if isinstance(error, StoreUnavailable):
                        raise
                    raise StoreUnavailable(
                        f"{self._server.shown}: the connection broke, and no other is to be had"
                    ) from error
            fibers.pause(pause * random.random())
            pause, careful = min(2 * pause, 0.1), True

    def _set_aside(self, bad: Bad) -> None:
        with self._connected(WRITING) as tables:
            tables.forget()
            set_aside(tables, bad)

    def _transaction(
        self,
        parts: Sequence[Operation],
        jobs: Sequence[NewJob],
        changed: Changed,
        careful: bool,
        ahead: Callable[..., None] | None = None,
        claiming: bool = False,
        keyed: bool = False,
    ) -> list[Any]:
        """`ahead` asks what the first part will, given the tables and the time, if that is known."""
        changed.clear()
        now = None if self._clock is None else self._clock()
        with self._connected(WRITING) as tables:
            if keyed:
                tables.run("soon")
            if jobs:
                tables.expect_enqueue(jobs)
            if ahead is not None:
                ahead(tables, now=now)
            _, begun = tables.begin(True, careful, claiming)
            now = begun if now is None else now
            replies = []
            for part in parts:
                unit = Unit(tables, now)
                replies.append(part(unit))
                tables.keep(unit)
                changed.add(unit)
            return replies

    def read(self, part: Callable[[Unit], T]) -> T:
        """Runs a part on one view of the store."""

        def attempt(careful: bool) -> T:
            with self._connected(READING) as tables:
                _, now = tables.begin(writing=False)
                return part(Unit(tables, now if self._clock is None else self._clock()))

        return self._again(attempt)

    def anything_aside(self) -> bool:
        with self._connected(READING) as tables:
            return bool(list(tables.stream("SELECT 1 FROM tenure.quarantine LIMIT 1", ())))

    def sequence(self) -> None:
        """Gives new chunks their places in the feed. A role that may not sees what others gave."""

        def attempt(_: bool) -> None:
            with self._connected(WRITING) as tables:
                if tables.row("may_sequence") == (True,):
                    tables.sequence()

        self._again(attempt)

    def verify(self) -> list[str]:
        self.sequence()

        def attempt(_: bool) -> list[str]:
            with self._connected(READING) as tables:
                tables.begin(writing=False)
                return verify(tables)

        return self._again(attempt)

    @contextmanager
    def _connected(self, begin: bytes) -> Iterator[PostgresTables]:
        """A transaction on a connection that nobody else uses."""
        committing = False
        with translated(self._server), self._lender().lent() as tables:
            try:
                with tables.transaction(begin):
                    yield tables
                    committing = begin != READING
                    tables.say(b"COMMIT")
            except BaseException as error:
                tables.forget()
                with suppress(psycopg.Error):
                    tables.say(b"ROLLBACK")
                if not sound(tables.connection):
                    raise Severed(committing) from error
                raise

    @contextmanager
    def _at_once(self) -> Iterator[Connected]:
        """A connection for statements that are transactions of their own. A guest's are one, with our settings."""
        with translated(self._server), self._lender().lent() as tables:
            try:
                if not tables.guest:
                    yield tables
                else:
                    with tables.transaction(WRITING):
                        yield tables
                        tables.say(b"COMMIT")
            except Exception as error:
                tables.forget()
                if tables.guest:
                    with suppress(psycopg.Error):
                        tables.say(b"ROLLBACK")
                if not sound(tables.connection):
                    raise Severed(committing=True) from error
                raise

    def close(self) -> None:
        self.in_order.shutdown()
        self.pool.shutdown()
        self._watch.close()
        self.wake.close()
        self.connections.hang_up()
