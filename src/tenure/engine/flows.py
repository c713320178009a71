"""Flows: jobs that wait for jobs, enqueued all together or not at all."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from tenure.domain import names
from tenure.domain.calls import Cancel, Cancelled, Enqueued, JobView
from tenure.domain.errors import (
    EnqueueFailed,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobNotFound,
    KeyHeld,
    Refused,
)
from tenure.domain.job import NewJob, Parent
from tenure.domain.states import OnParentFailure
from tenure.engine.bodies import to_enqueue
from tenure.engine.definition import Call, checked
from tenure.engine.handle import Handle
from tenure.engine.transactions import refuse_connection

if TYPE_CHECKING:
    from tenure.engine.surface import Surface
    from tenure.engine.sync import SyncParents

R = TypeVar("R")
T = TypeVar("T")

MOST_JOBS = names.MAX_BATCH
"""Jobs of one flow."""

Policy = Literal["cancel", "fail", "ignore"]
"""What becomes of a job when one that it waits for doesn't succeed: it is cancelled, it fails, or it runs anyway."""


class Flow:
    """Jobs of one tenant and what they wait for: `add` them, then `enqueue` the whole.

    `add` checks a job and makes its id. Its handle can be waited for once the flow is enqueued.
    """

    def __init__(self, home: "Surface") -> None:
        self._home = home
        self._jobs: dict[str, NewJob] = {}
        self._handles: list[Handle[Any]] = []

    def __repr__(self) -> str:
        return f"<flow of {len(self._jobs)} jobs>"

    @property
    def handles(self) -> list[Handle[Any]]:
        """Its jobs, in the order they were added."""
        return list(self._handles)

    def add(
        self, call: Call[R], *, after: Sequence[Handle[Any]] = (), on_parent_failure: Policy = "cancel"
    ) -> Handle[R]:
        """A job that runs once those of `after` have succeeded: jobs of this flow, or ones that exist already."""
        tenant = self._home.tenant_name
        after = _handles(call, after)
        foreign = {checked(call).options.get("tenant", tenant), *(parent.tenant for parent in after)} - {tenant}
        if foreign:
            raise InvalidValue(f"a flow of tenant {tenant} can't hold or wait for a job of {min(foreign)}")
        if len(self._jobs) == MOST_JOBS:
            raise InvalidValue(f"a flow has at most {MOST_JOBS} jobs: enqueue this one and let another wait for it")
        policy = _policy(on_parent_failure)
        parents = tuple(Parent(parent.id, policy) for parent in after)
        refuse_connection(call.options, "a flow")
        job = call.new_job(self._home.app, tenant, parents=parents)
        if job.id in self._jobs:
            raise InvalidValue(f"id {job.id}: a job of this flow has it already")
        handle = Handle(self._home, job.id, call.definition)
        self._jobs[job.id] = job
        self._handles.append(handle)
        return handle

    def chain(
        self, *calls: Call[Any], after: Sequence[Handle[Any]] = (), on_parent_failure: Policy = "cancel"
    ) -> list[Handle[Any]]:
        """Jobs one after the other, the first after `after`."""
        handles: list[Handle[Any]] = []
        for call in calls:
            handles.append(self.add(call, after=handles[-1:] or after, on_parent_failure=on_parent_failure))
        return handles

    @overload
    def group(
        self, calls: Sequence[Call[R]], *, after: Sequence[Handle[Any]] = (), on_parent_failure: Policy = "cancel"
    ) -> list[Handle[R]]: ...
    @overload
    def group(
        self,
        calls: Sequence[Call[Any]],
        *,
        then: Call[T],
        after: Sequence[Handle[Any]] = (),
        on_parent_failure: Policy = "cancel",
    ) -> Handle[T]: ...
    def group(
        self,
        calls: Sequence[Call[Any]],
        *,
        then: Call[Any] | None = None,
        after: Sequence[Handle[Any]] = (),
        on_parent_failure: Policy = "cancel",
    ) -> list[Handle[Any]] | Handle[Any]:
        """Jobs beside each other, all after `after`; `then` runs when all have ended, and its handle is the answer."""
        handles = [self.add(call, after=after, on_parent_failure=on_parent_failure) for call in calls]
        if then is None:
            return handles
        return self.add(then, after=handles or after, on_parent_failure=on_parent_failure)

    async def enqueue(self) -> list[Handle[Any]]:
        """Puts all its jobs in; they are durable when this returns. Asked again it does nothing more.

        Raises `EnqueueFailed` with every job's reason when one isn't taken; then none is in.
        """
        if not self._jobs:
            return []
        replies = await (await self._home.app.enqueuer()).atomic(
            await to_enqueue(self._home.app, list(self._jobs.values()))
        )
        reasons = [_reason(reply) for reply in replies]
        if any(reason is not None for reason in reasons):
            raise EnqueueFailed(reasons)
        return self.handles

    async def cancel(self) -> int:
        """Calls off every job that hasn't ended; how many it was. The last come first, so that none is unblocked."""
        if not self._jobs:
            return 0
        tenant, store = self._home.tenant_name, await self._home.store()
        replies = await store.command([Cancel(tenant=tenant, id=id) for id in reversed(self._jobs)])
        for reply in replies:
            if isinstance(reply, Refused) and not isinstance(reply, JobFinished | JobCancelled | JobNotFound):
                raise reply
        return sum(1 for reply in replies if isinstance(reply, Cancelled))


def _handles(call: Call[Any], after: Any) -> list[Handle[Any]]:
    """What a job waits for; anything but handles is refused."""
    given = list(after) if isinstance(after, Iterable) and not isinstance(after, str) else None
    if given is None or not all(isinstance(one, Handle) for one in given):
        raise InvalidValue(
            f"job {checked(call).definition.name}: after {after!r:.80}: give a list of handles, as flow.add() answers "
            "them; app.handle(id) is one of a job that exists already"
        )
    return given


def _policy(value: str) -> OnParentFailure:
    try:
        return OnParentFailure(value)
    except ValueError:
        raise InvalidValue(f"on_parent_failure {value!r:.80}: give one of {', '.join(OnParentFailure)}") from None


def _reason(reply: Enqueued | Refused) -> Refused | None:
    """Why a job of a flow wasn't created. A key that is taken is a reason here: a flow needs its own jobs."""
    if isinstance(reply, Refused):
        return reply
    return None if reply.created else KeyHeld(reply.id)


_RAISE = object()


class Parents:
    """The jobs that this one waited for, in the order of `after`: `await ctx.parents.results()`.

    Their results are kept until this job has ended.
    """

    def __init__(self, home: "Surface", ids: tuple[str, ...]) -> None:
        self._home = home
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Handle[Any]]:
        return (self._home.handle(id) for id in self.ids)

    async def results(self, *, missing: Any = _RAISE) -> list[Any]:
        """What each gave back. One that failed or was cancelled raises `JobFailed` or `JobCancelled`; with `missing`
        given, that stands in its place."""
        if not self.ids:
            return []
        store, tenant = await self._home.store(), self._home.tenant_name
        views = await store.get([(tenant, id) for id in self.ids])
        return [await self._result(id, view, missing) for id, view in zip(self.ids, views, strict=True)]

    async def get(self, index: int) -> Any:
        """What one of them gave back. Raises `JobFailed` or `JobCancelled`."""
        id = self.ids[index]
        return await self._result(id, await self._home.view(id), _RAISE)

    async def _result(self, id: str, view: JobView | Refused, missing: Any) -> Any:
        if isinstance(view, Refused):
            raise view
        try:
            return await self._home.handle(id)._result_of(view)
        except (JobFailed, JobCancelled):
            if missing is _RAISE:
                raise
            return missing

    @property
    def sync(self) -> "SyncParents":
        """The same from a plain function."""
        from tenure.engine.sync import SyncParents

        return SyncParents(self)
