"""Memory without locks: operations that run at the same time, each committing only if all that it read still holds.

Every operation is a greenlet that stops before each of its reads, where others may read and commit. At its commit the
reads that it noted are repeated; if one gives another answer, the operation runs again. What a commit changes is also
applied, as `Changes` says it, to a replica of plain rows and index entries.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, cast

import msgspec
from greenlet import getcurrent, greenlet
from msgspec.structs import replace

from tenure.domain.job import Job, Slot
from tenure.domain.model import Chunk, Meta, Tables, Unit
from tenure.domain.model.attached import ATTACHED
from tenure.domain.model.changes import Changes
from tenure.domain.model.entries import Entry, entries, slot_entries
from tenure.domain.model.families import FAMILIES
from tenure.domain.model.reads import KINDS, ReadKind, recording
from tenure.domain.names import Ms
from tenure.stores.memory_tables import MemoryTables

Part = Callable[[Unit], Any]

_READS = {name for names in KINDS.values() for name in names}


class Broke(msgspec.Struct, frozen=True):
    """What the model raised."""

    error: str


def outcome(part: Part, unit: Unit) -> Any:
    """What a part answers, or how it broke."""
    try:
        return part(unit)
    except Exception as error:
        return Broke(repr(error))


class Numbered(MemoryTables):
    """Tables that give out the arrival numbers they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: Iterator[int] = iter(())

    def next_seq(self, last: int) -> int:
        return next(self.numbers)


class Interrupted:
    """Tables that others may change before each read. A scan is read at one instant."""

    def __init__(self, tables: MemoryTables, next_seq: Callable[[], int]) -> None:
        self._tables = tables
        self._next_seq = next_seq

    def next_seq(self, last: int) -> int:
        return self._next_seq()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tables, name)
        return partial(self._read, found) if name in _READS else found

    @staticmethod
    def _read(call: Callable[..., Any], *arguments: Any) -> Any:
        getcurrent().parent.switch()  # type: ignore[union-attr]  # every operation has a parent
        answer = call(*arguments)
        return iter(list(answer)) if isinstance(answer, Iterator) else answer


class Running:
    """One operation: as often as it takes."""

    def __init__(self, name: str, part: Part) -> None:
        self.name = name
        self.part = part
        self.tries = 0
        self.numbers: list[int] = []
        self.unit: Unit | None = None
        self.reply: Any = None
        self._fiber: greenlet | None = None

    def begin(self, store: "Optimistic", now: Ms) -> None:
        """Begins anew, up to the first read."""
        self.tries += 1
        self.numbers = []
        tables = recording(cast(Tables, Interrupted(store.tables, lambda: self._number(store))))
        self._fiber = greenlet(lambda: self._run(tables, now))
        self._fiber.switch()

    def _number(self, store: "Optimistic") -> int:
        store.seq += 1
        self.numbers.append(store.seq)
        return store.seq

    def _run(self, tables: Tables, now: Ms) -> None:
        self.unit = Unit(tables, now)
        self.reply = outcome(self.part, self.unit)

    @property
    def begun(self) -> bool:
        return self._fiber is not None

    @property
    def may_commit(self) -> bool:
        return self._fiber is not None and self._fiber.dead

    def go_on(self) -> None:
        """Up to the next read."""
        assert self._fiber is not None
        self._fiber.switch()


class Replica:
    """What changes add up to."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Any, Any]] = {name: {} for name in (*FAMILIES, *ATTACHED)}
        self.entries: Counter[Entry] = Counter()
        self.chunks: list[tuple[str, Ms, bytes]] = []

    def apply(self, changes: Changes) -> None:
        for put in changes.puts:
            rows = self.rows[put.family]
            if put.family in ATTACHED and not isinstance(put.key[0], tuple):
                for key in [key for key in rows if key[0] == put.key]:
                    del rows[key]
            elif put.value is None:
                gone = rows.pop(put.key, None)
                self.entries.subtract(map(_named, _entries_of(gone)))
            else:
                rows[put.key] = put.value
        self.entries.subtract(map(_named, changes.left))
        self.entries.update(map(_named, changes.taken))
        self.chunks += changes.chunks

    def check(self, tables: MemoryTables) -> None:
        """Rows, index entries and the feed are those of the store."""
        assert self.rows == {**tables._rows, **_beside(tables)}
        derived = [entry for rows in ("job", "slot") for one in self.rows[rows].values() for entry in _entries_of(one)]
        assert {entry: count for entry, count in self.entries.items() if count} == Counter(map(_named, derived))
        kept = [(chunk.tenant, chunk.at, chunk.body) for chunk in tables._chunks]
        assert self.chunks[len(self.chunks) - len(kept) :] == kept


def _entries_of(row: Any) -> list[Entry]:
    if isinstance(row, Job):
        return entries(row, 0)
    return slot_entries(row) if isinstance(row, Slot) else []


def _named(entry: Entry) -> Entry:
    """Which of two lists a job stands in that waits depends on when it was last looked at."""
    return ("line" if entry[0] in ("ready", "scheduled") else entry[0], entry[1])


class Optimistic:
    """The memory tables, for operations that run side by side."""

    def __init__(self) -> None:
        self.tables = MemoryTables()
        self.replica = Replica()
        self.seq = 0
        self.overtaken: Counter[frozenset[ReadKind]] = Counter()
        """How often an operation ran again, by the kinds of reads that gave another answer."""
        self.broke = 0
        """How often it had raised something, having seen two instants."""

    def run(self, operations: list[Running], now: Ms, dice: Random) -> list[Running]:
        """Runs them side by side; in the order in which they were committed."""
        done: list[Running] = []
        open_ = list(operations)
        while open_:
            one = dice.choice(open_)
            if not one.begun:
                one.begin(self, now)
            elif not one.may_commit:
                one.go_on()
            elif self._committed(one):
                open_.remove(one)
                done.append(one)
            else:
                one.begin(self, now)
        return done

    def _committed(self, one: Running) -> bool:
        unit = one.unit
        assert unit is not None
        changes = unit.changes()
        changed = frozenset(read.kind for read in changes.reads if not read.holds(self.tables))
        live = self.tables.meta()
        counted = changes.meta.cascade_head != changes.seen.cascade_head != live.cascade_head
        if changed or counted:
            self.overtaken[changed] += 1
            self.broke += isinstance(one.reply, Broke)
            return False
        if unit.wrote and not isinstance(one.reply, Broke):
            unit.meta = _counted(unit.meta, live, self.seq)
            self.replica.apply(changes)
            self.tables.keep(unit)
        return True


def _counted(meta: Meta, live: Meta, seq: int) -> Meta:
    """A unit's numbers, but for the counters: they are the store's."""
    head = max(meta.cascade_head, live.cascade_head)
    return replace(meta, seq=seq, feed_head=live.feed_head, mark=live.mark, cascade_head=head)


class Serial:
    """The oracle: the same operations, one after the other."""

    def __init__(self) -> None:
        self.tables = Numbered()

    def run(self, one: Running, now: Ms) -> Any:
        """What it answers with the same arrival numbers, every one of which it must use."""
        self.tables.numbers = iter(one.numbers)
        unit = Unit(self.tables, now)
        reply = outcome(one.part, unit)
        assert next(self.tables.numbers, None) is None
        if not isinstance(reply, Broke):
            self.tables.keep(unit)
        return reply

    def check(self, tables: MemoryTables) -> None:
        """The other's rows, feed and numbers are the same."""
        assert tables._rows == self.tables._rows
        assert _beside(tables) == _beside(self.tables)
        assert _feed(tables) == _feed(self.tables)
        assert replace(tables.meta(), seq=0) == replace(self.tables.meta(), seq=0)
        assert not tables.verify()


def _beside(tables: MemoryTables) -> dict[str, dict[Any, Any]]:
    """Rows beside records: {family: {(job, member): value}}."""
    found: dict[str, dict[Any, Any]] = {name: {} for name in ATTACHED}
    for (name, ref), rows in tables._attached.items():
        found[name].update({(ref, member): value for member, value in rows.items()})
    return found


def _feed(tables: MemoryTables) -> list[Chunk]:
    return tables._chunks
