"""A job from outside: its state, its result, cancelling it."""

import asyncio
from collections.abc import Generator
from datetime import UTC, datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

import msgspec

from tenure.domain.calls import Cancelled, CancelRequested, JobView
from tenure.domain.errors import (
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobFinished,
    Refused,
    ResultGone,
    ResultTimeout,
    StoreError,
)
from tenure.domain.job import Attempt as StoredAttempt
from tenure.domain.job import Failure, Progress
from tenure.domain.names import Ms
from tenure.domain.states import Disposition, Gate, State, Status
from tenure.domain.store import Store, job_topic
from tenure.engine.bodies import with_result
from tenure.engine.durations import Seconds, milliseconds
from tenure.engine.signature import of_result

if TYPE_CHECKING:
    from tenure.engine.definition import Definition
    from tenure.engine.surface import Surface
    from tenure.engine.sync import SyncHandle

R = TypeVar("R")

POLL_SECONDS = (0.05, 1.0)
"""How often a result is asked for while no hint comes: first, and at most."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One lease of a job that ended."""

    attempt: int
    lease_seq: int
    worker: str
    claimed_at: datetime
    ended_at: datetime
    outcome: str
    """The kind of the event that ended it."""
    reason: str
    error: Failure | None

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON: times as text."""
        return _for_json(self)


class Traceback(msgspec.Struct, frozen=True, kw_only=True):
    """The exception that ended one lease of a job."""

    lease_seq: int
    """Of the entry in the job's history."""
    class_path: str
    """`shop.errors.Declined`; of Python's own exceptions the name alone."""
    message: str
    text: str
    """As Python shows it, at most 16 KiB: what is too much was cut out of its middle."""

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return _for_json(self)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stood when it was read."""

    id: str
    tenant: str
    queue: str
    job_type: str
    state: State
    status: Status
    """What it is shown as: the state, with pending told apart as scheduled, ready, retrying or expired."""
    attempt: int
    max_attempts: int
    priority: int
    enqueued_at: datetime
    run_at: datetime
    finished_at: datetime | None
    payload: Any
    """The arguments, by name; None if the payload can't be decoded here."""
    labels: dict[str, str]
    key: str | None
    group: str | None
    worker: str | None
    lease_until: datetime | None
    progress: Progress | None
    reason: str | None
    last_error: Failure | None
    history: tuple[Attempt, ...]
    """The last leases that ended, oldest first."""
    parents: tuple[str, ...]
    cancel_requested: bool
    gates: tuple[Gate, ...]
    """What holds it back, if `explain` was asked for."""
    dead_letter: Disposition | None
    replay_of: str | None
    replayed_as: str | None
    tracebacks: tuple[Traceback, ...]
    """Of the last failed attempts, oldest first, if they were asked for. Those that were lost, or died, have none."""

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON, for an endpoint's answer say: times as text, progress, error, history and
        tracebacks as objects.
        """
        return _for_json(self)


def _for_json(value: msgspec.Struct) -> dict[str, Any]:
    fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
    return {name: msgspec.to_builtins(_plain(field)) for name, field in fields}


def _plain(value: Any) -> Any:
    """Values of our own as objects: left to themselves the stored ones become lists."""
    if isinstance(value, Attempt | Failure | Progress | Traceback):
        return value.to_dict()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


class CancelResult(msgspec.Struct, frozen=True):
    """What a cancel came to. True when the job is cancelled, or was asked to stop."""

    cancelled: bool
    was_running: bool
    state: State
    """The state it is in now; `running` when it was only asked to stop."""

    def __bool__(self) -> bool:
        return self.cancelled or self.state is State.RUNNING


CancelMode = Literal["now", "request"]


class Handle(msgspec.Struct, Generic[R], eq=False, gc=False):
    """A job that was enqueued, or is known by its id."""

    _home: "Surface"
    id: str
    _definition: "Definition[Any, R] | None" = None
    created: bool = True
    """False: the key was taken, and this is the job that holds it."""

    @property
    def tenant(self) -> str:
        return self._home.tenant_name

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.tenant}>"

    async def get(self, *, explain: bool = False, tracebacks: bool = False) -> Job:
        """The job as it stands. Raises `JobNotFound` for one that isn't there (any more)."""
        return await self._home.get(self.id, explain=explain, tracebacks=tracebacks)

    async def cancel(self, mode: CancelMode = "now") -> CancelResult:
        """Calls the job off; a running handler is told. `mode="request"` only asks a running one."""
        return await self._home.cancel(self.id, mode=mode)

    async def result(self, timeout: Seconds | None = None) -> R:
        """Waits until the job has ended, and gives its result.

        Raises `JobFailed`, `JobCancelled`, `ResultGone`, or `ResultTimeout`; a time-out doesn't cancel the job, and
        one of 0 looks once.
        """
        seconds = None if timeout is None else milliseconds("timeout", timeout) / 1_000
        try:
            async with asyncio.timeout(seconds or None):
                view = await self._ended(once=seconds == 0)
        except TimeoutError:
            raise ResultTimeout(f"job {self.id} hasn't ended after {seconds} s; it goes on") from None
        return await self._result_of(view)

    async def _ended(self, *, once: bool) -> JobView:
        """Subscribes, reads, then waits for a hint or the next look: a hint may be lost, the record isn't."""
        store, ref = await self._home.store(), (self.tenant, self.id)
        wait, longest = POLL_SECONDS
        while True:
            hint = asyncio.create_task(_hint(store, job_topic(ref), wait))
            try:
                await asyncio.sleep(0)
                view = await self._home.view(self.id)
                if view.job.state.terminal:
                    return view
                if once:
                    raise TimeoutError
                await hint
            finally:
                hint.cancel()
                await asyncio.wait([hint])
            wait = min(2 * wait, longest)

    async def _result_of(self, view: JobView) -> R:
        job = view.job
        if job.state is State.CANCELLED:
            raise JobCancelled()
        if job.state is State.FAILED:
            raise JobFailed(self.id, job.reason or "error", job.last_error)
        definition = self._definition or self._home.app.definitions.get(job.spec.job_type)
        type_ = Any if definition is None else definition.signature.result_type
        view = await with_result(self._home.app, view)
        if view.result is not None:
            codec = self._home.app.codecs.get(view.result.codec)
            try:
                value: R = codec.decode(view.result.body, type_)
            except InvalidValue as error:
                text = f"the result of job {self.id} ({job.spec.job_type}) can't be read here: {of_result(error)}"
                raise InvalidValue(text) from error
            return value
        if type_ is NoneType or (definition is None and await self._gives_nothing(job.spec.job_type)):
            return cast(R, None)
        kept = f"its result was kept for {job.spec.result_ttl / 1_000:g} s" if job.spec.result_ttl else "it keeps none"
        raise ResultGone(f"job {self.id} succeeded, but there is no result: {kept} (result_ttl)")

    async def _gives_nothing(self, job_type: str) -> bool:
        """Whether the workers say that a job type we don't have the code of never has a result."""
        from tenure.engine.job_types import published

        card = await published(await self._home.store(), job_type)
        return card is not None and card.result == {"type": "null"}

    @property
    def sync(self) -> "SyncHandle[R]":
        """The same from code without an event loop."""
        from tenure.engine.sync import SyncHandle

        return SyncHandle(self)


class CarriedHandle(Handle[R]):
    """A job that will be enqueued with the success of the one that made it. Awaiting it gives it back."""

    def __await__(self) -> Generator[Any, None, Handle[R]]:
        yield from ()
        return self


async def _hint(store: Store, topic: str, seconds: float) -> None:
    """Until something is heard or the time is up. Where no hints can be had, the time alone counts."""
    try:
        await store.wait([topic], seconds)
    except StoreError:
        await asyncio.sleep(seconds)


def job_of(view: JobView, payload: Any) -> Job:
    """What a user sees of a record."""
    job, spec = view.job, view.job.spec
    return Job(
        id=spec.id,
        tenant=spec.tenant,
        queue=spec.queue,
        job_type=spec.job_type,
        state=job.state,
        status=view.status,
        attempt=job.attempt,
        max_attempts=spec.max_attempts,
        priority=job.priority,
        enqueued_at=time_of(spec.enqueued_at),
        run_at=time_of(job.run_at),
        finished_at=None if job.finished_at is None else time_of(job.finished_at),
        payload=payload,
        labels=spec.labels,
        key=spec.key,
        group=spec.group,
        worker=None if job.lease is None else job.lease.worker,
        lease_until=None if job.lease is None else time_of(job.lease.until),
        progress=job.progress,
        reason=job.reason,
        last_error=job.last_error,
        history=tuple(map(_attempt_of, job.history)),
        parents=tuple(parent.id for parent in spec.parents),
        cancel_requested=job.cancel_requested,
        gates=view.gates,
        dead_letter=view.dead_letter,
        replay_of=spec.replay_of,
        replayed_as=view.replayed_as,
        tracebacks=tuple(
            Traceback(lease_seq=lease_seq, class_path=one.class_path, message=one.message, text=one.text)
            for lease_seq, one in view.tracebacks
        ),
    )


def _attempt_of(lease: StoredAttempt) -> Attempt:
    return Attempt(
        attempt=lease.attempt,
        lease_seq=lease.lease_seq,
        worker=lease.worker,
        claimed_at=time_of(lease.claimed_at),
        ended_at=time_of(lease.ended_at),
        outcome=lease.outcome,
        reason=lease.reason,
        error=lease.error,
    )


def time_of(ms: Ms) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def cancel_result(reply: object) -> CancelResult:
    """A store's answer to a cancel, as a user sees it."""
    match reply:
        case Cancelled(was_running=was_running):
            return CancelResult(True, was_running, State.CANCELLED)
        case CancelRequested():
            return CancelResult(False, True, State.RUNNING)
        case JobFinished(state=state):
            return CancelResult(False, False, State(state))
        case JobCancelled():
            return CancelResult(False, False, State.CANCELLED)
        case Refused():
            raise reply
    raise AssertionError(f"a cancel answered {reply!r}")
