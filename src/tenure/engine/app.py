"""The app: where jobs are declared and enqueued, and workers come from."""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from inspect import isasyncgenfunction
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from tenure.blobs import BlobStore, open_blobs
from tenure.codecs import Codec, known_codecs
from tenure.domain import names
from tenure.domain.calls import Purged, Swept
from tenure.domain.config import TenantConfig
from tenure.domain.errors import InvalidValue, NotReady, Refused
from tenure.domain.store import Store
from tenure.engine.annotations import signature_of
from tenure.engine.client import Enqueuer
from tenure.engine.definition import Call, Definition, Jobs
from tenure.engine.feed import Events
from tenure.engine.filters import Where
from tenure.engine.hooks import Hooks, Listener, Middleware
from tenure.engine.ids import uuid7, uuid7s
from tenure.engine.listing import Listing
from tenure.engine.queue import Queue, TenantSettings
from tenure.engine.settings import Settings, settings_from
from tenure.engine.surface import Surface
from tenure.stores.opening import open_store

if TYPE_CHECKING:
    from tenure.engine.sync import SyncTenure
    from tenure.engine.worker.worker import Worker

R = TypeVar("R")
T = TypeVar("T")
L = TypeVar("L", bound=Listener)
M = TypeVar("M", bound=Middleware)

DEFAULT_TENANT = "default"

Lifespan = Callable[["Tenure"], AbstractAsyncContextManager[Any]]


class Tenure(Jobs, Surface):
    """A job queue. Opening is lazy: nothing is touched before the first call that needs the store.

    `Tenure("sqlite:///jobs.db")`, `Tenure("memory://")`; without a URL, `TENURE_URL` says where. `url` may be a
    function that returns the URL: it is called at every use, and where it returns another, that store is opened.
    """

    def __init__(
        self,
        url: str | Callable[[], str] | None = None,
        *,
        store: Store | None = None,
        blobs: BlobStore | str | None = None,
        settings: Settings | None = None,
    ) -> None:
        Jobs.__init__(self)
        Surface.__init__(self, self, DEFAULT_TENANT)
        self.settings = settings or settings_from()
        self.codecs = known_codecs()
        self.hooks = Hooks()
        self.middlewares: list[Middleware] = []
        self._where = url if callable(url) else None
        self._url = url() if callable(url) else url or self.settings.url
        self._given = store
        self._lock = threading.Lock()
        self._users = 0
        """How many are inside `async with app`, workers among them."""
        self._store: Store | None = store
        self._moved_from: list[Store] = []
        """Stores at URLs that were right before, to be closed by the next call that can wait."""
        self._migrated: tuple[int, Store] | None = None
        self._opening: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._enqueuers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Enqueuer] = weakref.WeakKeyDictionary()
        self._lifespan: Lifespan | None = None
        place = blobs or self.settings.blobs
        self.blob_store = open_blobs(place) if isinstance(place, str) else place
        """Where large bodies and users' blobs lie; None: nowhere."""
        if self._url is not None and store is None:
            self._store = open_store(self._url)

    def __repr__(self) -> str:
        return f"<Tenure, {len(self.definitions)} job types>"

    @property
    def url(self) -> str | None:
        """Where the store is, if a URL said so."""
        return self._url if self._where is None else self._where()

    # The store

    async def __aenter__(self) -> "Tenure":
        with self._lock:
            self._users += 1
        try:
            await self.opened()
        except BaseException:
            self._left()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """The last one to leave closes the store: a block inside another takes nothing away from it."""
        if self._left() == 0:
            await self.close()

    def _left(self) -> int:
        with self._lock:
            self._users -= 1
            return self._users

    async def opened(self) -> Store:
        """The store, ready for use: created, or brought to this code's schema, where that is needed."""
        store = self.made()
        await self._close_moved_from()
        if self._migrated != (os.getpid(), store):
            async with self._opening_here():
                await self._migrate(store)
        return store

    async def _close_moved_from(self) -> None:
        while self._moved_from:
            await self._moved_from.pop().close()

    def _opening_here(self) -> asyncio.Lock:
        """One caller of this event loop opens the store, the others wait. If it fails or goes, the next one tries."""
        return _of_this_loop(self._opening, asyncio.Lock)

    async def _migrate(self, store: Store) -> None:
        opened = (os.getpid(), store)
        if self._migrated != opened:
            await store.migrate()
            self._migrated = opened

    def made(self) -> Store:
        """The store, not necessarily opened."""
        with self._lock:
            if self._where is not None and self._given is None:
                self._move_to(self._where())
            if self._store is None:
                if self._url is None:
                    raise NotReady("no store: give Tenure('sqlite:///jobs.db') a URL, or set TENURE_URL")
                self._store = open_store(self._url)
            return self._store

    def _move_to(self, url: str) -> None:
        if url != self._url:
            if self._store is not None:
                self._moved_from.append(self._store)
            self._url, self._store = url, None

    async def enqueuer(self) -> Enqueuer:
        """This event loop's way to the store."""
        store = await self.opened()
        found = _of_this_loop(self._enqueuers, lambda: Enqueuer(store))
        if found.store is not store:
            found = self._enqueuers[asyncio.get_running_loop()] = Enqueuer(store)
        return found

    async def close(self) -> None:
        """Lets go of the store, once what is on its way has arrived. A later call opens it again."""
        enqueuer = self._enqueuers.pop(asyncio.get_running_loop(), None)
        if enqueuer is not None:
            await enqueuer.close()
        with self._lock:
            store, self._store = self._store, self._given
        if store is not None and self._given is None:
            await store.close()
        await self._close_moved_from()
        if self.blob_store is not None:
            await self.blob_store.close()

    @contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Puts the app on another store for as long as the block lasts: for tests."""
        with self._lock:
            before = (self._given, self._store)
            self._given = self._store = store
        try:
            yield
        finally:
            with self._lock:
                self._given, self._store = before

    def new_id(self) -> str:
        """A new job's id."""
        return uuid7()

    def new_ids(self, count: int) -> list[str]:
        """The ids of so many new jobs."""
        return uuid7s(count)

    # Tenants

    def tenant(self, name: str) -> "Tenant":
        """The same for another tenant."""
        return Tenant(self, name)

    @property
    def fleet(self) -> "Fleet":
        """Every tenant at once, for administration."""
        return Fleet(self)

    def queue(self, name: str) -> Queue:
        """A queue as every tenant has it that has nothing of its own set."""
        return Queue(self.opened, names.EVERYONE, name)

    # Declaring

    def include(self, jobs: Jobs) -> None:
        """Takes in the job types of a module."""
        clash = sorted(jobs.definitions.keys() & self.definitions.keys())
        if clash:
            raise InvalidValue(f"job {clash[0]} is declared twice: give one of them another name=")
        for definition in jobs.definitions.values():
            definition.check_codecs(definition.declared, self)
        for definition in jobs.definitions.values():
            self._add(definition)

    def _add(self, definition: Definition[Any, Any]) -> None:
        definition.check_codecs(definition.declared, self)
        super()._add(definition)
        definition.joined(self)

    def codec(self, codec: Codec) -> None:
        """Makes a codec of one's own known, for `codec=` and `result_codec=`."""
        self.codecs.add(codec)

    def lifespan(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Declares what handlers get at `ctx.state`: an async context manager that lives as long as a worker."""
        if self._lifespan is not None:
            raise InvalidValue("lifespan: there is one already")
        manager = asynccontextmanager(function) if isasyncgenfunction(function) else function
        takes_app = bool(signature_of(function).parameters)
        self._lifespan = manager if takes_app else lambda _: manager()
        return function

    @asynccontextmanager
    async def state(self) -> AsyncIterator[Any]:
        """What the lifespan gives, for as long as the block lasts."""
        if self._lifespan is None:
            yield None
        else:
            async with self._lifespan(self) as state:
                yield state

    def on(self, hook: str) -> Callable[[L], L]:
        """Declares a listener: `@app.on("job_ended")`, a function of what happened, plain or async."""

        def listen(listener: L) -> L:
            self.hooks.add(hook, listener)
            return listener

        return listen

    def middleware(self, function: M) -> M:
        """Declares what stands around every handler: `async def timed(ctx, call_next): return await call_next()`."""
        self.middlewares.append(function)
        return function

    # Running

    def worker(
        self,
        queues: Mapping[str, int] | Sequence[str] | None = None,
        *,
        concurrency: int | None = None,
        tenants: Sequence[str] | None = None,
        name: str | None = None,
        lease: float | None = None,
        grace: float | None = None,
    ) -> "Worker":
        """A worker in this process: `async with app.worker(queues={"mail": 40}): …`, or `await app.worker().run()`.

        Queues default to those of the app's jobs; a mapping says how many jobs of each may run here at once.
        """
        from tenure.engine.worker.worker import Worker, WorkerOptions

        settings = self.settings
        return Worker(
            self,
            WorkerOptions.checked(
                queues=queues if queues is not None else sorted({one.queue for one in self.definitions.values()}),
                concurrency=settings.concurrency if concurrency is None else concurrency,
                tenants=None if tenants is None else tuple(tenants),
                name=name,
                lease=settings.lease if lease is None else lease,
                grace=settings.grace if grace is None else grace,
                settings=settings,
            ),
        )

    async def execute_now(self, call: Call[R]) -> R:
        """Runs a job here and now, without a store: for tests. Whatever the handler raises comes out as it is."""
        from tenure.engine.worker.runner import run_here

        result: R = await run_here(self, call)
        return result

    @property
    def sync(self) -> "SyncTenure":
        """The same from code without an event loop."""
        from tenure.engine.sync import SyncTenure

        return SyncTenure(self)


def _of_this_loop(kept: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, T]", make: Callable[[], T]) -> T:
    """What is kept for the running loop. What belongs to closed ones is let go: it may hold on to its loop itself."""
    loop = asyncio.get_running_loop()
    found = kept.get(loop)
    if found is None:
        for one in kept.keyrefs():  # a list of its own: other threads have loops too
            other = one()
            if other is not None and other.is_closed():
                kept.pop(other, None)
        found = kept[loop] = make()
    return found


class Tenant(Surface):
    """One tenant's view: the same surface, and its own configuration."""

    def __repr__(self) -> str:
        return f"<tenant {self.tenant_name}>"

    async def configure(self, *, weight: int | None = None) -> None:
        """Sets how large a share of the workers the tenant gets, from 1 to 16."""
        await TenantSettings(self.store, self.tenant_name).change(weight=weight)

    async def pause(self) -> None:
        """No job of this tenant is claimed until `resume`; running ones go on."""
        await TenantSettings(self.store, self.tenant_name).change(paused=True)

    async def resume(self) -> None:
        await TenantSettings(self.store, self.tenant_name).change(paused=None)

    async def config(self) -> TenantConfig:
        return await TenantSettings(self.store, self.tenant_name).read()


class Fleet:
    """All tenants at once."""

    def __init__(self, app: Tenure) -> None:
        self._app = app

    def jobs(self, *, limit: int | None = None, **where: Unpack[Where]) -> Listing:
        """Jobs of every tenant, newest first."""
        return Listing(_Everyone(self._app), where, limit)

    def events(self, *, after: str | None = None, follow: bool = True) -> Events:
        """The store-wide feed; `after` as in `app.events`."""
        return Events(self._app.opened, None, after, follow)

    async def sweep(self) -> Swept:
        """Takes lost leases, expires and cleans up now, whoever's turn it is."""
        reply = await (await self._app.opened()).sweep(0)
        if isinstance(reply, Refused):
            raise reply
        return reply

    async def purge(self) -> Purged | None:
        """Deletes the oldest day of ended jobs that is past retention; None when none is."""
        reply = await (await self._app.opened()).purge()
        if isinstance(reply, Refused):
            raise reply
        return reply


class _Everyone(Surface):
    """A surface without a tenant, for lists."""

    def __init__(self, app: Tenure) -> None:
        super().__init__(app, DEFAULT_TENANT)

    @property
    def _listed(self) -> str | None:
        return None
