"""Families of rows: everything a store keeps, each kind declared once.

A new family is an entry here, a dictionary of `Unit` to change it by, and its reads in `Tables`.
"""

from collections.abc import Callable
from operator import attrgetter
from types import GenericAlias
from typing import Any

import msgspec

from tenure.domain.calls import Document
from tenure.domain.job import Binding, BindingKey, DeadLetter, Edge, Job, Ref, Result, Slot
from tenure.domain.model.tables import BucketKey, DocumentKey, Lane

EdgeKey = tuple[str, str, str]
"""(tenant, parent, child)."""


class Family(msgspec.Struct, frozen=True):
    """One kind of rows, each with a key of its own."""

    name: str
    """As a dump calls it, and tables that hold it."""
    changes: str
    """The dictionary of a unit that says what becomes of its rows: {key: value}, None of one that goes."""
    key: Any
    """The type of its keys."""
    value: Any
    """The type of its values."""
    key_of: Callable[[Any], Any] | None = None
    """The key that a value has in itself. Without it a row is dumped as (key, value)."""
    of_job: bool = False
    """Whether a row is kept by its job's reference, and purged with it."""
    ticks: int = 0
    """How many units of a row's own time a millisecond has; a sweep cleans it past that time. 0: it has none."""

    @property
    def shape(self) -> Any:
        """The type of a dumped row."""
        return self.value if self.key_of is not None else GenericAlias(tuple, (self.key, self.value))

    @property
    def columns(self) -> int:
        """How many parts a key has."""
        return 1 if self.key is int else len(self.key.__args__)

    def row(self, key: Any, value: Any) -> Any:
        """A row as it is dumped."""
        return value if self.key_of is not None else (key, value)

    def pair(self, row: Any) -> tuple[Any, Any]:
        """The key and the value of a dumped row."""
        if self.key_of is None:
            key, value = row
            return key, value
        return self.key_of(row), row


FAMILIES = {
    family.name: family
    for family in (
        Family("job", "after", Ref, Job, attrgetter("ref"), of_job=True),
        Family("body", "payloads", Ref, bytes, of_job=True),
        Family("binding", "bindings", BindingKey, Binding, ticks=1),
        Family("edge", "edges", EdgeKey, Edge, attrgetter("tenant", "parent", "child")),
        Family("dead_letter", "letters", Ref, DeadLetter, attrgetter("tenant", "job_id"), of_job=True),
        Family("result", "results", Ref, Result, of_job=True, ticks=1),
        Family("slot", "slots", Ref, Slot, attrgetter("tenant", "job_id")),
        Family("cascade", "cascades", int, Ref),
        Family("bucket", "buckets", BucketKey, int, ticks=1_000),
        Family("position", "positions", Lane, str),
        Family("document", "documents", DocumentKey, Document, attrgetter("tenant", "kind", "name"), ticks=1),
    )
}
"""In the order of a dump: a record comes before what belongs to it."""
