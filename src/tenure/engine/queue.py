"""Configuring queues and tenants. What is written lives in the store and holds for every worker at once."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, Unpack

import msgspec

from tenure.domain import names
from tenure.domain.calls import Document
from tenure.domain.config import QUEUE, TENANT, QueueConfig, TenantConfig
from tenure.domain.errors import InvalidValue, Refused, VersionConflict
from tenure.domain.states import Mode
from tenure.domain.store import Store
from tenure.engine.durations import Seconds, milliseconds, rate
from tenure.engine.options import check_names

C = TypeVar("C", QueueConfig, TenantConfig)


class QueueOptions(TypedDict, total=False):
    """What `queue.configure()` takes; None takes a setting back. Durations in seconds, rates as '100/s'."""

    mode: Literal["plain", "keyed"] | None
    """'keyed': each job has a group, and groups take turns. It changes while the queue is empty only."""
    ordered: bool | None
    """One job of a group at a time, in the order of arrival."""
    group_limit: int | None
    """Jobs of one group at once, over all workers."""
    group_limits: Mapping[str, int] | None
    """The same for single groups, by name."""
    group_rate: str | None
    """Jobs of one group that may start in a time."""
    group_burst: int | None
    """How many of them may start together."""
    limit: int | None
    """Jobs at once, over all workers."""
    rate: str | None
    """Jobs that may start in a time, as in '100/s'."""
    burst: int | None
    """How many of them may start together."""
    weight: int | None
    """Its share among the tenant's queues, from 1 to 16."""
    max_depth: int | None
    """Waiting jobs at most; a producer's next one is refused with `QueueFull`."""
    lease: Seconds | None
    """How long a worker may be silent before its jobs of this queue go to others, unless the job says."""
    grace: Seconds | None
    """How long after that the store still accepts the worker's answer, unless the job says."""


class Configured:
    """One document that configures something, changed field by field and never over someone else's change."""

    def __init__(self, store: Callable[[], Awaitable[Store]], tenant: str, kind: str, name: str) -> None:
        self._store = store
        self._tenant = tenant
        self._kind = kind
        self._name = name

    async def read(self, type: type[C]) -> C:
        body, _ = await self._stored()
        return type() if body is None else msgspec.json.decode(body, type=type)

    async def change(self, type: type[C], fields: Mapping[str, Any]) -> None:
        store = await self._store()
        while True:
            body, version = await self._stored()
            now = type() if body is None else msgspec.json.decode(body, type=type)
            then = msgspec.structs.replace(now, **fields)
            document = Document(tenant=self._tenant, kind=self._kind, name=self._name, body=msgspec.json.encode(then))
            reply = await store.put_document(document, expect=version)
            if not isinstance(reply, Refused):
                return
            if not isinstance(reply, VersionConflict):
                raise reply

    async def _stored(self) -> tuple[bytes | None, int]:
        documents = await (await self._store()).list_documents(self._tenant, self._kind, prefix=self._name)
        found = next((one for one in documents if one.name == self._name), None)
        return (None, 0) if found is None else (found.body, found.version)


class Queue:
    """A queue, of one tenant or of every tenant that has nothing of its own set."""

    def __init__(self, store: Callable[[], Awaitable[Store]], tenant: str, name: str) -> None:
        self.name = names.name("queue", name)
        self._document = Configured(store, tenant, QUEUE, name)

    async def configure(self, **options: Unpack[QueueOptions]) -> None:
        """Sets what is given and leaves the rest."""
        check_names(options, frozenset(QueueOptions.__annotations__), "configure()")
        await self._document.change(QueueConfig, {name: _stored(name, value) for name, value in options.items()})

    async def config(self) -> QueueConfig:
        """What is set here; durations in milliseconds."""
        return await self._document.read(QueueConfig)

    async def pause(self) -> None:
        """No job of this queue is claimed until `resume`; running ones go on."""
        await self._document.change(QueueConfig, {"paused": True})

    async def resume(self) -> None:
        await self._document.change(QueueConfig, {"paused": None})


def _stored(name: str, value: Any) -> Any:
    if value is None:
        return None
    match name:
        case "mode":
            return _mode(value)
        case "rate" | "group_rate":
            return rate(name, value)
        case "lease" | "grace":
            return milliseconds(name, value)
        case "group_limits":
            if not isinstance(value, Mapping):
                raise InvalidValue(f"group_limits {value!r:.80}: give groups with their limits")
            return dict(value)
    return value


def _mode(value: Any) -> Mode:
    try:
        return Mode(value)
    except ValueError:
        raise InvalidValue(f"mode {value!r:.80}: give 'plain' or 'keyed'") from None


class TenantSettings:
    """A tenant's own configuration."""

    def __init__(self, store: Callable[[], Awaitable[Store]], tenant: str) -> None:
        self._document = Configured(store, tenant, TENANT, tenant)

    async def change(self, **fields: Any) -> None:
        await self._document.change(TenantConfig, fields)

    async def read(self) -> TenantConfig:
        return await self._document.read(TenantConfig)
