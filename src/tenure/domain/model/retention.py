"""What goes in time: which ended jobs a purge spares, and which rows a sweep cleans.

Stores answer candidates page by page and remove what was chosen; nothing else decides it.
"""

from typing import Any

import msgspec

from tenure.domain.job import Binding, BindingKey, Ref
from tenure.domain.model.families import FAMILIES, Family
from tenure.domain.model.tables import FinishedBatch, Tables
from tenure.domain.names import Ms
from tenure.domain.states import Disposition, Unique

PAGE = 10_000
"""Ended jobs that are read at once."""


class Ended(msgspec.Struct, frozen=True, gc=False):
    """An ended job, and the rows that may still need its record."""

    ref: Ref
    seq: int
    key: BindingKey | None = None
    """Its key, if that is bound to it."""
    binding: Binding | None = None
    """How it is bound."""
    letter: Disposition | None = None
    """Of its dead letter."""
    child: bool = False
    """Whether an edge leads from it: a child that isn't terminal may ask for its result."""
    draining: bool = False
    """Whether it has a slot."""


class Due(msgspec.Struct, frozen=True, gc=False):
    """A row whose time has passed."""

    at: int
    """Its time: of a bucket in microseconds, else in milliseconds."""
    key: Any
    seq: int = 0
    """The arrival number of its job, if it is a result."""


def spared(job: Ended, now: Ms) -> bool:
    """Whether a purge leaves an ended job."""
    binding = job.binding
    held = binding is not None and binding.unique is Unique.WINDOW and binding.live(now)
    return held or job.letter is Disposition.OPEN or job.child or job.draining


def purgeable(tables: Tables, batch: FinishedBatch, now: Ms) -> list[Ended]:
    """The jobs of one day and state that nothing spares, in order of arrival."""
    found: list[Ended] = []
    last = 0
    while page := tables.ended(batch, last, PAGE):
        found += [job for job in page if not spared(job, now)]
        if len(page) < PAGE:
            break
        last = page[-1].seq
    return found


CLEANED = [family for family in FAMILIES.values() if family.ticks]
"""The families whose rows go in time. Those past it already count as gone."""


def cleanable(tables: Tables, family: Family, now: Ms, limit: int) -> list[Due]:
    """The first rows of a family that are past their time, by (time, key)."""
    found: list[Due] = []
    last: Due | None = None
    until = now * family.ticks
    while len(found) < limit and (page := tables.due(family.name, until, last, limit)):
        found += _unasked(tables, page) if family.name == "result" else page
        if len(page) < limit:
            break
        last = page[-1]
    return found[:limit]


def _unasked(tables: Tables, results: list[Due]) -> list[Due]:
    """Results that no child may still ask for: such a one outlives its time."""
    asked = tables.edges_from([one.key for one in results])
    return [one for one in results if one.key not in asked]
