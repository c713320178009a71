"""Index entries: what follows from a record, against the oracle's own derivation, and keys that sort as bytes."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.domain.model import Unit
from tenure.domain.model.entries import INDEXES, Entry, Row, entries, key_of, ordered_key, slot_entries
from tenure.domain.store import Clock
from tenure.stores.memory import MemoryStore
from tenure.stores.memory_tables import MemoryTables
from tenure.testing.factories import MemoryFactory
from tenure.testing.machine import run_machine
from tenure.testing.machine.profiles import PROFILES

_WORD = st.text(st.characters(exclude_categories=["C"]), max_size=4)  # no control character, no surrogate
_NUMBER = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3)
_OF = {"token": st.binary(min_size=2, max_size=2)}
NUMBERS = {"prio_neg", "run_at", "seq", "expires_at", "deadline", "day"}


def rows_of(index: str) -> st.SearchStrategy[Row]:
    columns = INDEXES[index].columns
    return st.tuples(*(_OF.get(column, _NUMBER if column in NUMBERS else _WORD) for column in columns))


@pytest.mark.parametrize("index", INDEXES)
@given(data=st.data())
def test_keys_as_bytes_sort_like_keys(index: str, data: st.DataObject) -> None:
    one, other = data.draw(rows_of(index)), data.draw(rows_of(index))
    keys = (key_of(index, one), key_of(index, other))
    as_bytes = (ordered_key(index, one), ordered_key(index, other))
    assert (as_bytes[0] < as_bytes[1]) == (keys[0] < keys[1])
    assert (as_bytes[0] == as_bytes[1]) == (keys[0] == keys[1])


def derived(tables: MemoryTables) -> "Counter[Entry]":
    """What the records say, ends and labels apart: the oracle has no index of them."""
    jobs = (entry for job in tables._jobs.values() for entry in entries(job, tables._index.promoted))
    slots = (entry for slot in tables._slots.values() for entry in slot_entries(slot))
    found = Counter(entry for entry in (*jobs, *slots) if entry[0] not in ("finished", "labelled", "drained"))
    assert not found or max(found.values()) == 1
    return found


def indexed(tables: MemoryTables) -> Iterator[Entry]:
    """The oracle's indexes as entries."""
    index, jobs = tables._index, tables._jobs
    for place, line in index.lines.items():
        for prio_neg, run_at, seq, ref in line:
            yield "ready", (*place, prio_neg, run_at, seq, jobs[ref].expires_at)
    for queue, scheduled in index.scheduled.items():
        for run_at, seq, ref in scheduled:
            job = jobs[ref]
            group = job.spec.group or ""
            yield "scheduled", (queue, ref[0], group, -job.priority, run_at, seq, job.expires_at)
    lined = {entry[3] for line in index.lines.values() for entry in line}
    lined |= {entry[2] for scheduled in index.scheduled.values() for entry in scheduled}
    for (tenant, queue), refs in index.waiting.items():
        for ref in refs - lined:
            yield "blocked", (queue, tenant, jobs[ref].spec.seq)
    for place, line_of_group in index.in_order.items():
        for seq, ref in line_of_group:
            yield "in_order", (*place, seq, jobs[ref].expires_at)
    for expires_at, ref in index.expiring:
        yield "expiring", (expires_at, *ref, jobs[ref].spec.seq)
    for (tenant, queue), refs in index.running.items():
        for ref in refs:
            lease = jobs[ref].lease
            assert lease is not None
            yield "running", (queue, tenant, jobs[ref].spec.group or "", ref[1])
            yield "leased", (lease.deadline, *ref)
    for token, refs in index.claims.items():
        for ref in refs:
            yield "claimed", (token, *ref)
    held = {ref for holders in index.holders.values() for ref, _ in holders}
    for ref, slot in tables._slots.items():
        assert (ref in held) == (slot.group is not None)
        yield "draining", (slot.queue, slot.tenant, slot.group or "", slot.job_id)


class Compared(MemoryTables):
    """The oracle's tables, whose indexes are compared with the derived entries after each operation."""

    kept = 0

    def keep(self, unit: Unit) -> None:
        super().keep(unit)
        assert derived(self) == Counter(indexed(self))
        type(self).kept += 1


class ComparedFactory(MemoryFactory):
    async def create(self, clock: Clock) -> MemoryStore:
        store = await super().create(clock)
        assert isinstance(store, MemoryStore)
        store._tables = Compared()
        return store


@pytest.mark.parametrize("profile", ["mixed", "keyed"])
def test_entries_are_those_that_the_oracle_keeps(profile: str) -> None:
    before = Compared.kept
    run_machine(ComparedFactory(), steps=500, seed=20_270_116, profile=PROFILES[profile])
    assert Compared.kept > before + 200
