"""What an operation read: for stores without locks, which repeat it in the commit.

The model is a pure function of what it read and of its time. If every read gives the same answer at the commit, the
model would write the same there: the commit is as exact as a lock, and it doesn't matter what happened in between.
That holds for everything but the store's own counters, which are given out and never compared: arrival numbers (gaps
are allowed), the feed's end and the clock's mark.

An operation without a lock may see two instants. What it raises means nothing until its reads are known to hold.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tenure.domain.model.tables import Meta, Tables


class ReadKind(StrEnum):
    """What a read depends on, besides the rows in its answer."""

    GET = "get"
    """Rows by their keys, or that there are none."""
    SCAN = "scan"
    """A range of an index, as far as it was read: also that nothing else is in it."""
    LOOSE = "loose"
    """The different values that a range of an index begins with."""
    COUNT = "count"
    """How many rows a range has."""


KINDS = {
    ReadKind.GET: (
        *("meta", "jobs", "payloads", "bindings", "dead_letters", "results", "slots"),
        *("document", "rules", "tenant_config", "bucket", "position", "arriving"),
    ),
    ReadKind.SCAN: (
        *("edges_from", "edges_to", "documents", "running_under", "line", "head", "upcoming"),
        *("attached", "members", "cascades", "lost", "expired", "drained", "due", "old_chunks", "finished", "ended"),
        *("query", "chunks", "dump"),
    ),
    ReadKind.LOOSE: ("tenants", "groups", "live_tenants"),
    ReadKind.COUNT: ("depth", "held", "holders"),
}
"""The reads of `Tables` by their kinds. `next_seq` gives out a counter; `promote` and `tidy` change nothing seen."""

_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}


class Read(msgspec.Struct, frozen=True):
    """A call of `Tables`, and its answer."""

    kind: ReadKind
    name: str
    arguments: tuple[Any, ...]
    answer: Any
    walked: bool = False
    """Whether the answer came one by one: then it is a tuple, as far as it was asked for."""
    whole: bool = True
    """Whether a walk came to its end."""

    def holds(self, tables: Tables) -> bool:
        """Whether the same call gives the same answer now."""
        found = getattr(tables, self.name)(*self.arguments)
        if not self.walked:
            return bool(_comparable(self.name, found) == self.answer)
        again = tuple(islice(found, len(self.answer)))
        return again == self.answer and not (self.whole and next(found, None) is not None)


def _comparable(name: str, answer: Any) -> Any:
    """An answer without the store's counters."""
    if name != "meta":
        return answer
    return replace(cast(Meta, answer), mark=0, seq=0, feed_head=0, cascade_head=0)


class _Walk:
    """An answer that is given one by one."""

    def __init__(self, kind: ReadKind, name: str, arguments: tuple[Any, ...]) -> None:
        self._asked = (kind, name, tuple(_far if callable(one) else one for one in arguments))
        self.taken: list[Any] = []
        self.whole = False

    def read(self) -> Read:
        return Read(*self._asked, tuple(self.taken), walked=True, whole=self.whole)


def _far() -> int:
    """How much more of a walk is read when it is repeated: pages of a moderate size."""
    return 16


class Recorder:
    """Notes what is read of some tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._noted: list[Read | _Walk] = []

    @property
    def reads(self) -> tuple[Read, ...]:
        """In the order of the calls."""
        return tuple(one.read() if isinstance(one, _Walk) else one for one in self._noted)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tables, name)
        kind = _KIND_OF.get(name)
        return found if kind is None else partial(self._read, kind, name, found)

    def _read(self, kind: ReadKind, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        answer = call(*arguments)
        if isinstance(answer, Iterator):
            return self._walked(_Walk(kind, name, arguments), answer)
        self._noted.append(Read(kind, name, arguments, _comparable(name, answer)))
        return answer

    def _walked(self, walk: _Walk, answer: Iterator[Any]) -> Iterator[Any]:
        self._noted.append(walk)
        for one in answer:
            walk.taken.append(one)
            yield one
        walk.whole = True


def recording(tables: Tables) -> Tables:
    """The same tables, whose reads are noted for `Unit.changes`."""
    return cast(Tables, Recorder(tables))


def reads_of(tables: Tables) -> tuple[Read, ...]:
    """What was read of tables since their recording began; nothing if it isn't noted."""
    return tables.reads if isinstance(tables, Recorder) else ()
