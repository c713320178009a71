"""A store to run commands against, from outside the command line."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from tenure import Job, Tenure
from tenure.domain.calls import Claim, Claimed, ClaimedJob, Fail, Retry, Settle
from tenure.domain.job import Failure
from tenure.service.cli.main import main
from tests.cli.handlers import jobs

T = TypeVar("T")

UNKNOWN = "00000000-0000-7000-8000-000000000000"


class Ran(msgspec.Struct, frozen=True):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Cli:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *argv: str) -> Ran:
        self._capsys.readouterr()
        code = main(list(argv))
        printed = self._capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    def done(self, *argv: str) -> Ran:
        """The same; it must have worked."""
        ran = self(*argv)
        assert ran.code == 0, ran
        return ran

    def json(self, *argv: str) -> Any:
        """What it printed with --json."""
        return self.done(*argv, "--json").document


class Shop:
    """A store with jobs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def use(self, what: Callable[[Tenure], Awaitable[T]]) -> T:
        """Runs something on an app of its own."""

        async def run() -> T:
            app = Tenure(self.url)
            app.include(jobs)
            async with app:
                return await what(app)

        return asyncio.run(run())

    def enqueue(self, count: int = 1, job_type: str = "send", *, tenant: str = "default", **options: Any) -> list[str]:
        """Ids of new jobs; `send` unless another type is named."""
        payload = {"to": "a@b.example"} if job_type == "send" else {}

        async def enqueue(app: Tenure) -> list[str]:
            home = app.tenant(tenant)
            return [(await home.send(job_type, payload, **options)).id for _ in range(count)]

        return self.use(enqueue)

    def claim(self, count: int = 1) -> list[ClaimedJob]:
        """Leaves jobs of the default tenant running, in the hands of a worker that only claims."""
        request = Claim(
            claim_id=os.urandom(16),
            worker="north",
            queues=(("mail", None),),
            n=count,
            ttl=3_600_000,
            tenants=("default",),
        )

        async def claim(app: Tenure) -> list[ClaimedJob]:
            claimed = await (await app.store()).claim(request)
            assert isinstance(claimed, Claimed)
            assert len(claimed.jobs) == count
            return list(claimed.jobs)

        return self.use(claim)

    def fail(self, count: int = 1, message: str = "no stamp", **options: Any) -> list[str]:
        """Ids of jobs with a dead letter."""
        ids = self.enqueue(count, **options)
        self.settle(self.claim(count), Fail(Failure("Refused", message)))
        return ids

    def settle(self, claimed: list[ClaimedJob], outcome: Fail | Retry) -> None:
        async def settle(app: Tenure) -> None:
            await (await app.store()).settle([Settle(one.token, outcome) for one in claimed])

        self.use(settle)

    def work(self) -> None:
        """Runs everything that waits."""

        async def work(app: Tenure) -> None:
            async with app.worker() as worker:
                await worker.idle()

        self.use(work)

    def get(self, id: str, tenant: str = "default") -> Job:
        return self.use(lambda app: app.tenant(tenant).get(id, explain=True))

    def states(self, ids: list[str]) -> list[str]:
        return [self.get(id).state.value for id in ids]
