"""What a handler knows of its job, and may ask of its worker."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tenure.domain.calls import ClaimedJob
from tenure.domain.errors import InvalidValue, NotReady
from tenure.domain.job import NewJob, Progress
from tenure.engine.blobs import JobBlobs
from tenure.engine.signals import Stopped

if TYPE_CHECKING:
    from tenure.engine.app import Tenure
    from tenure.engine.definition import Call
    from tenure.engine.flows import Parents
    from tenure.engine.handle import CarriedHandle
    from tenure.engine.transactions import HandlerTransaction

R = TypeVar("R")

CURRENT: "ContextVar[Context | None]" = ContextVar("tenure-job", default=None)
"""The job whose handler runs here."""

_MAKING = threading.Lock()
"""Held while an event is made for threads to wait on, so that all of a job wait on the same one."""

log = logging.getLogger("tenure.job")

NO_BLOBS = "no blob store: give Tenure(blobs='file:///var/lib/blobs'), or set TENURE_BLOBS"


class Fence(NamedTuple):
    """A number that only grows from lease to lease: let your own storage refuse a smaller one."""

    epoch: int
    lease_seq: int


class Cancelled:
    """Set when the job should end: it was cancelled, its lease is lost, its time is up, or the worker stops.

    From a coroutine `await ctx.cancelled.wait()`; from a thread `ctx.cancelled.wait_sync(timeout)`.
    """

    __slots__ = ("_event", "_waiting", "reason")

    def __init__(self) -> None:
        self.reason: str | None = None
        self._waiting: set[asyncio.Future[None]] | None = None
        self._event: threading.Event | None = None
        """Both made when somebody first waits: most jobs never ask, and it costs more than a short one runs."""

    def is_set(self) -> bool:
        return self.reason is not None

    def set(self, reason: str) -> None:
        """Sets it, once; called on the worker's loop."""
        if self.reason is not None:
            return
        self.reason = reason
        if self._event is not None:
            self._event.set()
        for waiter in self._waiting or ():
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> str | None:
        """Returns the reason once it is set."""
        if self.reason is None:
            waiting = self._waiting = self._waiting or set()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting.add(waiter)
            try:
                await waiter
            finally:
                waiting.discard(waiter)
        return self.reason

    def wait_sync(self, timeout: float | None = None) -> bool:
        """Whether it was set before the time was up."""
        with _MAKING:
            event = self._event = self._event or threading.Event()
        if self.reason is not None:
            event.set()
        return event.wait(timeout)


class Context:
    """A job in the hands of its handler: annotate the first parameter with it to get it."""

    __slots__ = ("_cancelled", "_report", "app", "carried", "claimed", "settled", "state")

    def __init__(
        self,
        app: "Tenure",
        claimed: ClaimedJob,
        state: Any,
        report: Callable[[Progress], None],
    ) -> None:
        self.app = app
        self.claimed = claimed
        self.settled = False
        """Whether a transaction of the handler has already ended the job."""
        self.state = state
        """What the app's lifespan gave."""
        self._cancelled: Cancelled | None = None
        self._report = report
        self.carried: tuple[NewJob, ...] = ()
        """The jobs that go in with this one's success."""

    def __repr__(self) -> str:
        return f"<job {self.job_type} {self.id} of {self.tenant}, attempt {self.attempt}>"

    @property
    def cancelled(self) -> Cancelled:
        """Whether the handler is to end, and why."""
        if self._cancelled is None:
            with _MAKING:
                self._cancelled = self._cancelled or Cancelled()
        return self._cancelled

    @property
    def id(self) -> str:
        return self.claimed.job.spec.id

    @property
    def tenant(self) -> str:
        return self.claimed.job.spec.tenant

    @property
    def queue(self) -> str:
        return self.claimed.job.spec.queue

    @property
    def job_type(self) -> str:
        return self.claimed.job.spec.job_type

    @property
    def group(self) -> str | None:
        return self.claimed.job.spec.group

    @property
    def labels(self) -> Mapping[str, str]:
        return self.claimed.job.spec.labels

    @property
    def attempt(self) -> int:
        """Counted from 1."""
        return self.claimed.job.attempt

    @property
    def max_attempts(self) -> int:
        return self.claimed.job.spec.max_attempts

    @property
    def fence(self) -> Fence:
        """Grows from lease to lease."""
        return Fence(self.claimed.epoch, self.claimed.token.lease_seq)

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that says whose job it is."""
        return logging.LoggerAdapter(log, {"tenant": self.tenant, "job": self.id, "job_type": self.job_type})

    async def progress(self, fraction: float, message: str = "") -> None:
        """Tells how far the job is, from 0 to 1. Sent with the next renewal, at most twice a second."""
        self.report(fraction, message)
        await asyncio.sleep(0)

    def report(self, fraction: float, message: str = "") -> None:
        """The same from a plain function."""
        # What isn't Unicode would break the call that carries it, and with it the renewal of other jobs.
        self._report(Progress(fraction, message.encode(errors="replace").decode()))

    def check_cancelled(self) -> None:
        """Ends the handler here if the job should end."""
        if self.cancelled.is_set():
            raise Stopped(self.cancelled.reason)

    def enqueue(self, call: "Call[R]") -> "CarriedHandle[R]":
        """Enqueues a job together with this one's success: both happen, or neither. Of the same tenant."""
        from tenure.engine.definition import checked
        from tenure.engine.handle import CarriedHandle
        from tenure.engine.transactions import refuse_connection

        if checked(call).options.get("tenant", self.tenant) != self.tenant:
            raise InvalidValue(f"ctx.enqueue(): it goes in with a job of tenant {self.tenant}, and only there")
        refuse_connection(call.options, "a job of ctx.enqueue()")
        job = call.new_job(self.app, self.tenant)
        self.carried += (job,)
        return CarriedHandle(self.app.tenant(self.tenant), job.id, call.definition)

    @property
    def blobs(self) -> JobBlobs:
        """Bytes too large for a payload or result: what is put here belongs to this job and goes with it.

        From a plain function: `ctx.blobs.sync`.
        """
        if self.app.blob_store is None:
            raise NotReady(NO_BLOBS)
        return JobBlobs(self.app.blob_store, self.tenant, self.id)

    @property
    def parents(self) -> "Parents":
        """The jobs that this one waited for, and their results."""
        from tenure.engine.flows import Parents

        parents = tuple(parent.id for parent in self.claimed.job.spec.parents)
        return Parents(self.app.tenant(self.tenant), parents)

    def transaction(self) -> "AbstractAsyncContextManager[HandlerTransaction]":
        """`async with ctx.transaction() as tx`: what the handler writes by `tx.connection` commits with its success.

        `tx.result` is the result; whatever the handler returns or raises after the block is ignored. Up to 5 s.
        """
        from tenure.engine.transactions import transaction

        return transaction(self)
