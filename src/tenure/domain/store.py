"""The Store boundary: about ten verbs in the domain's words, batch-first, one reply per item.

A store knows nothing of handlers, codecs or HTTP. Each mutating call is atomic per item, writes the job's event with
the change, and may be sent again with the same arguments for the same answer. Refusals are values; what is broken
raises a `StoreError`. All times and durations are integer milliseconds.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol

import msgspec

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
    FeedSpan,
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
from tenure.domain.errors import Refused
from tenure.domain.job import NewJob, Ref, Token
from tenure.domain.names import Ms

Clock = Callable[[], Ms]
"""Now, in milliseconds since the Unix epoch. Tests replace it; nothing else may."""


class ClockFloor(StrEnum):
    """What never goes back when the clock does."""

    STORE = "store"
    JOB = "job"


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store can honestly promise; asking for an absent one raises `Unsupported` when configured."""

    name: str
    clock_floor: ClockFloor
    survives_process_crash: bool
    survives_power_loss: bool
    survives_failover: bool
    user_transactions: bool
    multi_process: bool
    multi_host: bool
    exact_depth: bool
    """`max_depth` is never overshot by concurrent producers."""
    snapshot_reads: bool
    """Several readers can share one consistent view."""
    enqueues_ahead: int = 1
    """How many calls of `enqueue`, full ones, an event loop may have on their way at once: they arrive in order."""
    keys_wait: bool = False
    """A key may be held by another's transaction that is still open: whoever enqueues it waits for that one's end."""


class Store(Protocol):
    """What every store does, the same."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def migrate(self) -> int:
        """Brings the store to this code's schema, creating it if absent; answers the schema version."""

    async def close(self) -> None:
        """Lets go of everything; the store may not be used after."""

    async def enqueue(
        self, jobs: Sequence[NewJob], *, atomic: bool = False, patient: bool = True
    ) -> list[Enqueued | Refused]:
        """Puts jobs in, in order, each seeing those before it. Atomic: all are created, or none.

        Where the store's `keys_wait`, a call that isn't patient raises `KeyWaits` instead of waiting for a transaction
        that holds one of the keys; nothing of it was kept then.
        """

    async def claim(self, request: Claim) -> Claimed | Refused:
        """Leases up to n jobs, fairly over tenants. An empty answer writes nothing."""

    async def renew(self, renewals: Sequence[Renewal]) -> list[Renewed | Refused]:
        """Extends leases and records progress."""

    async def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        """Ends leases; items are independent. Where the store's `keys_wait`, a call with a success that carries a job
        whose key a transaction holds raises `KeyWaits`, `exchange` too; nothing of it was kept then.
        """

    async def exchange(self, settlements: Sequence[Settle], request: Claim) -> Exchanged:
        """Settles, then claims what is there now, in one round trip where the store can."""

    async def command(self, commands: Sequence[AnyCommand]) -> list[CommandReply | Refused]:
        """Cancel, request cancel, reschedule, reprioritise, replay, discard."""

    async def sweep(self, interval: Ms, limit: int = 500, hold: Ms | None = None) -> Swept | Refused:
        """Takes lost leases, expires, goes on with cascades and cleans up, once per interval over all callers.

        `hold` keeps leases from being taken for that long: the caller saw the clock jump.
        """

    async def purge(self, retention: Retention = Retention()) -> Purged | Refused | None:  # noqa: B008 frozen
        """Deletes the oldest (day, state) past retention; None when nothing is due."""

    async def get(self, refs: Sequence[Ref], reading: Reading = Reading()) -> list[JobView | Refused]:  # noqa: B008 frozen
        """Reads jobs as they stand, and of each what `reading` says."""

    async def query(self, where: JobFilter, *, after: str | None = None, limit: int = 100) -> JobPage:
        """Lists jobs, newest first."""

    async def events(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1_000
    ) -> EventPage | Refused:
        """Follows the feed from a cursor (None: its beginning, `LATEST`: its end): of one tenant, or store-wide."""

    async def wait(self, topics: Collection[str], timeout_seconds: float) -> bool:
        """Returns early, True, on a hint that one of the topics changed. Hints may be spurious or missing."""

    async def put_document(
        self, document: Document, *, expect: int | None = None, ttl: Ms | None = None
    ) -> Stored | Refused:
        """Writes a document, if it stands at version `expect` (0: absent; None: whatever it is)."""

    async def list_documents(self, tenant: str, kind: str, *, prefix: str = "") -> list[Document]:
        """Documents of one kind by name; tenant `*` lists everyone's defaults."""

    async def freeze(self) -> Epoch:
        """Stops all but renew and settle."""

    async def thaw(self) -> Epoch | Refused:
        """Ends a freeze; the epoch grows by one."""

    async def dump(self, *, after: str | None = None, limit: int = 1_000) -> DumpPage | Refused:
        """Everything a frozen store keeps, in a stable order."""

    async def load(self, items: Sequence[DumpItem]) -> int | Refused:
        """Writes dumped items verbatim into an empty frozen store; may be repeated."""


class Transaction(Protocol):
    """A store's transaction that user code writes in too. Blocking: its calls belong into a thread."""

    @property
    def connection(self) -> Any:
        """For the user's own statements."""

    def check(self, token: Token) -> Refused | None:
        """Why the holder of a token may not end its lease; None when it may."""

    def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]: ...


class JoiningStore(Store, Protocol):
    """A store that can work inside a user's transaction (`capabilities.user_transactions`)."""

    def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        """Enqueues in the transaction that the caller has open, in the caller's thread."""

    async def enqueue_in_async(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        """The same from the event loop that the connection may belong to."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for a handler's writes and the end of its lease."""


class Span(msgspec.Struct, frozen=True):
    """A part of a store's jobs, in the store's own order: those after one point, up to another. None: no bound."""

    after: str | None = None
    until: str | None = None


Columns = dict[str, list[Any]]
"""Values of some jobs, field by field: every list has one value for each job, in the same order."""


class Snapshot(Protocol):
    """One consistent view of a store, read page by page. Pages are those of `query` and `events`."""

    def query(self, where: JobFilter, *, after: str | None = None, limit: int = 1_000) -> JobPage: ...

    def events(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1_000
    ) -> EventPage | Refused: ...

    def identity(self) -> str:
        """Whose history this is: positions in the feed of one store mean nothing in another's."""

    def feed(self) -> FeedSpan: ...

    def chunks(self, after: int, until: int) -> Iterator[tuple[int, bytes]]:
        """Chunks of the feed by position, as NDJSON. Raises `CursorExpired` when the first of them is gone."""

    def chunk_sizes(self, after: int) -> Iterator[tuple[int, int]]:
        """About how many bytes each chunk has as NDJSON, by position, without reading it."""

    def scan(
        self, where: JobFilter, fields: Collection[str], *, span: Span | None = None, limit: int = 1_000
    ) -> Iterator[Columns]:
        """Jobs by the column, in pages of at most `limit`, in the store's own order.

        Fields are those of `Spec` and `Job`, and `status`, `payload`, `result` (a `Result`), `dead_letter` (a
        `DeadLetter`). What isn't asked for isn't read.
        """

    def split(self, parts: int) -> list[Span]:
        """At most so many spans that together hold every job once, those that come later in the last."""


class SnapshotStore(Store, Protocol):
    """A store of which a view can be kept while it is read."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """The store as it is now, for the calling thread, until the block ends."""


class SharingStore(SnapshotStore, Protocol):
    """A store of which several processes can read the same view."""

    def share(self, seconds: float, owner: int) -> str:
        """Keeps the store as it is now, and answers with a handle for `open_shared`.

        It outlives this process: it is kept until nobody has read it for `seconds`, or process `owner` has ended.
        """

    def open_shared(self, handle: str) -> AbstractContextManager[Snapshot]:
        """The view behind a handle, for the calling thread. Raises `SnapshotExpired` once it is gone."""


def queue_topic(queue: str) -> str:
    """Work may have become claimable in this queue."""
    return f"queue/{queue}"


_JOB = "job"


def job_topic(ref: Ref) -> str:
    """This job ended."""
    return f"{_JOB}/{ref[0]}/{ref[1]}"


def job_of(topic: str) -> Ref | None:
    """The job that a topic is about, if it is about one."""
    kind, _, ref = topic.partition("/")
    tenant, _, id = ref.partition("/")
    return (tenant, id) if kind == _JOB else None


def document_topic(tenant: str, kind: str) -> str:
    """A document of this kind, that stays, was written."""
    return f"document/{tenant}/{kind}"


LATEST = "latest"
"""The cursor of a feed's end, wherever that is when it is read."""
CANCELS = "cancels"
"""A job was cancelled while it ran, or was asked to end. Only told by its name: who hears it asks the store at once."""
FEED_TOPIC = "feed"
"""Something happened."""
EVERYTHING = "*"
"""A hint for whoever waits, whatever for but `CANCELS`."""
