"""The model's tables as dictionaries, with the sorted lists that its scans walk."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from tenure.domain.calls import Document, JobFilter
from tenure.domain.config import TENANT, QueueRules, TenantConfig, merge
from tenure.domain.event import encode_events
from tenure.domain.job import Binding, BindingKey, DeadLetter, Edge, Job, Ref, Result, Slot
from tenure.domain.model import Chunk, FinishedBatch, Meta, Unit
from tenure.domain.model.attached import ATTACHED, Attached
from tenure.domain.model.documents import configs, parse
from tenure.domain.model.families import FAMILIES
from tenure.domain.model.listing import conditions, matches
from tenure.domain.model.retention import Due, Ended
from tenure.domain.model.tables import BucketKey, DocumentKey, Lane
from tenure.domain.names import DAY, Ms
from tenure.domain.states import TERMINAL, State

K = TypeVar("K")
V = TypeVar("V")

Place = tuple[str, str, str]
"""(queue, tenant, group), the group empty in a plain queue."""
Order = tuple[int, Ms, int, Ref]
"""(−priority, run_at, seq, ref): tuple order is the contract's order."""


class Indexes:
    """Everything derived from the records; rebuilt from them it must come out the same (`verify`)."""

    def __init__(self) -> None:
        self.lines: dict[Place, list[Order]] = {}
        self.groups: dict[tuple[str, str], list[str]] = {}
        self.tenants: dict[str, list[str]] = {}
        self.scheduled: dict[str, list[tuple[Ms, int, Ref]]] = {}
        self.in_order: dict[Place, list[tuple[int, Ref]]] = {}
        self.waiting: dict[Lane, set[Ref]] = {}
        self.running: dict[Lane, set[Ref]] = {}
        self.holders: dict[Place, set[tuple[Ref, int]]] = {}
        self.claims: dict[bytes, set[Ref]] = {}
        self.expiring: list[tuple[Ms, Ref]] = []
        self.promoted: Ms = 0

    def add(self, job: Job) -> None:
        self._change(job, adding=True)

    def remove(self, job: Job) -> None:
        self._change(job, adding=False)

    def _change(self, job: Job, adding: bool) -> None:
        spec, ref, place = job.spec, job.ref, _place(job)
        if job.state in (State.PENDING, State.BLOCKED):
            _in_set(self.waiting, spec.lane, ref, adding)
        if job.state is State.PENDING:
            self._queue(job, adding)
            if job.expires_at is not None:
                _in_list(self.expiring, (job.expires_at, ref), adding)
        if job.state is State.RUNNING:
            _in_set(self.running, spec.lane, ref, adding)
            _in_set(self.claims, job.token or b"", ref, adding)
            self.hold(place, ref, job.lease_seq, adding)
        if spec.group is not None and job.state in (State.PENDING, State.RUNNING):
            _in_lists(self.in_order, place, (spec.seq, ref), adding)

    def hold(self, place: Place, ref: Ref, lease_seq: int, adding: bool) -> None:
        """A lease, running or draining, takes or leaves a place of its group."""
        if place[2]:
            _in_set(self.holders, place, (ref, lease_seq), adding)

    def _queue(self, job: Job, adding: bool) -> None:
        if job.run_at > self.promoted:
            _in_lists(self.scheduled, job.spec.queue, (job.run_at, job.spec.seq, job.ref), adding)
        else:
            self._line(job, adding)

    def _line(self, job: Job, adding: bool) -> None:
        place = _place(job)
        queue, tenant, group = place
        was = place in self.lines
        _in_lists(self.lines, place, (-job.priority, job.run_at, job.spec.seq, job.ref), adding)
        if was != (place in self.lines):
            _in_lists(self.groups, (queue, tenant), group, adding)
            known = self.tenants.setdefault(queue, [])
            present = (queue, tenant) in self.groups
            if present != (tenant in known[bisect_left(known, tenant) : bisect_right(known, tenant)]):
                _in_list(known, tenant, present)

    def promote(self, now: Ms, jobs: dict[Ref, Job]) -> None:
        """Moves the border between due and scheduled jobs to `now`, in either direction."""
        before, self.promoted = self.promoted, now
        if now > before:
            for queue in [queue for queue, waiting in self.scheduled.items() if waiting[0][0] <= now]:
                waiting = self.scheduled[queue]
                due = bisect_right(waiting, now, key=lambda entry: entry[0])
                for _, _, ref in waiting[:due]:
                    self._line(jobs[ref], adding=True)
                self.scheduled[queue] = waiting[due:]
                if not self.scheduled[queue]:
                    del self.scheduled[queue]
        elif now < before:
            early = [order[3] for line in self.lines.values() for order in line if order[1] > now]
            for ref in early:
                self._line(jobs[ref], adding=False)
                self._queue(jobs[ref], adding=True)


def _place(job: Job) -> Place:
    return (job.spec.queue, job.spec.tenant, job.spec.group or "")


def _in_set(sets: dict[K, set[V]], key: K, value: V, adding: bool) -> None:
    if adding:
        sets.setdefault(key, set()).add(value)
    else:
        sets[key].remove(value)
        if not sets[key]:
            del sets[key]


def _in_list(values: list[Any], value: Any, adding: bool) -> None:
    if adding:
        insort(values, value)
    else:
        at = bisect_left(values, value)
        if values[at] != value:
            raise AssertionError(f"{value!r} isn't indexed")
        del values[at]


def _in_lists(lists: dict[K, list[V]], key: K, value: V, adding: bool) -> None:
    _in_list(lists.setdefault(key, []), value, adding)
    if not lists[key]:
        del lists[key]


def _some(table: dict[K, V], keys: Sequence[K]) -> dict[K, V]:
    return {key: table[key] for key in keys if key in table}


class MemoryTables:
    """What the model remembers, in this process."""

    def __init__(self) -> None:
        self._meta = Meta()
        self._jobs: dict[Ref, Job] = {}
        self._bodies: dict[Ref, bytes] = {}
        self._bindings: dict[BindingKey, Binding] = {}
        self._edges: dict[tuple[str, str, str], Edge] = {}
        self._from: dict[Ref, dict[str, Edge]] = {}
        self._to: dict[Ref, dict[str, Edge]] = {}
        self._letters: dict[Ref, DeadLetter] = {}
        self._results: dict[Ref, Result] = {}
        self._slots: dict[Ref, Slot] = {}
        self._attached: dict[tuple[str, Ref], dict[str, Any]] = {}
        self._documents: dict[DocumentKey, Document] = {}
        self._buckets: dict[BucketKey, int] = {}
        self._positions: dict[Lane, str] = {}
        self._cascades: dict[int, Ref] = {}
        self._rows: dict[str, dict[Any, Any]] = {
            "job": self._jobs,
            "body": self._bodies,
            "binding": self._bindings,
            "edge": self._edges,
            "dead_letter": self._letters,
            "result": self._results,
            "slot": self._slots,
            "cascade": self._cascades,
            "bucket": self._buckets,
            "position": self._positions,
            "document": self._documents,
        }
        """The rows of each family."""
        self._chunks: list[Chunk] = []
        self._rules: dict[Lane, QueueRules] = {}
        self._index = Indexes()

    # Point reads

    def meta(self) -> Meta:
        return self._meta

    def next_seq(self, last: int) -> int:
        return last + 1

    def jobs(self, refs: Sequence[Ref]) -> dict[Ref, Job]:
        return _some(self._jobs, refs)

    def payloads(self, refs: Sequence[Ref]) -> dict[Ref, bytes]:
        return _some(self._bodies, refs)

    def bindings(self, keys: Sequence[BindingKey]) -> dict[BindingKey, Binding]:
        return _some(self._bindings, keys)

    def edges_from(self, parents: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        return {ref: list(edges.values()) for ref, edges in _some(self._from, parents).items()}

    def edges_to(self, children: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        return {ref: list(edges.values()) for ref, edges in _some(self._to, children).items()}

    def dead_letters(self, refs: Sequence[Ref]) -> dict[Ref, DeadLetter]:
        return _some(self._letters, refs)

    def results(self, refs: Sequence[Ref]) -> dict[Ref, Result]:
        return _some(self._results, refs)

    def slots(self, refs: Sequence[Ref]) -> dict[Ref, Slot]:
        return _some(self._slots, refs)

    def attached(self, family: Attached, jobs: Sequence[Job]) -> dict[Ref, dict[str, Any]]:
        return {job.ref: self._attached.get((family.name, job.ref), {}) for job in jobs}

    def members(self, family: Attached, jobs: Sequence[Job]) -> dict[Ref, list[str]]:
        return {ref: list(rows) for ref, rows in self.attached(family, jobs).items()}

    def document(self, key: DocumentKey) -> Document | None:
        return self._documents.get(key)

    def documents(self, tenant: str, kind: str, prefix: str) -> list[Document]:
        found = (key for key in self._documents if key[:2] == (tenant, kind) and key[2].startswith(prefix))
        return [self._documents[key] for key in sorted(found)]

    def rules(self, tenant: str, queue: str) -> QueueRules:
        lane = (tenant, queue)
        if lane not in self._rules:
            self._rules[lane] = merge(*configs(self, tenant, queue))
        return self._rules[lane]

    def tenant_config(self, tenant: str) -> TenantConfig:
        document = self._documents.get((tenant, TENANT, tenant))
        config = None if document is None or document.body is None else parse(TENANT, document.body)
        return config if isinstance(config, TenantConfig) else TenantConfig()

    def bucket(self, key: BucketKey) -> int:
        return self._buckets.get(key, 0)

    def position(self, lane: Lane) -> str:
        return self._positions.get(lane, "")

    # Counts

    def depth(self, lane: Lane) -> int:
        return len(self._index.waiting.get(lane, ()))

    def held(self, lane: Lane) -> int:
        draining = sum((slot.tenant, slot.queue) == lane for slot in self._slots.values())
        return len(self._index.running.get(lane, ())) + draining

    def holders(self, lane: Lane, group: str) -> int:
        return len(self._index.holders.get((lane[1], lane[0], group), ()))

    def live_tenants(self, queue: str) -> list[str]:
        lanes = self._index.waiting.keys() | self._index.running.keys()
        return sorted(tenant for tenant, of in lanes if of == queue)

    def arriving(self, lane: Lane) -> bool:
        return False

    # Scans of a claim

    def promote(self, queues: Sequence[str], now: Ms) -> None:
        self._index.promote(now, self._jobs)

    def running_under(self, token: bytes) -> list[Ref]:
        return sorted(self._index.claims.get(token, ()))

    def tenants(self, queues: Sequence[str], after: str, limit: int) -> list[str]:
        found: set[str] = set()
        for queue in queues:
            known = self._index.tenants.get(queue, [])
            start = bisect_right(known, after)
            found.update(known[start : start + limit])
        return sorted(found)[:limit]

    def groups(self, lane: Lane, after: str, limit: int) -> list[str]:
        known = self._index.groups.get((lane[1], lane[0]), [])
        start = bisect_right(known, after)
        return known[start : start + limit]

    def line(self, lane: Lane, group: str, now: Ms, ahead: Callable[[], int]) -> Iterator[Job]:
        for _, run_at, _, ref in self._index.lines.get((lane[1], lane[0], group), ()):
            job = self._jobs[ref]
            if run_at <= now and not job.expired(now):
                yield job

    def head(self, lane: Lane, group: str, now: Ms) -> Job | None:
        line = self._index.in_order.get((lane[1], lane[0], group), ())
        jobs = (self._jobs[ref] for _, ref in line)
        return next((job for job in jobs if not job.expired(now)), None)

    def upcoming(self, queue: str, now: Ms) -> Iterator[tuple[Ms, str]]:
        for run_at, _, (tenant, _) in self._index.scheduled.get(queue, ()):
            if run_at > now:
                yield run_at, tenant

    # Scans of sweep and purge

    def cascades(self, limit: int) -> list[tuple[int, Ref]]:
        return sorted(self._cascades.items())[:limit]

    def lost(self, now: Ms, limit: int) -> list[Job]:
        running = (self._jobs[ref] for refs in self._index.running.values() for ref in refs)
        lost = [(job.lease.deadline, *job.ref, job) for job in running if job.lease and job.lease.expired(now)]
        return [entry[3] for entry in sorted(lost, key=lambda entry: entry[:3])[:limit]]

    def expired(self, now: Ms, limit: int) -> list[Job]:
        due = bisect_right(self._index.expiring, now, key=lambda entry: entry[0])
        return [self._jobs[ref] for _, ref in self._index.expiring[: min(due, limit)]]

    def drained(self, now: Ms, limit: int) -> list[Slot]:
        slots = [slot for slot in self._slots.values() if now > slot.deadline]
        return sorted(slots, key=lambda slot: (slot.deadline, slot.tenant, slot.job_id))[:limit]

    def due(self, kind: str, until: int, after: Due | None, limit: int) -> list[Due]:
        found = [Due(at, key) for key, at in self._times(kind) if at is not None and at <= until]
        found.sort(key=lambda one: (one.at, one.key))
        return [one for one in found if after is None or (one.at, one.key) > (after.at, after.key)][:limit]

    def _times(self, kind: str) -> Iterable[tuple[Any, int | None]]:
        if kind == "bucket":
            return self._buckets.items()
        return [(key, one.expires_at) for key, one in self._rows[kind].items()]

    def tidy(self, now: Ms, limit: int) -> None:
        """Nothing here is for its own use only."""

    def old_chunks(self, before: Ms, limit: int) -> int | None:
        old = bisect_left(self._chunks, before, key=lambda chunk: chunk.at)
        return self._chunks[min(old, limit) - 1].position if old else None

    def finished(self) -> list[FinishedBatch]:
        ended = {(job.finished_at // DAY, job.state) for job in self._jobs.values() if job.finished_at is not None}
        return [FinishedBatch(day, state) for day, state in sorted(ended)]

    def ended(self, batch: FinishedBatch, after: int, limit: int) -> list[Ended]:
        found = [
            self._ended(job)
            for job in self._jobs.values()
            if job.finished_at is not None and job.finished_at // DAY == batch.day and job.state is batch.state
        ]
        return sorted((one for one in found if one.seq > after), key=lambda one: one.seq)[:limit]

    def _ended(self, job: Job) -> Ended:
        ref, key, letter = job.ref, job.spec.binding_key, self._letters.get(job.ref)
        binding = None if key is None else self._bindings.get(key)
        bound = binding is not None and binding.job_id == job.spec.id
        return Ended(
            ref,
            job.spec.seq,
            key if bound else None,
            binding if bound else None,
            None if letter is None else letter.disposition,
            ref in self._from,
            ref in self._slots,
        )

    def _forget(self, job: Ended) -> None:
        for family in FAMILIES.values():
            if family.of_job:
                self._rows[family.name].pop(job.ref, None)
        for name in ATTACHED:
            self._attached.pop((name, job.ref), None)
        if job.key is not None:
            del self._bindings[job.key]

    # Lists

    def query(self, where: JobFilter, before_seq: int | None, limit: int) -> list[Job]:
        asked = list(conditions(where))
        found = [job for job in self._jobs.values() if matches(job, self._letters.get(job.ref), asked)]
        if before_seq is not None:
            found = [job for job in found if job.spec.seq < before_seq]
        return sorted(found, key=lambda job: -job.spec.seq)[:limit]

    def chunks(self, tenant: str | None, after: int, limit: int) -> list[Chunk]:
        start = bisect_right(self._chunks, after, key=lambda chunk: chunk.position)
        if tenant is None:
            return self._chunks[start : start + limit]
        return [chunk for chunk in self._chunks[start:] if chunk.tenant == tenant][:limit]

    # Transfer

    def dump(self, kind: str, after: str, limit: int) -> list[tuple[str, Any]]:
        rows = [(_sort_key(key), value) for key, value in self._dumped(kind)]
        return sorted((row for row in rows if row[0] > after), key=lambda row: row[0])[:limit]

    def _dumped(self, kind: str) -> list[tuple[Any, Any]]:
        if kind == "meta":
            return [(("meta",), self._meta)]
        if kind == "chunk":
            return [((chunk.position,), chunk) for chunk in self._chunks]
        if kind in ATTACHED:
            return [
                ((*ref, member), (ref, member, value))
                for (name, ref), rows in self._attached.items()
                if name == kind
                for member, value in rows.items()
            ]
        row = FAMILIES[kind].row
        return [(key if isinstance(key, tuple) else (key,), row(key, one)) for key, one in self._rows[kind].items()]

    def restore(self, kind: str, value: Any) -> None:
        if kind == "chunk":
            at = bisect_left(self._chunks, value.position, key=lambda chunk: chunk.position)
            known = self._chunks[at : at + 1]
            self._chunks[at : at + (1 if known and known[0].position == value.position else 0)] = [value]
        elif kind in ATTACHED:
            ref, member, row = value
            self._attach(kind, ref, {member: row})
        else:
            self._put(kind, *FAMILIES[kind].pair(value))

    # Writing

    def keep(self, unit: Unit) -> None:
        for family in FAMILIES.values():
            for key, value in getattr(unit, family.changes).items():
                self._put(family.name, key, value)
        for (name, ref), changed in unit.attached.items():
            self._attach(name, ref, changed)
        for kind, cleaned in unit.cleaned.items():
            for one in cleaned:
                self._put(kind, one.key, None)
        for purged in unit.purged.values():
            for job in purged:
                self._forget(job)
        self._meta = unit.meta
        for tenant, events in unit.events.items():
            self._meta = replace(self._meta, feed_head=self._meta.feed_head + 1)
            self._chunks.append(Chunk(self._meta.feed_head, tenant, unit.now, encode_events(events)))
        kept = bisect_right(self._chunks, unit.meta.feed_floor, key=lambda chunk: chunk.position)
        del self._chunks[:kept]
        if unit.wrote:
            self._meta = replace(self._meta, mark=max(self._meta.mark, unit.now))

    def _put(self, family: str, key: Any, value: Any) -> None:
        """A row as it is from now on; None: it goes. Records, edges and slots have indexes beside them."""
        match family:
            case "job":
                self._save(value)
            case "edge":
                self._put_edge(key, value)
            case "slot":
                self._put_slot(key, value)
            case _:
                _merge(self._rows[family], {key: value})
        if family == "document":
            self._rules.clear()

    def _save(self, job: Job) -> None:
        before = self._jobs.get(job.ref)
        if before is not None:
            self._index.remove(before)
        self._jobs[job.ref] = job
        if job.state not in TERMINAL:
            self._index.add(job)

    def _put_edge(self, key: tuple[str, str, str], edge: Edge | None) -> None:
        tenant, parent, child = key
        for table, end, other in ((self._from, parent, child), (self._to, child, parent)):
            edges = table.setdefault((tenant, end), {})
            if edge is None:
                edges.pop(other, None)
            else:
                edges[other] = edge
            if not edges:
                del table[tenant, end]
        _merge(self._edges, {key: edge})

    def _attach(self, family: str, ref: Ref, changed: dict[str, Any]) -> None:
        rows = {**self._attached.get((family, ref), {}), **changed}
        self._attached[family, ref] = {member: rows[member] for member in sorted(rows) if rows[member] is not None}

    def _put_slot(self, ref: Ref, slot: Slot | None) -> None:
        before = self._slots.get(ref)
        for one, adding in ((before, False), (slot, True)):
            if one is not None:
                self._index.hold((one.queue, one.tenant, one.group or ""), ref, one.lease_seq, adding)
        _merge(self._slots, {ref: slot})

    def verify(self) -> list[str]:
        """Differences between the indexes and what the records say they should be."""
        rebuilt = Indexes()
        rebuilt.promoted = self._index.promoted
        for job in self._jobs.values():
            if job.state not in TERMINAL:
                rebuilt.add(job)
        for ref, slot in self._slots.items():
            rebuilt.hold((slot.queue, slot.tenant, slot.group or ""), ref, slot.lease_seq, True)
        differing = [
            f"index {name} differs from its records"
            for name, value in vars(rebuilt).items()
            if _filled(value) != _filled(getattr(self._index, name))
        ]
        return differing + [
            f"{len(rows)} rows of {family} beside {ref}"
            for (family, ref), rows in self._attached.items()
            if ref not in self._jobs or len(rows) > ATTACHED[family].most
        ]


def _filled(index: Any) -> Any:
    return {key: value for key, value in index.items() if value} if isinstance(index, dict) else index


def _merge(table: dict[K, V], changes: dict[K, V | None]) -> None:
    for key, value in changes.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def _sort_key(key: Any) -> str:
    return "\0".join(f"{part:020d}" if isinstance(part, int) else part for part in key)
