"""A history: what clients asked of a store and what they were told, one JSON object a line.

Each call gives two entries: `invoke` when it was sent, then `ok`, `refused` (the whole call) or `unknown` (an
exception: it may or may not have taken effect). A client that died left an invoke alone, which also means unknown.
Entries of other kinds tell what the test did: `clock`, `crash`, `heal`, `end`. Payloads, results, tracebacks and
secrets appear as hashes only.
"""

import hashlib
import heapq
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from tenure.domain.calls import (
    AnyCommand,
    Claim,
    Claimed,
    ClaimedJob,
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
    Swept,
)
from tenure.domain.config import QUEUE, TENANT
from tenure.domain.errors import Refused
from tenure.domain.event import Event
from tenure.domain.job import Job, NewJob, Parent, Ref, Result, Token, Traceback
from tenure.domain.names import Ms
from tenure.domain.store import Capabilities, Clock, Store

Body = dict[str, Any]
T = TypeVar("T")

Phase = Literal["invoke", "ok", "refused", "unknown"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a history. `(process, call)` pairs an invoke with its completion."""

    call: int
    process: str
    at: Ms
    """The client's clock."""
    phase: Phase
    verb: str
    body: Body = {}


Sink = Callable[[Entry], None]


# Files


class JsonLines:
    """A sink that appends to a file, a line at a time, so that a killed writer tears its last line at most."""

    def __init__(self, path: Path | str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encode = msgspec.json.Encoder().encode
        if _torn(Path(path)):
            os.write(self._file, b"\n")

    def __call__(self, entry: Entry) -> None:
        line = self._encode(entry) + b"\n"
        while line:
            line = line[os.write(self._file, line) :]

    def close(self) -> None:
        os.close(self._file)


def _torn(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def read_history(path: Path | str) -> Iterator[Entry]:
    """The entries of one file in order; lines torn by a kill are left out."""
    decode = msgspec.json.Decoder(Entry).decode
    with Path(path).open("rb") as file:
        for line in file:
            try:
                yield decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue


def merge_histories(paths: Iterable[Path | str]) -> Iterator[Entry]:
    """Several clients' files as one history, by the clients' clock."""
    return heapq.merge(*(read_history(path) for path in paths), key=lambda entry: entry.at)


# Values as plain JSON


def hashed(body: bytes) -> Body:
    """A body as histories show it."""
    return {"sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}


def secret(value: bytes) -> str:
    """A claim id or a token's secret as histories show it."""
    return hashlib.sha256(value).hexdigest()[:32]


def plain(value: Any) -> Any:
    """Any value of the domain as builtins: structs by field name with their type's name, bodies hashed."""
    match value:
        case Parent():
            return {"id": value.id, "on_failure": value.on_failure.value}
        case Token():
            return {
                "tenant": value.tenant,
                "job_id": value.job_id,
                "lease_seq": value.lease_seq,
                "secret": secret(value.secret),
            }
        case Job():
            return _job(value)
        case ClaimedJob():
            return {
                **_job(value.job),
                "payload": hashed(value.payload),
                "epoch": value.epoch,
                "token": plain(value.token),
            }
        case Event():
            fields = msgspec.to_builtins(value)
            return {**fields, "parents": list(value.parents)} if value.parents is not None else fields
        case Result():
            return _result(value)
        case Traceback():
            return hashed(msgspec.msgpack.encode(value))
        case Document():
            return _document(value)
        case Claim():
            return {**_fields(value), "claim_id": secret(value.claim_id), "cursor": list(_cursor(value))}
        case Claimed():
            return {**_fields(value), "cursor": list(_cursor(value))}
        case Refused():
            return {"refused": type(value).__name__, "args": list(value.args)}
        case bytes():
            return hashed(value)
        case msgspec.Struct():
            return _fields(value)
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case str() if type(value) is not str:
            return str(value.value) if hasattr(value, "value") else str(value)
    return value


def _cursor(value: Claim | Claimed) -> tuple[str, int, int]:
    return value.cursor.tenant, value.cursor.used, value.cursor.round


def _fields(value: msgspec.Struct) -> Body:
    fields: Body = {"type": type(value).__name__}
    tag = getattr(value, "tag", None)
    if tag is not None:
        fields["tag"] = tag
    for field in value.__struct_fields__:
        fields[field] = plain(getattr(value, field))
    return fields


_OF_SPEC = [
    "tenant",
    "id",
    "queue",
    "job_type",
    "codec",
    "payload_size",
    "enqueued_at",
    "max_attempts",
    "timeout",
    "result_ttl",
    "key",
    "unique",
    "unique_for",
    "group",
    "labels",
    "expires_at",
    "parents",
    "replay_of",
    "root_id",
]
_OF_JOB = [
    "state",
    "version",
    "priority",
    "run_at",
    "updated_at",
    "attempt",
    "lease_seq",
    "cancel_requested",
    "finished_at",
    "reason",
    "progress",
    "last_error",
    "releases",
    "history",
    "settled",
]


def _job(job: Job) -> Body:
    """A record, flat. `seq` is left out: it is never shown."""
    record: Body = {field: plain(getattr(job.spec, field)) for field in _OF_SPEC}
    for field in _OF_JOB:
        record[field] = plain(getattr(job, field))
    record["lease"] = None if job.lease is None else _fields(job.lease)
    return record


def _document(document: Document) -> Body:
    """Only what configures the store is shown in full; other documents may hold secrets."""
    body: Any = None
    if document.body is not None:
        shown = document.kind in (QUEUE, TENANT)
        body = document.body.decode(errors="replace") if shown else hashed(document.body)
    return {
        "tenant": document.tenant,
        "kind": document.kind,
        "name": document.name,
        "body": body,
        "version": document.version,
        "expires_at": document.expires_at,
    }


def _view(view: JobView) -> Body:
    return {
        "type": "JobView",
        **_job(view.job),
        "status": view.status.value,
        "payload": hashed(view.payload),
        "result": None if view.result is None else _result(view.result),
        "gates": [gate.value for gate in view.gates],
        "dead_letter": plain(view.dead_letter),
        "replayed_as": view.replayed_as,
        "tracebacks": plain(view.tracebacks),
    }


def _result(result: Result) -> Body:
    return {"body": hashed(result.body), "codec": result.codec, "expires_at": result.expires_at}


def _views(replies: Sequence[JobView | Refused]) -> list[Body]:
    return [_view(reply) if isinstance(reply, JobView) else plain(reply) for reply in replies]


def _one(reply: Any) -> Body:
    return {"reply": plain(reply)}


def _many(replies: Any) -> Body:
    return {"replies": plain(replies)}


# The recorder


class RecordingStore:
    """A store that tells a sink about every call before it passes the call on, and about every answer after."""

    def __init__(self, store: Store, sink: Sink, process: str, clock: Clock) -> None:
        self.store = store
        self._sink = sink
        self._process = process
        self._clock = clock
        self._calls = 0

    def note(self, verb: str, **body: Any) -> None:
        """Records what the test did itself: `clock`, `crash`, `heal`, `end`."""
        self._calls += 1
        self._write(self._calls, "ok", verb, body)

    def _write(self, call: int, phase: Phase, verb: str, body: Body) -> None:
        self._sink(Entry(call=call, process=self._process, at=self._clock(), phase=phase, verb=verb, body=body))

    async def _record(
        self, verb: str, asked: Body, calling: Callable[[], Awaitable[T]], shown: Callable[[T], Body]
    ) -> T:
        self._calls += 1
        call = self._calls
        self._write(call, "invoke", verb, asked)
        try:
            reply = await calling()
        except BaseException as error:
            self._write(call, "unknown", verb, {"error": type(error).__name__})
            raise
        if isinstance(reply, Refused):
            self._write(call, "refused", verb, plain(reply))
        else:
            self._write(call, "ok", verb, shown(reply))
        return reply

    @property
    def capabilities(self) -> Capabilities:
        return self.store.capabilities

    async def migrate(self) -> int:
        return await self._record("migrate", {}, self.store.migrate, _one)

    async def close(self) -> None:
        await self._record("close", {}, self.store.close, lambda _: {})

    async def enqueue(
        self, jobs: Sequence[NewJob], *, atomic: bool = False, patient: bool = True
    ) -> list[Enqueued | Refused]:
        asked = {"jobs": plain(list(jobs)), "atomic": atomic}
        hasty: dict[str, bool] = {} if patient else {"patient": False}
        return await self._record("enqueue", asked, lambda: self.store.enqueue(jobs, atomic=atomic, **hasty), _many)

    async def claim(self, request: Claim) -> Claimed | Refused:
        return await self._record("claim", {"claim": plain(request)}, lambda: self.store.claim(request), _one)

    async def renew(self, renewals: Sequence[Renewal]) -> list[Renewed | Refused]:
        asked = {"renewals": plain(list(renewals))}
        return await self._record("renew", asked, lambda: self.store.renew(renewals), _many)

    async def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        asked = {"settlements": plain(list(settlements))}
        return await self._record("settle", asked, lambda: self.store.settle(settlements), _many)

    async def exchange(self, settlements: Sequence[Settle], request: Claim) -> Exchanged:
        asked = {"settlements": plain(list(settlements)), "claim": plain(request)}
        return await self._record("exchange", asked, lambda: self.store.exchange(settlements, request), _fields)

    async def command(self, commands: Sequence[AnyCommand]) -> list[CommandReply | Refused]:
        asked = {"commands": plain(list(commands))}
        return await self._record("command", asked, lambda: self.store.command(commands), _many)

    async def sweep(self, interval: Ms, limit: int = 500, hold: Ms | None = None) -> Swept | Refused:
        asked = {"interval": interval, "limit": limit, "hold": hold}
        return await self._record("sweep", asked, lambda: self.store.sweep(interval, limit, hold), _one)

    async def purge(self, retention: Retention = Retention()) -> Purged | Refused | None:  # noqa: B008 frozen
        return await self._record("purge", _fields(retention), lambda: self.store.purge(retention), _one)

    async def get(self, refs: Sequence[Ref], reading: Reading = Reading()) -> list[JobView | Refused]:  # noqa: B008 frozen
        asked = {"refs": [list(ref) for ref in refs], "explain": reading.explain, "tracebacks": reading.tracebacks}
        return await self._record(
            "get", asked, lambda: self.store.get(refs, reading), lambda views: {"replies": _views(views)}
        )

    async def query(self, where: JobFilter, *, after: str | None = None, limit: int = 100) -> JobPage:
        asked = {"where": _fields(where), "after": after, "limit": limit}
        return await self._record(
            "query",
            asked,
            lambda: self.store.query(where, after=after, limit=limit),
            lambda page: {"replies": _views(page.jobs), "cursor": page.cursor},
        )

    async def events(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1_000
    ) -> EventPage | Refused:
        asked = {"tenant": tenant, "after": after, "limit": limit}
        return await self._record(
            "events", asked, lambda: self.store.events(tenant=tenant, after=after, limit=limit), _one
        )

    async def wait(self, topics: Collection[str], timeout_seconds: float) -> bool:
        """Not recorded: hints prove nothing."""
        return await self.store.wait(topics, timeout_seconds)

    async def put_document(
        self, document: Document, *, expect: int | None = None, ttl: Ms | None = None
    ) -> Stored | Refused:
        asked = {"document": plain(document), "expect": expect, "ttl": ttl}
        return await self._record(
            "put_document", asked, lambda: self.store.put_document(document, expect=expect, ttl=ttl), _one
        )

    async def list_documents(self, tenant: str, kind: str, *, prefix: str = "") -> list[Document]:
        asked = {"tenant": tenant, "kind": kind, "prefix": prefix}
        return await self._record(
            "list_documents", asked, lambda: self.store.list_documents(tenant, kind, prefix=prefix), _many
        )

    async def freeze(self) -> Epoch:
        return await self._record("freeze", {}, self.store.freeze, _one)

    async def thaw(self) -> Epoch | Refused:
        return await self._record("thaw", {}, self.store.thaw, _one)

    async def dump(self, *, after: str | None = None, limit: int = 1_000) -> DumpPage | Refused:
        asked = {"after": after, "limit": limit}
        return await self._record(
            "dump",
            asked,
            lambda: self.store.dump(after=after, limit=limit),
            lambda page: {"items": len(page.items), "cursor": page.cursor} if isinstance(page, DumpPage) else {},
        )

    async def load(self, items: Sequence[DumpItem]) -> int | Refused:
        return await self._record("load", {"items": len(items)}, lambda: self.store.load(items), _one)
