"""A sandbox for tests of code that enqueues: the user's own app on a store in memory, with time that stands still.

def test_signup(tenure_sandbox):
    sign_up("a@b.example")
    tenure_sandbox.assert_enqueued(send_email, to="a@b.example")
    tenure_sandbox.drain()
    tenure_sandbox.advance(3600)
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tenure.domain.errors import InvalidValue, NotReady
from tenure.engine.app import Tenure
from tenure.engine.declared import Declarations
from tenure.engine.definition import Definition
from tenure.engine.durations import Seconds, milliseconds
from tenure.engine.handle import Job
from tenure.engine.sync import PORTAL
from tenure.engine.worker.scheduler import Scheduler
from tenure.stores.memory import MemoryStore
from tenure.testing.clock import ManualClock

T = TypeVar("T")


class Sandbox:
    """An app whose jobs stay in memory, and a clock that only the test moves. From plain or async tests."""

    def __init__(self, app: Tenure) -> None:
        self.app = app
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)

    def advance(self, by: Seconds) -> None:
        """Lets time pass: delays, schedules and expiries come due."""
        self.clock.advance(milliseconds("by", by))

    # From async tests

    async def jobs_async(self, tenant: str | None = None, **where: Any) -> list[Job]:
        """The jobs there are, oldest first; of every tenant unless one is named."""
        surface: Any = self.app.fleet if tenant is None else self.app.tenant(tenant)
        found: list[Job] = [job async for job in surface.jobs(**where)]
        return found[::-1]

    async def drain_async(self) -> int:
        """Runs whatever is due, and what that enqueues in turn, on any queue; how many jobs ended."""
        await Declarations(self.app).look()
        await Scheduler(self.store).step()
        before, served = await self._ended(), set[str]()
        while unserved := await self._queues() - served:
            served |= unserved
            async with self.app.worker(sorted(served)) as worker:
                await worker.idle()
        return await self._ended() - before

    async def _queues(self) -> set[str]:
        return {job.queue for job in await self.jobs_async()}

    async def _ended(self) -> int:
        return len(await self.jobs_async(state=("succeeded", "failed", "cancelled")))

    # From plain tests

    def jobs(self, tenant: str | None = None, **where: Any) -> list[Job]:
        """The jobs there are, oldest first; of every tenant unless one is named."""
        return _run(self.jobs_async(tenant, **where))

    def drain(self) -> int:
        """Runs whatever is due, and what that enqueues in turn, on any queue; how many jobs ended."""
        return _run(self.drain_async())

    def assert_enqueued(self, job: Definition[Any, Any] | str, count: int | None = None, /, **arguments: Any) -> Job:
        """The last job of this type that has these arguments, among others; fails the test when there is none.

        `times=` says how many there must be. To a job with a parameter of that name it is an argument: give the count
        by position.
        """
        return self._checked(self.jobs(job_type=_name(job)), _name(job), count, arguments)

    async def assert_enqueued_async(
        self, job: Definition[Any, Any] | str, count: int | None = None, /, **arguments: Any
    ) -> Job:
        """The same from an async test."""
        return self._checked(await self.jobs_async(job_type=_name(job)), _name(job), count, arguments)

    def assert_nothing_enqueued(self) -> None:
        """Fails the test when there is any job."""
        _none(self.jobs())

    async def assert_nothing_enqueued_async(self) -> None:
        """The same from an async test."""
        _none(await self.jobs_async())

    def _checked(self, found: list[Job], name: str, times: int | None, arguments: dict[str, Any]) -> Job:
        definition = self.app.definitions.get(name)
        if definition is None or "times" not in definition.signature.parameters:
            times = arguments.pop("times", times)
        wanted = Wanted(self.app, name, arguments)
        matching = [job for job in found if wanted.matches(job.payload)]
        if not matching or (times is not None and len(matching) != times):
            there = ", ".join(map(_shown, found[:10])) or "none of that type"
            often = "" if times is None else f" {times} times"
            raise AssertionError(f"{wanted} isn't enqueued{often}; there are: {there}")
        return matching[-1]


class Wanted:
    """The arguments that a test expects of a job.

    They are compared as the handler would get them: encoded and decoded like those of a job that is enqueued, and with
    the handler's defaults for what wasn't sent.
    """

    def __init__(self, app: Tenure, name: str, arguments: dict[str, Any]) -> None:
        self._name = name
        self._arguments = arguments
        self._definition = app.definitions.get(name)
        declared = {} if self._definition is None else self._definition.declared
        self._codec = app.codecs.get(declared.get("codec", "json"))

    def __str__(self) -> str:
        return f"{self._name}({', '.join(f'{key}={value!r}' for key, value in self._arguments.items())})"

    def matches(self, payload: Any) -> bool:
        """Whether a job with this payload has all the arguments, among others."""
        if not isinstance(payload, dict):
            return False
        try:
            there, wanted = self._as_handled(payload), self._as_handled({**payload, **self._arguments})
        except InvalidValue:
            return False  # no handler takes such arguments, so no job has them
        return all(name in there and self._same(there[name], wanted[name]) for name in self._arguments)

    def _as_handled(self, arguments: dict[str, Any]) -> dict[str, Any]:
        body = self._codec.encode(arguments)
        if self._definition is None:
            plain: dict[str, Any] = self._codec.decode(body)
            return plain
        signature = self._definition.signature
        return signature.with_defaults(signature.decode(body, self._codec))

    def _same(self, one: Any, other: Any) -> bool:
        """A type without an equality of its own is compared as it is encoded."""
        codec = self._codec
        return bool(one == other) or codec.decode(codec.encode(one)) == codec.decode(codec.encode(other))


def _none(found: list[Job]) -> None:
    if found:
        raise AssertionError(f"{len(found)} jobs are enqueued: {', '.join(map(_shown, found[:10]))}")


def _name(job: Definition[Any, Any] | str) -> str:
    return job if isinstance(job, str) else job.name


def _shown(job: Job) -> str:
    return f"{job.job_type}({job.payload})"


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return PORTAL.run(work)
    work.close()
    raise NotReady(
        "this test has an event loop: await drain_async(), jobs_async(), assert_enqueued_async(), "
        "assert_nothing_enqueued_async() instead"
    )


@contextmanager
def sandbox(app: Tenure) -> Iterator[Sandbox]:
    """The app in a sandbox for as long as the block lasts; its own store isn't touched."""
    made = Sandbox(app)
    with app.on_store(made.store):
        yield made
