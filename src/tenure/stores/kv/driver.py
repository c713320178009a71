"""What a store needs of an ordered key-value database: one transaction, and a hint when something changed.

A database has three parts. **Records** are values under keys, read by key only. The **index** is keys without values,
in byte order, read by range. The **feed** is chunks of events in the order of their commits. Records and index don't
share keys: the same bytes may stand in both.

Transactions are serializable: one that commits read and wrote as if it had been alone. A database with one writer at a
time has nothing to check; the others remember what was read and refuse a commit when it isn't true any more. The model
is a pure function of its reads and `now`, so equal reads are enough: no version is needed, and a value that changed
there and back doesn't matter.

Everything here blocks: the model reads as it goes. A driver over a network belongs into a thread or a fiber.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from tenure.domain.model import Chunk
from tenure.domain.names import Ms

KEY_BYTES = 510
"""The longest key of a record or an index entry. LMDB has room for 511, of which a driver takes one."""
SEPARATOR = b"\0"
"""Ends a component of a key. Names and texts have no control characters, so it sorts before all that can follow."""


class Range(NamedTuple):
    """Index entries from `begin` on, before `end`, at most `limit` of them: the first ones, or in `reverse` the
    last ones, last first.
    """

    begin: bytes
    end: bytes
    limit: int
    reverse: bool = False


class Transaction(Protocol):
    """One attempt to read and write. Reads see the transaction's own writes; nobody else does before it commits.

    It ends with `commit` or `close`, after which nothing may be called but `close`. What an optimistic driver answers
    may stem from two instants: until `commit` or `still` said that the reads hold, nothing that was concluded from them
    counts, not even an error.
    """

    @property
    def now(self) -> Ms:
        """The store's time, read once at the begin. Whether it can go back is a capability, the clock's floor."""

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The records' values in the order of the keys, None for one that isn't there. One trip."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Writes a record; None deletes it."""

    def scans(self, ranges: Sequence[Range]) -> list[list[bytes]]:
        """The index entries of each range, in the order of the ranges. One trip."""

    def distinct(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """A loose scan: the different components that follow the prefix in index entries, in byte order, at most
        `limit`, those that sort after `after` only (all, if it is empty). A component ends at the next `SEPARATOR`; an
        entry without one behind the prefix has none. The cost is a step for each answer, not for each entry.
        """

    def count(self, begin: bytes, end: bytes) -> int:
        """How many index entries are from `begin` on and before `end`."""

    def add(self, key: bytes) -> None:
        """Makes an index entry; one that is there stays."""

    def remove(self, key: bytes) -> None:
        """Takes an index entry away; one that isn't there stays away."""

    def reserve(self) -> int:
        """A number that is larger than all that were reserved before by transactions that committed, and by this one.
        Gaps are allowed. It isn't a read: two transactions that reserve don't conflict for that.
        """

    def append(self, tenant: str, at: Ms, body: bytes) -> None:
        """Adds a chunk to the feed. Its position is given at the commit: dense, in the order of commits, and inside a
        transaction in the order of the calls. It isn't a read.
        """

    def chunks(self, tenant: str | None, after: int, limit: int) -> list[Chunk]:
        """Chunks that are committed, with positions above `after`, in their order, at most `limit`; of one tenant, or
        of all. What a transaction appended itself isn't among them. No conflict comes of reading the feed: what was
        read there stays.
        """

    def forget(self, position: int) -> None:
        """Deletes the chunks up to and with this position. Positions aren't given again."""

    def still(self) -> bool:
        """Whether everything that was read holds now. True of a driver with one writer."""

    def commit(self) -> bool:
        """Keeps everything, or nothing if what was read doesn't hold any more: then False, and the caller begins again.
        A transaction that wrote nothing answers as `still`. Raises `OutcomeUnknown` when the database doesn't say
        which; another transaction can find out by reading.
        """

    def close(self) -> None:
        """Lets it go; what wasn't committed isn't kept. May be called twice."""


class Driver(Protocol):
    """One database, for one store. Its methods may be called from any thread."""

    def begin(self, *, writing: bool) -> Transaction:
        """A transaction; one that isn't `writing` sees one instant where the database can, and never waits for a
        writer there. Raises `StoreUnavailable` if the database can't be reached.
        """

    def watch(self, prefix: bytes, changed: Callable[[], object]) -> AbstractContextManager[None]:
        """Inside the context `changed` is called, on any thread, after commits that added index entries which begin so.
        It is a hint: it may come late, once for many, for nothing, and where the connection broke not at all.
        """

    def close(self) -> None:
        """Ends it. Transactions that are open can't commit any more: they raise `StoreUnavailable`."""
