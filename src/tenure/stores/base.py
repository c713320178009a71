"""A store that runs the model: the verbs, once, for every store whose tables the model can read directly."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, cast

from tenure.domain import model, names
from tenure.domain.calls import (
    AnyCommand,
    Claim,
    Claimed,
    CommandReply,
    Document,
    DumpItem,
    DumpPage,
    Enqueued,
    Epoch,
    EventPage,
    Exchanged,
    JobFilter,
    JobPage,
    JobView,
    Purged,
    Reading,
    Renewal,
    Renewed,
    Retention,
    Settle,
    Settled,
    Stored,
    Succeed,
    Swept,
)
from tenure.domain.errors import InvalidValue, Refused
from tenure.domain.job import NewJob, Ref
from tenure.domain.model import Unit, documents, read, transfer
from tenure.domain.names import Ms
from tenure.domain.store import Capabilities
from tenure.stores.hints import Hints
from tenure.stores.ways import Way, Ways

T = TypeVar("T")

Operation = Callable[[Unit], Any]
"""Part of a call: runs on a unit of its own, after the parts before it were kept."""


class ModelStore(ABC):
    """The Store protocol over a model's tables. Subclasses say how a call's parts are run and kept."""

    def __init__(self) -> None:
        self._hints = Hints()
        self.ways = Ways()

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    async def migrate(self) -> int: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def _write(self, *parts: Operation) -> list[Any]:
        """Runs the parts at one instant, in one transaction, each keeping its changes before the next."""

    @abstractmethod
    async def _read(self, part: Callable[[Unit], T]) -> T:
        """Runs a part that changes nothing, on one consistent view."""

    def _claim(self, unit: Unit, request: Claim) -> Claimed | Refused:
        self.ways.took(Way.CLAIM_MODEL)
        return model.claim(unit, request)

    def _settle(self, unit: Unit, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        self.ways.took(Way.SETTLE_MODEL)
        return model.settle(unit, settlements)

    async def enqueue(
        self, jobs: Sequence[NewJob], *, atomic: bool = False, patient: bool = True
    ) -> list[Enqueued | Refused]:
        check_batch("jobs", jobs)
        self.ways.took(Way.ENQUEUE_MODEL)
        (replies,) = await self._write(lambda unit: model.enqueue(unit, jobs, atomic))
        return cast(list[Enqueued | Refused], replies)

    async def claim(self, request: Claim) -> Claimed | Refused:
        (reply,) = await self._write(lambda unit: self._claim(unit, request))
        return cast(Claimed | Refused, reply)

    async def renew(self, renewals: Sequence[Renewal]) -> list[Renewed | Refused]:
        check_batch("renewals", renewals)
        (replies,) = await self._write(lambda unit: model.renew(unit, renewals))
        return cast(list[Renewed | Refused], replies)

    async def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        check_batch("settlements", settlements)
        (replies,) = await self._write(lambda unit: self._settle(unit, settlements))
        return cast(list[Settled | Refused], replies)

    async def exchange(self, settlements: Sequence[Settle], request: Claim) -> Exchanged:
        check_batch("settlements", settlements)
        settled, claimed = await self._write(
            lambda unit: self._settle(unit, settlements), lambda unit: self._claim(unit, request)
        )
        return Exchanged(settled, claimed)

    async def command(self, commands: Sequence[AnyCommand]) -> list[CommandReply | Refused]:
        check_batch("commands", commands)
        (replies,) = await self._write(lambda unit: model.command(unit, commands))
        return cast(list[CommandReply | Refused], replies)

    async def sweep(self, interval: Ms, limit: int = 500, hold: Ms | None = None) -> Swept | Refused:
        names.duration("interval", interval)
        names.integer("limit", limit, 1, 10_000)
        if hold is not None:
            names.duration("hold", hold)
        (reply,) = await self._write(lambda unit: model.sweep(unit, interval, limit, hold))
        return cast(Swept | Refused, reply)

    async def purge(self, retention: Retention = Retention()) -> Purged | Refused | None:  # noqa: B008 frozen
        (reply,) = await self._write(lambda unit: model.purge(unit, retention))
        return cast(Purged | Refused | None, reply)

    async def get(self, refs: Sequence[Ref], reading: Reading = Reading()) -> list[JobView | Refused]:  # noqa: B008 frozen
        check_batch("refs", refs)
        return await self._read(lambda unit: read.get(unit, refs, reading))

    async def query(self, where: JobFilter, *, after: str | None = None, limit: int = 100) -> JobPage:
        names.integer("limit", limit, 1, names.MAX_BATCH)
        return await self._read(lambda unit: read.query(unit, where, after, limit))

    async def events(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1_000
    ) -> EventPage | Refused:
        names.integer("limit", limit, 1, 100_000)
        return await self._read(lambda unit: read.events(unit, tenant, after, limit))

    async def wait(self, topics: Collection[str], timeout_seconds: float) -> bool:
        return await self._hints.wait(topics, timeout_seconds)

    async def put_document(
        self, document: Document, *, expect: int | None = None, ttl: Ms | None = None
    ) -> Stored | Refused:
        (reply,) = await self._write(putting(document, expect, ttl))
        return cast(Stored | Refused, reply)

    async def list_documents(self, tenant: str, kind: str, *, prefix: str = "") -> list[Document]:
        return await self._read(lambda unit: read.documents(unit, tenant, kind, prefix))

    async def freeze(self) -> Epoch:
        (reply,) = await self._write(transfer.freeze)
        return cast(Epoch, reply)

    async def thaw(self) -> Epoch | Refused:
        (reply,) = await self._write(transfer.thaw)
        return cast(Epoch | Refused, reply)

    async def dump(self, *, after: str | None = None, limit: int = 1_000) -> DumpPage | Refused:
        names.integer("limit", limit, 1, 100_000)
        return await self._read(lambda unit: transfer.dump(unit, after, limit))

    async def load(self, items: Sequence[DumpItem]) -> int | Refused:
        (reply,) = await self._write(lambda unit: transfer.load(unit, items))
        return cast(int | Refused, reply)


def check_batch(field: str, items: Sequence[Any]) -> None:
    """Raises `InvalidValue` for a call with too many items."""
    if len(items) > names.MAX_BATCH:
        raise InvalidValue(f"{field}: {len(items)} in one call, at most {names.MAX_BATCH} are allowed")


def putting(document: Document, expect: int | None, ttl: Ms | None) -> Operation:
    """How a document is put; raises `InvalidValue` for what can't be."""
    if expect is not None:
        names.integer("expect", expect, 0, 1 << 53)
    if ttl is not None:
        names.duration("ttl", ttl, 1)
    return lambda unit: documents.put(unit, document, expect, ttl)


def carries_keys(settlements: Sequence[Settle]) -> bool:
    """Whether one of them is a success that enqueues jobs with keys."""
    return any(
        type(one.outcome) is Succeed and any(job.key is not None for job in one.outcome.jobs) for one in settlements
    )
