"""What the model asks of a store: reads in bulk, ordered scans, and one way to keep a unit's changes.

The model decides; tables only remember. Reads never see the unit's own unflushed changes: `Unit` lays them over.
Every scan is in byte order of names and in the contract's order of jobs (§10).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tenure.domain.calls import Document, JobFilter
from tenure.domain.config import QueueRules, TenantConfig
from tenure.domain.job import Binding, BindingKey, DeadLetter, Edge, Job, Ref, Result, Slot
from tenure.domain.model.attached import Attached
from tenure.domain.names import Ms
from tenure.domain.states import State

if TYPE_CHECKING:
    from tenure.domain.model.retention import Due, Ended
    from tenure.domain.model.unit import Unit

Lane = tuple[str, str]
"""(tenant, queue)."""
BucketKey = tuple[str, str, str]
"""(tenant, queue, group), the group empty for the queue's own bucket."""
DocumentKey = tuple[str, str, str]
"""(tenant, kind, name)."""


class Meta(msgspec.Struct, frozen=True, array_like=True):
    """The store's own few numbers."""

    mark: Ms = 0
    """The latest time that any write happened at; the clock never reads less."""
    seq: int = 0
    """The last arrival number given out."""
    epoch: int = 1
    frozen: bool = False
    loading: bool = False
    """Frozen and being filled by `load`."""
    last_turn: Ms | None = None
    hold_until: Ms = 0
    feed_head: int = 0
    """Position of the last chunk; chunks are numbered from 1 without gaps."""
    feed_floor: int = 0
    """Position of the last chunk that retention took."""
    cascade_head: int = 0


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """The events of one operation for one tenant, as NDJSON."""

    position: int
    tenant: str
    at: Ms
    body: bytes


class FinishedBatch(msgspec.Struct, frozen=True):
    """The ended jobs of one UTC day and state."""

    day: int
    """Days since the epoch."""
    state: State


class Tables(Protocol):
    """The model's memory."""

    def meta(self) -> Meta: ...

    def next_seq(self, last: int) -> int:
        """The arrival number that comes after `last`, the one given out before."""

    # Point reads. Absent keys are absent from the answer.

    def jobs(self, refs: Sequence[Ref]) -> dict[Ref, Job]: ...
    def payloads(self, refs: Sequence[Ref]) -> dict[Ref, bytes]: ...
    def bindings(self, keys: Sequence[BindingKey]) -> dict[BindingKey, Binding]: ...
    def edges_from(self, parents: Sequence[Ref]) -> dict[Ref, list[Edge]]: ...
    def edges_to(self, children: Sequence[Ref]) -> dict[Ref, list[Edge]]: ...
    def dead_letters(self, refs: Sequence[Ref]) -> dict[Ref, DeadLetter]: ...
    def results(self, refs: Sequence[Ref]) -> dict[Ref, Result]: ...
    def slots(self, refs: Sequence[Ref]) -> dict[Ref, Slot]: ...
    def attached(self, family: Attached, jobs: Sequence[Job]) -> dict[Ref, dict[str, Any]]:
        """Rows that jobs have beside their records, by member, in order."""

    def members(self, family: Attached, jobs: Sequence[Job]) -> dict[Ref, list[str]]:
        """The members of those rows, in order, without their values."""

    def document(self, key: DocumentKey) -> Document | None: ...
    def documents(self, tenant: str, kind: str, prefix: str) -> list[Document]: ...
    def rules(self, tenant: str, queue: str) -> QueueRules: ...
    def tenant_config(self, tenant: str) -> TenantConfig: ...
    def bucket(self, key: BucketKey) -> int:
        """Its TAT in microseconds; 0 when it was never used."""

    def position(self, lane: Lane) -> str:
        """The group last served; empty when none was."""

    # Counts

    def depth(self, lane: Lane) -> int:
        """Pending and blocked jobs."""

    def held(self, lane: Lane) -> int:
        """Running jobs and draining slots."""

    def holders(self, lane: Lane, group: str) -> int:
        """Running jobs and draining slots of one group."""

    def live_tenants(self, queue: str) -> list[str]:
        """Tenants with a job in the queue that isn't terminal."""

    def arriving(self, lane: Lane) -> bool:
        """Whether an enqueue into the lane isn't committed yet; into everyone's (`*`), of any tenant."""

    # Scans of a claim. `promote` comes first: scans see the jobs due at `now`.

    def promote(self, queues: Sequence[str], now: Ms) -> None:
        """Makes the jobs that became due visible to the scans; changes nothing that anyone can see."""

    def running_under(self, token: bytes) -> list[Ref]:
        """Jobs held under a claim's token hash, by (tenant, id)."""

    def tenants(self, queues: Sequence[str], after: str, limit: int) -> list[str]:
        """Tenants with a due job in one of the queues, after `after`."""

    def groups(self, lane: Lane, after: str, limit: int) -> list[str]:
        """Groups of a keyed lane with a due job, after `after`."""

    def line(self, lane: Lane, group: str, now: Ms, ahead: Callable[[], int]) -> Iterator[Job]:
        """Due, unexpired pending jobs in order. Group empty in a plain lane.

        `ahead` says about how many more will be read, whenever the store is about to read on.
        """

    def head(self, lane: Lane, group: str, now: Ms) -> Job | None:
        """The pending (unexpired) or running job of lowest arrival in an ordered group."""

    def upcoming(self, queue: str, now: Ms) -> Iterator[tuple[Ms, str]]:
        """(run_at, tenant) of a queue's pending jobs after `now`, by time, read as far as they are asked for."""

    # Scans of sweep and purge

    def cascades(self, limit: int) -> list[tuple[int, Ref]]:
        """Ended parents whose children still wait to be told: (position, ref), in order of arrival."""

    def lost(self, now: Ms, limit: int) -> list[Job]:
        """Running jobs whose lease has expired, by (deadline, tenant, id)."""

    def expired(self, now: Ms, limit: int) -> list[Job]:
        """Pending jobs never claimed with expires_at ≤ now, by (expires_at, tenant, id)."""

    def drained(self, now: Ms, limit: int) -> list[Slot]:
        """Draining slots whose lease has expired, by (deadline, tenant, id)."""

    def due(self, kind: str, until: int, after: "Due | None", limit: int) -> "list[Due]":
        """Rows of a kind whose time is up to `until`, by (time, key), after one."""

    def tidy(self, now: Ms, limit: int) -> None:
        """Lets a store remove what it keeps for its own use only, once a sweep."""

    def old_chunks(self, before: Ms, limit: int) -> int | None:
        """Position of the last of the first `limit` chunks if written before `before`; None when none is."""

    def finished(self) -> list[FinishedBatch]:
        """The (day, state) pairs that hold ended jobs, in order."""

    def ended(self, batch: FinishedBatch, after: int, limit: int) -> "list[Ended]":
        """The jobs of one day and state, in order of arrival, after an arrival number."""

    # Lists

    def query(self, where: JobFilter, before_seq: int | None, limit: int) -> list[Job]:
        """Jobs that match, newest first."""

    def chunks(self, tenant: str | None, after: int, limit: int) -> list[Chunk]: ...

    # Transfer

    def dump(self, kind: str, after: str, limit: int) -> list[tuple[str, Any]]:
        """Values of one kind with their sort keys, by key, after `after`."""

    def restore(self, kind: str, value: Any) -> None:
        """Writes one dumped value verbatim."""

    # Writing

    def keep(self, unit: "Unit") -> None:
        """Writes everything a unit changed, at once."""
