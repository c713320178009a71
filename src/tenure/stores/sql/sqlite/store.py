"""The SQLite store: the embedded default. One file, several processes, durable at every answer."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from tenure.domain import model
from tenure.domain.calls import Claim, Claimed, Enqueued, Settle, Settled, Swept
from tenure.domain.errors import NotReady, Refused, StoreUnavailable
from tenure.domain.job import NewJob
from tenure.domain.model import Unit
from tenure.domain.names import Ms
from tenure.domain.store import CANCELS, EVERYTHING, Capabilities, Clock, ClockFloor
from tenure.stores.base import ModelStore, Operation
from tenure.stores.clock import system_clock
from tenure.stores.hints import Changed, Hints
from tenure.stores.inside import inside, inside_at
from tenure.stores.sql import hot
from tenure.stores.sql.snapshot import SqlSnapshot
from tenure.stores.sql.sqlite.file import StoreFile, translated
from tenure.stores.sql.sqlite.forks import Held, tell_children
from tenure.stores.sql.sqlite.joined import run_joined
from tenure.stores.sql.sqlite.shared import open_shared, share
from tenure.stores.sql.sqlite.snapshot import snapshot
from tenure.stores.sql.sqlite.tables import SqliteTables, disconnect
from tenure.stores.sql.sqlite.transaction import SqliteTransaction
from tenure.stores.sql.sqlite.verify import verify
from tenure.stores.sql.sqlite.wake import Wake
from tenure.stores.sql.sqlite.writer import Writer
from tenure.stores.ways import Way, Ways

T = TypeVar("T")

LARGE_WAL = 512 * 1024 * 1024
"""A log this long means that a reader keeps it from being folded back; worth a warning."""

_INHERITED: "list[_Open | None]" = []
"""What a forked child got from its parent: its threads aren't there, and others hear by its sockets."""

log = logging.getLogger("tenure.sqlite")


class SqliteStore(ModelStore):
    """Keeps jobs in one SQLite file. Opening is lazy; a forked child opens connections of its own.

    `migrate` creates the file. Every answer of a mutating call comes after a COMMIT with synchronous=FULL.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock = system_clock) -> None:
        super().__init__()
        self._file = StoreFile(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._closed = False
        tell_children(self)

    def forked(self) -> None:
        self._lock = threading.Lock()
        self._hints = Hints()
        _INHERITED.append(self._open)
        self._open = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="sqlite",
            clock_floor=ClockFloor.STORE,
            survives_process_crash=True,
            survives_power_loss=True,
            survives_failover=False,
            user_transactions=True,
            multi_process=True,
            multi_host=False,
            exact_depth=True,
            snapshot_reads=False,
        )

    async def migrate(self) -> int:
        self._refuse_inside()
        return await asyncio.to_thread(self._migrate)

    def _migrate(self) -> int:
        self._file.check_place()
        self._file.create()
        connection = self._file.connect()
        try:
            return self._file.migrate(connection)
        finally:
            connection.close()

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            opened, self._open = self._open, None
        if opened is not None:
            await asyncio.to_thread(opened.close)

    @staticmethod
    def _claim(unit: Unit, request: Claim) -> Claimed | Refused:
        return hot.claim(unit, request)

    @staticmethod
    def _settle(unit: Unit, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        return hot.settle(unit, settlements)

    async def _write(self, *parts: Operation) -> list[Any]:
        self._refuse_inside()
        return await asyncio.wrap_future(self._opened().writer.submit(parts))

    def _refuse_inside(self) -> None:
        """A write of its own inside a handler's transaction would wait for that transaction to end."""
        here = inside_at()
        if here is not None and here == self._file.place:
            raise NotReady(
                "inside ctx.transaction() this would wait for the transaction itself: "
                "use tx.enqueue(...) for jobs, and do anything else before the block or after it"
            )

    async def _read(self, part: Callable[[Unit], T]) -> T:
        opened = self._opened()
        return await asyncio.get_running_loop().run_in_executor(opened.pool, opened.read, part)

    async def sweep(self, interval: Ms, limit: int = 500, hold: Ms | None = None) -> Swept | Refused:
        reply = await super().sweep(interval, limit, hold)
        if isinstance(reply, Swept) and reply.turn:
            opened = self._opened()
            await asyncio.get_running_loop().run_in_executor(opened.pool, opened.checkpoint)
        return reply

    async def wait(self, topics: Collection[str], timeout_seconds: float) -> bool:
        self._opened().listen(topics)
        return await super().wait(topics, timeout_seconds)

    def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        """Enqueues in the transaction that the caller has open on this file; nobody is told before it commits."""
        self.ways.took(Way.ENQUEUE_JOINED)
        return run_joined(self._file, self._clock, connection, lambda unit: model.enqueue(unit, jobs))

    async def enqueue_in_async(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        return self.enqueue_in(connection, jobs)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqliteTransaction]:
        """A transaction on this file for a handler's own writes, and the end of its lease with them."""
        self._refuse_inside()
        opened = SqliteTransaction(self._file, self._clock)
        await asyncio.to_thread(opened.begin)
        try:
            with inside(self._file.place):
                yield opened
            opened.check_owner()
            await asyncio.to_thread(opened.commit)
        finally:
            if opened.ours:
                await asyncio.shield(asyncio.to_thread(opened.close))
        self._opened().kept(Changed({EVERYTHING}))

    def snapshot(self) -> AbstractContextManager[SqlSnapshot]:
        """The file as it is now, read by the calling thread on a connection of its own, until the block ends."""
        self._check_there()
        return snapshot(self._file, self._clock)

    def share(self, seconds: float, owner: int) -> str:
        """Copies the file as it is now; a process of its own keeps the copy and deletes it."""
        self._check_there()
        return share(self._file, self._clock, seconds, owner)

    def open_shared(self, handle: str) -> AbstractContextManager[SqlSnapshot]:
        """The copy behind a handle, on this machine."""
        return open_shared(handle)

    async def verify(self) -> list[str]:
        """Differences between records and what is derived from them; none in a sound store."""
        opened = self._opened()
        return await asyncio.get_running_loop().run_in_executor(opened.pool, opened.verify)

    def _opened(self) -> "_Open":
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"{self._file.path}: this store was closed")
            if self._open is None:
                self._check_there()
                self._open = _Open(self._file, self._clock, self._hints, self.ways)
            return self._open

    def _check_there(self) -> None:
        self._file.check_place()
        if not self._file.path.exists():
            raise StoreUnavailable(f"{self._file.path} doesn't exist yet: call migrate() first")


class _Open:
    """What one process holds: the writer, a reading connection with its thread, and the wake-up socket."""

    def __init__(self, file: StoreFile, clock: Clock, hints: Hints, ways: Ways) -> None:
        self._file = file
        self._clock = clock
        self.pool = ThreadPoolExecutor(1, "tenure-sqlite-reader")
        self._hints = hints
        own = f"{os.getpid()}-{os.urandom(4).hex()}"
        self.wake = Wake(file, lambda: hints.tell((EVERYTHING,)), own)
        self._wake_of_cancels = Wake(file, lambda: hints.tell((CANCELS,)), own, of_cancels=True)
        self.writer = Writer(file, clock, self.kept, ways)
        self._reading = Held(lambda: SqliteTables(file.connect()), disconnect)

    def kept(self, changed: Changed) -> None:
        """Tells whoever waits, here and in other processes."""
        if changed:
            self._hints.tell_changed(changed)
            self.wake.tell(CANCELS in changed.topics)

    def listen(self, topics: Collection[str]) -> None:
        """Hears of what others do, as far as it is waited for."""
        if CANCELS in topics:
            self._wake_of_cancels.listen()
        if any(topic != CANCELS for topic in topics):
            self.wake.listen()

    def read(self, part: Callable[[Unit], T]) -> T:
        """Runs a part on one snapshot of the file."""
        with self._read_from() as tables:
            tables.connection.execute("BEGIN")
            try:
                meta = tables.begin()
                return part(Unit(tables, max(self._clock(), meta.mark)))
            finally:
                tables.connection.execute("ROLLBACK")

    @contextmanager
    def _read_from(self) -> Iterator[SqliteTables]:
        """The reading connection; a new one where the file was replaced."""
        with translated(self._file.path):
            try:
                with self._reading.used() as tables:
                    self._file.check_still_there(tables.connection)
                    yield tables
            except StoreUnavailable:
                self._reading.close()
                raise

    def verify(self) -> list[str]:
        with self._read_from() as tables:
            return verify(tables)

    def checkpoint(self) -> None:
        """Folds the log back into the file as far as readers allow."""
        with translated(self._file.path), self._reading.used() as tables:
            tables.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        if self._file.wal_size > LARGE_WAL:
            log.warning("%s-wal has %d MiB: a long reader keeps it", self._file.path, self._file.wal_size >> 20)

    def close(self) -> None:
        self.writer.close()
        self.wake.close()
        self._wake_of_cancels.close()
        self.pool.shutdown()
        self._reading.close()
