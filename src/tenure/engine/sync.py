"""The same for code without an event loop: one background loop per process runs everything."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from tenure.blobs import BlobInfo, BlobRef
from tenure.blobs.ref import OCTETS
from tenure.blobs.store import Data
from tenure.domain.calls import Purged, Swept
from tenure.domain.config import QueueConfig, TenantConfig
from tenure.domain.errors import NotReady
from tenure.domain.event import Event
from tenure.domain.states import Disposition
from tenure.engine.blobs import AppBlobs, JobBlobs
from tenure.engine.dead_letters import DeadLetters, Edit, LetterWhere, Summary, Told
from tenure.engine.definition import Call, Ways, checked
from tenure.engine.durations import Seconds
from tenure.engine.feed import Events
from tenure.engine.filters import AnyDisposition, Where
from tenure.engine.flows import Flow, Parents, Policy
from tenure.engine.handle import CancelMode, CancelResult, Handle, Job
from tenure.engine.options import Options
from tenure.engine.queue import Queue, QueueOptions
from tenure.engine.schedules import CatchUp, Schedule, When
from tenure.engine.surface import Surface

if TYPE_CHECKING:
    from tenure.engine.app import Fleet, Tenant, Tenure

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Portal:
    """The background loop of this process. A forked child starts one of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inherited: list[asyncio.AbstractEventLoop | None] = []
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """Another thread may have held the lock; and the parent's loop, if it were collected here, would stop there."""
        self._lock = threading.Lock()
        self._inherited.append(self._loop)
        self._loop = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs to the end and gives the result. Raises `NotReady` where it would block an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._result(asyncio.run_coroutine_threadsafe(work, self._running()))
        work.close()
        raise NotReady("an event loop runs in this thread, and .sync would block it: await the same without .sync")

    @staticmethod
    def _result(running: "Future[T]") -> T:
        """Waits. Whoever is interrupted leaves nothing behind that goes on."""
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="tenure-sync", daemon=True).start()
            return self._loop


PORTAL = Portal()


class SyncHandle(Generic[R]):
    """A job from outside."""

    def __init__(self, handle: Handle[R]) -> None:
        self._handle = handle
        self.id = handle.id
        self.created = handle.created
        self.tenant = handle.tenant

    def __repr__(self) -> str:
        return repr(self._handle)

    @property
    def sync(self) -> "SyncHandle[R]":
        """Itself: code that asks any handle for `.sync` needn't know which it has."""
        return self

    def get(self, *, explain: bool = False, tracebacks: bool = False) -> Job:
        return PORTAL.run(self._handle.get(explain=explain, tracebacks=tracebacks))

    def cancel(self, mode: CancelMode = "now") -> CancelResult:
        return PORTAL.run(self._handle.cancel(mode))

    def result(self, timeout: Seconds | None = None) -> R:
        return PORTAL.run(self._handle.result(timeout))


class SyncWays(Generic[P, R]):
    """`send_email.sync.enqueue(...)`."""

    def __init__(self, ways: Ways[P, R]) -> None:
        self._ways = ways

    def options(self, **options: Unpack[Options]) -> "SyncWays[P, R]":
        return SyncWays(self._ways.options(**options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> SyncHandle[R]:
        return _sent(self._ways.build(*args, **kwargs), self._ways.app)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return PORTAL.run(self._ways.call(*args, **kwargs))


class SyncQueue:
    """`app.sync.queue("mail")`."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def configure(self, **options: Unpack[QueueOptions]) -> None:
        PORTAL.run(self._queue.configure(**options))

    def config(self) -> QueueConfig:
        return PORTAL.run(self._queue.config())

    def pause(self) -> None:
        PORTAL.run(self._queue.pause())

    def resume(self) -> None:
        PORTAL.run(self._queue.resume())


class SyncEvents:
    """`app.sync.events()`; `cursor` says where to go on after the last event that was given."""

    def __init__(self, events: Events) -> None:
        self._events = events

    @property
    def cursor(self) -> str | None:
        return self._events.cursor

    def __iter__(self) -> Iterator[Event]:
        for batch in _walk(self._events.batches()):
            for event, self._events.cursor in batch:
                yield event


def _handles(after: Any) -> Any:
    """The same jobs as the flow below knows them. What is no list of handles is left for it to refuse."""
    listed = isinstance(after, Iterable) and not isinstance(after, str)
    return [one._handle if isinstance(one, SyncHandle) else one for one in after] if listed else after


class SyncFlow:
    """`app.sync.flow()`."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def add(
        self, call: Call[R], *, after: Sequence[SyncHandle[Any]] = (), on_parent_failure: Policy = "cancel"
    ) -> SyncHandle[R]:
        return SyncHandle(self._flow.add(call, after=_handles(after), on_parent_failure=on_parent_failure))

    def chain(
        self, *calls: Call[Any], after: Sequence[SyncHandle[Any]] = (), on_parent_failure: Policy = "cancel"
    ) -> list[SyncHandle[Any]]:
        handles = self._flow.chain(*calls, after=_handles(after), on_parent_failure=on_parent_failure)
        return [SyncHandle(handle) for handle in handles]

    @overload
    def group(
        self, calls: Sequence[Call[R]], *, after: Sequence[SyncHandle[Any]] = (), on_parent_failure: Policy = "cancel"
    ) -> list[SyncHandle[R]]: ...
    @overload
    def group(
        self,
        calls: Sequence[Call[Any]],
        *,
        then: Call[T],
        after: Sequence[SyncHandle[Any]] = (),
        on_parent_failure: Policy = "cancel",
    ) -> SyncHandle[T]: ...
    def group(self, calls: Sequence[Call[Any]], *, after: Sequence[SyncHandle[Any]] = (), **options: Any) -> Any:
        made = self._flow.group(calls, after=_handles(after), **options)
        return SyncHandle(made) if isinstance(made, Handle) else [SyncHandle(handle) for handle in made]

    def enqueue(self) -> list[SyncHandle[Any]]:
        return [SyncHandle(handle) for handle in PORTAL.run(self._flow.enqueue())]

    def cancel(self) -> int:
        return PORTAL.run(self._flow.cancel())


class SyncParents:
    """`ctx.parents.sync`, for a plain function."""

    def __init__(self, parents: Parents) -> None:
        self._parents = parents

    def results(self, **missing: Any) -> list[Any]:
        return PORTAL.run(self._parents.results(**missing))

    def get(self, index: int) -> Any:
        return PORTAL.run(self._parents.get(index))


SyncData = bytes | os.PathLike[str] | Iterable[bytes]
"""What can be put: bytes, a file by its path, or bytes as they come."""


class _SyncReading:
    """What anyone of a tenant may do with its blobs."""

    def __init__(self, blobs: AppBlobs | JobBlobs) -> None:
        self._reading = blobs

    @contextmanager
    def open(self, ref: BlobRef) -> Iterator[Iterator[bytes]]:
        """`with ctx.blobs.sync.open(ref) as pieces: for piece in pieces: …`."""
        opening = self._reading.open(ref)
        pieces = PORTAL.run(opening.__aenter__())
        try:
            yield _walk(pieces)
        finally:
            PORTAL.run(opening.__aexit__(None, None, None))

    def read(self, ref: BlobRef) -> bytes:
        return PORTAL.run(self._reading.read(ref))

    def metadata(self, ref: BlobRef) -> BlobInfo:
        return PORTAL.run(self._reading.metadata(ref))

    def delete(self, ref: BlobRef) -> None:
        PORTAL.run(self._reading.delete(ref))


class SyncTenantBlobs(_SyncReading):
    """`app.sync.blobs`, for producers."""

    def __init__(self, blobs: AppBlobs) -> None:
        super().__init__(blobs)
        self._blobs = blobs

    def put(
        self, data: SyncData, *, job_id: str | None = None, ttl: float | None = None, content_type: str = OCTETS
    ) -> BlobRef:
        return PORTAL.run(self._blobs.put(_data(data), job_id=job_id, ttl=ttl, content_type=content_type))


class SyncContextBlobs(_SyncReading):
    """`ctx.blobs.sync`, for a plain function."""

    def __init__(self, blobs: JobBlobs) -> None:
        super().__init__(blobs)
        self._blobs = blobs

    def put(self, data: SyncData, *, content_type: str = OCTETS) -> BlobRef:
        return PORTAL.run(self._blobs.put(_data(data), content_type=content_type))

    def keep(self, ref: BlobRef) -> BlobRef:
        return PORTAL.run(self._blobs.keep(ref))


class SyncDeadLetters:
    """`app.sync.dead_letters()`."""

    def __init__(self, letters: DeadLetters) -> None:
        self._letters = letters

    def __iter__(self) -> Iterator[Job]:
        return chain.from_iterable(_walk(self._letters.batches()))

    def replay(
        self,
        *,
        dry_run: bool = False,
        edit: Edit | None = None,
        rate: str | None = None,
        progress: Told | None = None,
    ) -> Summary:
        return PORTAL.run(self._letters.replay(dry_run=dry_run, edit=edit, rate=rate, progress=progress))

    def discard(self, *, dry_run: bool = False, rate: str | None = None, progress: Told | None = None) -> Summary:
        return PORTAL.run(self._letters.discard(dry_run=dry_run, rate=rate, progress=progress))


class SyncSurface:
    """What can be done with the jobs of one tenant."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    @property
    def blobs(self) -> SyncTenantBlobs:
        """Bytes too large for a payload: `ref = app.sync.blobs.put(data, job_id=…)`, or `ttl=`."""
        return self._surface.blobs.sync

    def enqueue(self, call: Call[R]) -> SyncHandle[R]:
        return _sent(call, self._surface)

    def enqueue_many(self, calls: Iterable[Call[R]]) -> list[SyncHandle[R]]:
        """The same, but that an iterator is read first, whole: what it reads may be this thread's."""
        return [SyncHandle(handle) for handle in PORTAL.run(self._surface.enqueue_many(list(calls)))]

    def send(
        self, name: str, payload: Mapping[str, Any] | None = None, /, **options: Unpack[Options]
    ) -> SyncHandle[Any]:
        return SyncHandle(PORTAL.run(self._surface.send(name, payload, **options)))

    def flow(self) -> SyncFlow:
        return SyncFlow(self._surface.flow())

    def schedule(
        self, name: str, when: When, call: Call[Any], *, tz: str = "UTC", catch_up: CatchUp = "latest"
    ) -> Schedule:
        return PORTAL.run(self._surface.schedule(name, when, call, tz=tz, catch_up=catch_up))

    def schedules(self) -> list[Schedule]:
        return PORTAL.run(self._surface.schedules())

    def unschedule(self, name: str) -> bool:
        return PORTAL.run(self._surface.unschedule(name))

    def pause_schedule(self, name: str) -> Schedule:
        return PORTAL.run(self._surface.pause_schedule(name))

    def resume_schedule(self, name: str) -> Schedule:
        return PORTAL.run(self._surface.resume_schedule(name))

    def get(self, id: str, *, explain: bool = False, tracebacks: bool = False) -> Job:
        return PORTAL.run(self._surface.get(id, explain=explain, tracebacks=tracebacks))

    def get_many(self, ids: Sequence[str]) -> list[Job | None]:
        return PORTAL.run(self._surface.get_many(ids))

    def handle(self, id: str) -> SyncHandle[Any]:
        return SyncHandle(self._surface.handle(id))

    def jobs(self, *, limit: int | None = None, **where: Unpack[Where]) -> Iterator[Job]:
        return chain.from_iterable(_walk(self._surface.jobs(limit=limit, **where).batches()))

    def dead_letters(
        self,
        *,
        disposition: AnyDisposition | None = Disposition.OPEN,
        limit: int | None = None,
        **where: Unpack[LetterWhere],
    ) -> SyncDeadLetters:
        return SyncDeadLetters(self._surface.dead_letters(disposition=disposition, limit=limit, **where))

    def events(self, *, after: str | None = None, follow: bool = False) -> SyncEvents:
        return SyncEvents(self._surface.events(after=after, follow=follow))

    @overload
    def cancel(self, id: str, *, mode: CancelMode = "now") -> CancelResult: ...
    @overload
    def cancel(self, *, mode: CancelMode = "now", **where: Unpack[Where]) -> int: ...
    def cancel(self, id: str | None = None, *, mode: CancelMode = "now", **where: Any) -> CancelResult | int:
        cancel: Any = self._surface.cancel
        done: CancelResult | int = PORTAL.run(cancel(id, mode=mode, **where))
        return done

    def reschedule(self, id: str, *, delay: Seconds) -> None:
        PORTAL.run(self._surface.reschedule(id, delay=delay))

    def reprioritise(self, id: str, priority: int) -> None:
        PORTAL.run(self._surface.reprioritise(id, priority))

    def replay(self, id: str, *, payload: Mapping[str, Any] | None = None, again: bool = False) -> SyncHandle[Any]:
        return SyncHandle(PORTAL.run(self._surface.replay(id, payload=payload, again=again)))

    def discard(self, id: str) -> None:
        PORTAL.run(self._surface.discard(id))

    def queue(self, name: str) -> SyncQueue:
        return SyncQueue(self._surface.queue(name))


class SyncTenant(SyncSurface):
    """`app.sync.tenant("acme")`."""

    def __init__(self, tenant: "Tenant") -> None:
        super().__init__(tenant)
        self._tenant = tenant

    def configure(self, *, weight: int | None = None) -> None:
        PORTAL.run(self._tenant.configure(weight=weight))

    def config(self) -> TenantConfig:
        return PORTAL.run(self._tenant.config())

    def pause(self) -> None:
        PORTAL.run(self._tenant.pause())

    def resume(self) -> None:
        PORTAL.run(self._tenant.resume())


class SyncFleet:
    """`app.sync.fleet`."""

    def __init__(self, fleet: "Fleet") -> None:
        self._fleet = fleet

    def jobs(self, *, limit: int | None = None, **where: Unpack[Where]) -> Iterator[Job]:
        return chain.from_iterable(_walk(self._fleet.jobs(limit=limit, **where).batches()))

    def events(self, *, after: str | None = None, follow: bool = False) -> SyncEvents:
        return SyncEvents(self._fleet.events(after=after, follow=follow))

    def sweep(self) -> Swept:
        return PORTAL.run(self._fleet.sweep())

    def purge(self) -> Purged | None:
        return PORTAL.run(self._fleet.purge())


class SyncTenure(SyncSurface):
    """`app.sync`."""

    def __init__(self, app: "Tenure") -> None:
        super().__init__(app)
        self._app = app

    def tenant(self, name: str) -> SyncTenant:
        return SyncTenant(self._app.tenant(name))

    @property
    def fleet(self) -> SyncFleet:
        return SyncFleet(self._app.fleet)

    def execute_now(self, call: Call[R]) -> R:
        return PORTAL.run(self._app.execute_now(call))

    def close(self) -> None:
        PORTAL.run(self._app.close())


def _sent(call: Call[R], surface: Surface) -> SyncHandle[R]:
    """A job for the user's transaction is written in this thread, where its connection lives."""
    if checked(call).options.get("connection") is not None:
        return SyncHandle(surface.enqueue_here(call))
    return SyncHandle(PORTAL.run(surface.enqueue(call)))


def _data(given: SyncData) -> Data:
    """What is put, as the store's loop takes it: bytes that come one after the other come in a thread."""
    return _pieces(given) if isinstance(given, Iterable) and not isinstance(given, bytes) else given


async def _pieces(given: Iterable[bytes]) -> AsyncIterator[bytes]:
    source = iter(given)
    while (piece := await asyncio.to_thread(next, source, None)) is not None:
        yield piece


def _walk(items: Any) -> Iterator[Any]:
    """An async iterator, one item at a time."""
    while True:
        try:
            yield PORTAL.run(items.__anext__())
        except StopAsyncIteration:
            return
