"""A unit of work: one operation's view of the tables with its own changes laid over them.

Nothing reaches the tables before `Tables.keep`, so an operation that is refused, or breaks, leaves no trace. What it
changed can be read off its dictionaries, where a None is a deletion, and off its two lists of bulk moves: `leased` and
`succeeded`. A job is in one of them at the most.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from tenure.domain.calls import Document
from tenure.domain.config import QUEUE, TENANT
from tenure.domain.event import Event, Told
from tenure.domain.job import Binding, BindingKey, DeadLetter, Edge, Job, Ref, Result, Slot
from tenure.domain.model.attached import Attached
from tenure.domain.model.bulk import BulkLease, BulkSuccess
from tenure.domain.model.changes import Changes, changes_of
from tenure.domain.model.retention import Due, Ended
from tenure.domain.model.tables import BucketKey, DocumentKey, FinishedBatch, Lane, Meta, Tables
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.domain.store import CANCELS, EVERYTHING, FEED_TOPIC, document_topic, job_topic, queue_topic
from tenure.domain.transitions import Step

K = TypeVar("K")
V = TypeVar("V")

_WAITING = (State.PENDING, State.BLOCKED)


def _called_off(before: Job | None, after: Job) -> bool:
    """Whether the handler of a running job is to be told to end."""
    if before is None or before.state is not State.RUNNING:
        return False
    return after.state is State.CANCELLED or (after.cancel_requested and not before.cancel_requested)


def _makes_room(before: Job | None, after: Job) -> bool:
    """Whether a change may let a worker claim: a job that waits, a place left, an ordered group's head gone."""
    if after.state is State.PENDING:
        return True
    return before is not None and after.state is not State.RUNNING and before.state is not State.BLOCKED


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, list | set | dict) else value


class Unit:
    """One operation at one instant."""

    def __init__(self, tables: Tables, now: Ms) -> None:
        self.tables = tables
        self.now = now
        self.meta: Meta = tables.meta()
        self.before: dict[Ref, Job | None] = {}
        self.after: dict[Ref, Job] = {}
        self.payloads: dict[Ref, bytes] = {}
        self.bindings: dict[BindingKey, Binding | None] = {}
        self.edges: dict[tuple[str, str, str], Edge | None] = {}
        self.letters: dict[Ref, DeadLetter | None] = {}
        self.results: dict[Ref, Result | None] = {}
        self.slots: dict[Ref, Slot | None] = {}
        self.attached: dict[tuple[str, Ref], dict[str, Any]] = {}
        """(family, job) → member → value."""
        self.documents: dict[DocumentKey, Document | None] = {}
        self.buckets: dict[BucketKey, int] = {}
        self.positions: dict[Lane, str] = {}
        self.cascades: dict[int, Ref | None] = {}
        self.leased: list[BulkLease] = []
        self.succeeded: list[BulkSuccess] = []
        self.events: dict[str, list[Told]] = {}
        self.cleaned: dict[str, list[Due]] = {}
        """Rows that a sweep removes because their time has passed, by their kind."""
        self.purged: dict[FinishedBatch, list[Ended]] = {}
        """Ended jobs that a purge removes, with all that is theirs."""
        self._meta_before = self.meta
        self._by_parent: dict[Ref, set[str]] = {}
        self._by_child: dict[Ref, set[str]] = {}
        self._waiting: dict[Lane, int] = {}
        self._freed: set[str] = set()
        self._read_jobs: dict[Ref, Job | None] = {}
        self._read_bindings: dict[BindingKey, Binding | None] = {}
        self._read_letters: dict[Ref, DeadLetter | None] = {}
        self._read_results: dict[Ref, Result | None] = {}
        self._read_members: dict[tuple[str, Ref], list[str]] = {}
        self._read_from: dict[Ref, list[Edge]] = {}
        self._read_to: dict[Ref, list[Edge]] = {}
        self._read_depth: dict[Lane, int] = {}

    # Reading

    def prefetch(self, refs: Sequence[Ref]) -> None:
        """Reads the records of many jobs, with what their ending will ask for, in a few bulk reads."""
        self.fetch_jobs(refs)
        self._fetch(refs, self._read_from, self.tables.edges_from, list)
        specs = [job.spec for ref in refs if (job := self._read_jobs[ref]) is not None]
        self.fetch_bindings([key for spec in specs if spec.key is not None and (key := spec.binding_key) is not None])
        self._fetch([spec.ref for spec in specs if spec.parents], self._read_to, self.tables.edges_to, list)

    def fetch_jobs(self, refs: Sequence[Ref]) -> None:
        """Reads the records of many jobs at once."""
        self._fetch(refs, self._read_jobs, self.tables.jobs, lambda: None)

    def fetch_bindings(self, keys: Sequence[BindingKey]) -> None:
        """Reads the holders of many keys at once."""
        self._fetch(keys, self._read_bindings, self.tables.bindings, lambda: None)

    def fetch_outcomes(self, jobs: Sequence[Job]) -> None:
        """Reads what many ended jobs left behind, at once: results and dead letters."""
        failed = [job.ref for job in jobs if job.state is State.FAILED]
        succeeded = [job.ref for job in jobs if job.state is State.SUCCEEDED]
        self._fetch(failed, self._read_letters, self.tables.dead_letters, lambda: None)
        self._fetch(succeeded, self._read_results, self.tables.results, lambda: None)

    def fetch_members(self, family: Attached, refs: Iterable[Ref]) -> None:
        """Reads which rows of a family many jobs have, at once."""
        jobs = [job for ref in refs if (job := self.job(ref)) is not None]
        for ref, members in self.tables.members(family, jobs).items() if jobs else ():
            self._read_members[family.name, ref] = members

    @staticmethod
    def _fetch(
        keys: Iterable[K], cache: dict[K, V], read: Callable[[Sequence[K]], Any], absent: Callable[[], V]
    ) -> None:
        missing = [key for key in keys if key not in cache]
        if missing:
            cache.update(read(missing))
            for key in missing:
                if key not in cache:
                    cache[key] = absent()

    def job(self, ref: Ref) -> Job | None:
        if ref in self.after:
            return self.after[ref]
        if ref not in self._read_jobs:
            self.fetch_jobs([ref])
        return self._read_jobs[ref]

    def payload(self, ref: Ref) -> bytes:
        return self.payloads[ref] if ref in self.payloads else self.tables.payloads([ref])[ref]

    def binding(self, key: BindingKey) -> Binding | None:
        """Whoever holds the key now."""
        if key in self.bindings:
            binding = self.bindings[key]
        else:
            if key not in self._read_bindings:
                self.fetch_bindings([key])
            binding = self._read_bindings[key]
        return binding if binding is not None and binding.live(self.now) else None

    def held_binding(self, key: BindingKey) -> Binding | None:
        """Whoever held the key when it was read, be it past its time."""
        self.fetch_bindings([key])
        return self._read_bindings[key]

    def known_children(self, parent: Ref) -> set[str]:
        """The children that this unit read or tied itself."""
        return {edge.child for edge in self._read_from.get(parent, ())} | self._by_parent.get(parent, set())

    def has_children(self, parent: Ref) -> bool:
        """Whether an edge leaves the job."""
        if parent not in self._by_parent and self._read_from.get(parent) == []:
            return False
        return bool(self.edges_from(parent))

    def edges_from(self, parent: Ref) -> list[Edge]:
        """A parent's live edges, by arrival of the child."""
        if parent not in self._read_from:
            self._fetch([parent], self._read_from, self.tables.edges_from, list)
        edges = {(edge.tenant, edge.parent, edge.child): edge for edge in self._read_from[parent]}
        return self._laid_over(edges, ((*parent, child) for child in self._by_parent.get(parent, ())))

    def edges_to(self, child: Ref) -> list[Edge]:
        """A child's live edges, resolved ones too."""
        if child not in self._read_to:
            self._fetch([child], self._read_to, self.tables.edges_to, list)
        edges = {(edge.tenant, edge.parent, edge.child): edge for edge in self._read_to[child]}
        return self._laid_over(edges, ((child[0], parent, child[1]) for parent in self._by_child.get(child, ())))

    def _laid_over(
        self, edges: dict[tuple[str, str, str], Edge], changed: Iterable[tuple[str, str, str]]
    ) -> list[Edge]:
        for key in changed:
            edge = self.edges[key]
            if edge is None:
                edges.pop(key, None)
            else:
                edges[key] = edge
        return sorted(edges.values(), key=lambda edge: edge.child_seq) if len(edges) > 1 else list(edges.values())

    def letter(self, ref: Ref) -> DeadLetter | None:
        if ref in self.letters:
            return self.letters[ref]
        return self._read_letters[ref] if ref in self._read_letters else self.tables.dead_letters([ref]).get(ref)

    def has_result(self, ref: Ref) -> bool:
        """Whether a result is kept, be it past its time."""
        return self._kept_result(ref) is not None

    def _kept_result(self, ref: Ref) -> Result | None:
        if ref in self.results:
            return self.results[ref]
        return self._read_results[ref] if ref in self._read_results else self.tables.results([ref]).get(ref)

    def result(self, ref: Ref) -> Result | None:
        """The result while it lives: until its time, and as long as a child may still ask for it."""
        result = self._kept_result(ref)
        if result is None or self.now < result.expires_at or self.edges_from(ref):
            return result
        return None

    def slot(self, ref: Ref) -> Slot | None:
        return self.slots[ref] if ref in self.slots else self.tables.slots([ref]).get(ref)

    def depth(self, lane: Lane) -> int:
        """Waiting jobs, this unit's own counted."""
        if lane not in self._read_depth:
            self._read_depth[lane] = self.tables.depth(lane)
        return self._read_depth[lane] + self._waiting.get(lane, 0)

    # Changing

    def next_seq(self) -> int:
        self.meta = replace(self.meta, seq=self.tables.next_seq(self.meta.seq))
        return self.meta.seq

    def add(self, step: Step, payload: bytes) -> None:
        """A new job."""
        self.payloads[step.job.ref] = payload
        self._put(None, step)

    def put(self, before: Job, step: Step) -> None:
        """A job that moved."""
        self._put(before, step)

    def _put(self, before: Job | None, step: Step) -> None:
        after, spec = step.job, step.job.spec
        ref = (spec.tenant, spec.id)
        if ref not in self.before:
            self.before[ref] = before
        self.after[ref] = after
        moved = (after.state in _WAITING) - (before is not None and before.state in _WAITING)
        if moved:
            lane = (spec.tenant, spec.queue)
            self._waiting[lane] = self._waiting.get(lane, 0) + moved
        self.tell(step)

    def put_edge(self, edge: Edge) -> None:
        self._change_edge(edge, edge)

    def drop_edge(self, edge: Edge) -> None:
        self._change_edge(edge, None)

    def _change_edge(self, edge: Edge, value: Edge | None) -> None:
        self.edges[edge.tenant, edge.parent, edge.child] = value
        self._by_parent.setdefault((edge.tenant, edge.parent), set()).add(edge.child)
        self._by_child.setdefault((edge.tenant, edge.child), set()).add(edge.parent)

    def attach(self, family: Attached, ref: Ref, member: str, value: Any) -> None:
        """Puts a row beside a job. Of those that were read beforehand (`fetch_members`) the first go if there are now
        more than its family may have.
        """
        changed = self.attached.setdefault((family.name, ref), {})
        changed[member] = value
        kept = {name for name in self._read_members.get((family.name, ref), ()) if changed.get(name, name) is not None}
        for first in sorted(kept | {member})[: -family.most]:
            changed[first] = None

    def free(self, slot: Slot) -> None:
        """A cancelled job's place is empty."""
        self.slots[slot.tenant, slot.job_id] = None
        self._freed.add(slot.queue)

    def defer(self, parent: Ref) -> None:
        """Leaves telling a parent's children to a later sweep."""
        self.meta = replace(self.meta, cascade_head=self.meta.cascade_head + 1)
        self.cascades[self.meta.cascade_head] = parent

    @property
    def ended_parents(self) -> list[Ref]:
        """Jobs that this unit brought to their end: children and callers wait for them."""
        moved = (ref for ref, job in self.after.items() if job.state.terminal and self._was_open(ref))
        return [*moved, *self._in_bulk()]

    @property
    def ended_jobs(self) -> list[Job]:
        """Jobs that are at their end now, in whatever state they are given: callers wait for them."""
        ended = [job for job in self.after.values() if job.state.terminal]
        for bulk in self.succeeded:
            ended += bulk.jobs
        return ended

    def _in_bulk(self) -> Iterator[Ref]:
        return (job.ref for bulk in self.succeeded for job in bulk.jobs)

    def _was_open(self, ref: Ref) -> bool:
        before = self.before[ref]
        return before is not None and not before.state.terminal

    def tell(self, step: Step) -> None:
        """Keeps a step's event, if it has one."""
        if step.event is not None:
            self.emit(step.event)

    def emit(self, event: Event) -> None:
        self.events_of(event.tenant).append(event)

    def events_of(self, tenant: str) -> list[Told]:
        """Where a tenant's events are put; a store may add lines that it has encoded, or folded."""
        events = self.events.get(tenant)
        if events is None:
            events = self.events[tenant] = []
        return events

    # Ending

    @property
    def wrote(self) -> bool:
        """Whether anything would be kept: only then does the store's time move."""
        return self.meta is not self._meta_before or any(
            (
                self.after,
                self.leased,
                self.succeeded,
                self.bindings,
                self.edges,
                self.letters,
                self.results,
                self.slots,
                self.attached,
                self.documents,
                self.buckets,
                self.positions,
                self.cascades,
                self.events,
                self.cleaned,
                self.purged,
            )
        )

    @property
    def meta_before(self) -> Meta:
        """The store's numbers as they were read."""
        return self._meta_before

    def changes(self) -> Changes:
        """What it read and changed, as a value."""
        return changes_of(self)

    def snapshot(self) -> dict[str, Any]:
        """What `restore` needs to undo everything after this point."""
        return {
            name: {key: _copied(kept) for key, kept in value.items()} if isinstance(value, dict) else _copied(value)
            for name, value in vars(self).items()
            if name != "tables"
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        vars(self).update(snapshot)

    def topics(self, jobs: bool = True) -> set[str]:
        """What waiters should look at again once this is kept; single jobs only if somebody waits for one."""
        queues = {after.spec.queue for ref, after in self.after.items() if _makes_room(self.before[ref], after)}
        topics = {queue_topic(queue) for queue in queues}
        if self.meta.frozen != self._meta_before.frozen:
            topics.add(EVERYTHING)
        if any(_called_off(self.before[ref], after) for ref, after in self.after.items()):
            topics.add(CANCELS)
        if jobs:
            topics.update(job_topic(job.ref) for job in self.ended_jobs)
        for (tenant, kind, name), document in self.documents.items():
            if kind == QUEUE:
                topics.add(queue_topic(name))
            elif kind == TENANT:
                topics.add(EVERYTHING)
            elif document is None or document.expires_at is None:  # one that expires says that somebody is there
                topics.add(document_topic(tenant, kind))
        topics.update(queue_topic(queue) for queue in self._freed)
        topics.update(queue_topic(bulk.ended.spec.queue) for bulk in self.succeeded if bulk.frees)
        if self.events:
            topics.add(FEED_TOPIC)
        return topics
