"""What an operation changed, as one value: what a store without locks needs for its commit, and no more."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.domain.event import encode_events
from tenure.domain.model.attached import ATTACHED
from tenure.domain.model.entries import Entry, difference, entries, slot_entries
from tenure.domain.model.families import FAMILIES
from tenure.domain.model.reads import Read, reads_of
from tenure.domain.model.retention import Ended
from tenure.domain.model.tables import Meta
from tenure.domain.names import Ms

if TYPE_CHECKING:
    from tenure.domain.model.unit import Unit


class Put(msgspec.Struct, frozen=True):
    """A row as it is from now on."""

    family: str
    key: Any
    """Of rows beside records (job, member); the job alone when it goes with all it has of that family."""
    value: Any
    """None: it goes, and its index entries with it."""


class Changes(msgspec.Struct, frozen=True):
    """Everything an operation read and wrote. Two that a store keeps one after the other are as if run so.

    Moves in bulk (`Unit.leased`, `Unit.succeeded`) aren't in it: a store that makes them keeps them itself.
    """

    reads: tuple[Read, ...]
    """What must still hold when it is kept; none where it wasn't noted (`reads.recording`)."""
    puts: tuple[Put, ...]
    left: tuple[Entry, ...]
    """Index entries that go, of jobs that stay. One in `ready` may still stand in `scheduled`."""
    taken: tuple[Entry, ...]
    """Index entries that come."""
    chunks: tuple[tuple[str, Ms, bytes], ...]
    """(tenant, time, body) for the feed, which gives them their positions."""
    seen: Meta
    """The store's numbers as the operation read them."""
    meta: Meta
    """And as it leaves them: counters that it moved it moved from there."""


def changes_of(unit: "Unit") -> Changes:
    """What a unit read and changed."""
    moves = list(_moves(unit))
    return Changes(
        reads_of(unit.tables),
        tuple(_puts(unit)),
        tuple(entry for left, _ in moves for entry in left),
        tuple(entry for _, taken in moves for entry in taken),
        tuple((tenant, unit.now, encode_events(told)) for tenant, told in unit.events.items()),
        unit.meta_before,
        unit.meta,
    )


def _puts(unit: "Unit") -> Iterator[Put]:
    for family in FAMILIES.values():
        for key, value in getattr(unit, family.changes).items():
            yield Put(family.name, key, value)
    for (name, ref), rows in unit.attached.items():
        yield from (Put(name, (ref, member), value) for member, value in rows.items())
    for kind, cleaned in unit.cleaned.items():
        yield from (Put(kind, one.key, None) for one in cleaned)
    for purged in unit.purged.values():
        for job in purged:
            yield from _purged(job)


def _purged(job: Ended) -> Iterator[Put]:
    yield from (Put(family.name, job.ref, None) for family in FAMILIES.values() if family.of_job)
    yield from (Put(name, job.ref, None) for name in ATTACHED)
    if job.key is not None:
        yield Put("binding", job.key, None)


def _moves(unit: "Unit") -> Iterator[tuple[list[Entry], list[Entry]]]:
    for ref, after in unit.after.items():
        before = unit.before[ref]
        yield difference([] if before is None else entries(before, unit.now), entries(after, unit.now))
    yield from (([], slot_entries(slot)) for slot in unit.slots.values() if slot is not None)
