"""The model's tables in SQL: what the dialects have in common.

Everything here runs inside one transaction of one connection. A dialect says how statements are run, and how a unit's
changes are kept; the statements' names and columns are the same in all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from tenure.domain.calls import Document, JobFilter
from tenure.domain.config import QUEUE, TENANT, QueueRules, TenantConfig, merge
from tenure.domain.job import Binding, BindingKey, DeadLetter, Edge, Job, Ref, Result, Slot, Spec
from tenure.domain.model import Chunk, FinishedBatch, Meta, Unit
from tenure.domain.model.attached import Attached
from tenure.domain.model.documents import configs, parse
from tenure.domain.model.retention import Due, Ended
from tenure.domain.model.tables import BucketKey, DocumentKey, Lane
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.domain.store import Span
from tenure.stores import records
from tenure.stores.sql import rows
from tenure.stores.sql.dump import KEYS, dump, restore
from tenure.stores.sql.query import LISTED, query_sql
from tenure.stores.sql.rows import Row
from tenure.stores.ways import Ways

KEPT_SPECS = 20_000
"""Specs remembered between transactions."""


class SqlTables(ABC):
    """What the model remembers, as one transaction sees it."""

    listed = LISTED
    payload = "payload"
    """How a record's payload is asked for."""

    def __init__(self, ways: Ways | None = None) -> None:
        self.ways = Ways() if ways is None else ways
        self._meta = Meta()
        self._configured: dict[DocumentKey, Document] | None = None
        self._rules: dict[Lane, QueueRules] = {}
        self._tenant_configs: dict[str, TenantConfig] = {}
        self._payloads: dict[Ref, bytes] = {}
        self._specs: dict[int, Spec] = {}
        self.running: dict[Ref, Job] = {}
        """Jobs that this process saw to run, as they are."""

    # Running statements

    @abstractmethod
    def all(self, name: str, *values: Any) -> list[Row]:
        """The rows that a named statement finds."""

    @abstractmethod
    def of(self, name: str, keys: Sequence[Any]) -> list[Row]:
        """The rows that a named statement finds for many keys."""

    @abstractmethod
    def many(self, name: str, values: Iterable[Row]) -> None:
        """Runs a named statement for many rows."""

    @abstractmethod
    def run(self, name: str, *values: Any) -> None:
        """Runs a named statement whose answer doesn't matter."""

    @abstractmethod
    def stream(self, sql: str, values: Sequence[Any]) -> Iterator[Row]:
        """The rows of a statement made on the spot, its values marked by `?`."""

    def pages(self, sql: str, values: Sequence[Any], size: int) -> Iterator[list[Row]]:
        """The rows of such a statement, so many at once: no more of them are kept in memory."""
        rows = self.stream(sql, values)
        while page := list(islice(rows, size)):
            yield page

    def joins_results(self, where: JobFilter) -> bool:
        """Whether `records` can have results beside them, and it pays for such a filter."""
        return False

    def records(self, span: Span, with_results: bool = False) -> str:
        """Where the records of a span are found."""
        return "tenure.record"

    def row(self, name: str, *values: Any) -> Row:
        """The one row that a named statement finds."""
        found = self.all(name, *values)
        if not found:
            raise AssertionError(f"statement {name} found nothing")
        return found[0]

    def _records(self, name: str, *values: Any) -> list[Job]:
        return [self.record(row) for row in self.all(name, *values)]

    def record(self, row: Row) -> Job:
        """A record from its columns."""
        return rows.job_of(self.spec_of(row), row[2], row[3], row[4], row[5])

    def spec_of(self, row: Row) -> Spec:
        """What never changes of a record."""
        return self._specs.get(row[0]) or self._remember(row[0], row[1])

    def _remember(self, seq: int, blob: bytes) -> Spec:
        """A spec never changes: a job is claimed and settled by the same process, so it is decoded once."""
        if len(self._specs) >= KEPT_SPECS:
            self._specs.clear()
        spec = self._specs[seq] = records.spec_of(blob)
        return spec

    def childless(self, refs: Sequence[Ref]) -> bool:
        """Whether no job waits for one of these."""
        return not self.edges_from(refs)

    # Point reads

    def meta(self) -> Meta:
        return self._meta

    def next_seq(self, last: int) -> int:
        return last + 1

    def jobs(self, refs: Sequence[Ref]) -> dict[Ref, Job]:
        return {job.ref: job for job in map(self.record, self.of("jobs", refs))}

    def recent(self, refs: Sequence[Ref]) -> dict[Ref, Job]:
        """Jobs as this process last saw them run, the others as they are."""
        running = self.running
        found = {ref: job for ref in refs if (job := running.get(ref)) is not None}
        if len(found) < len(refs):
            found.update(SqlTables.jobs(self, [ref for ref in refs if ref not in found]))
        return found

    def payloads(self, refs: Sequence[Ref]) -> dict[Ref, bytes]:
        missing = [ref for ref in refs if ref not in self._payloads]
        if missing:
            self._payloads.update(((row[0], row[1]), row[2]) for row in self.of("payloads", missing))
        return {ref: self._payloads[ref] for ref in refs if ref in self._payloads}

    def bindings(self, keys: Sequence[BindingKey]) -> dict[BindingKey, Binding]:
        return {row[:4]: rows.binding_of(row) for row in self.of("bindings", keys)}

    def edges_from(self, parents: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        found: dict[Ref, list[Edge]] = {}
        for row in self.of("edges_from", parents):
            found.setdefault((row[0], row[1]), []).append(rows.edge_of(row))
        return found

    def edges_to(self, children: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        found: dict[Ref, list[Edge]] = {}
        for row in self.of("edges_to", children):
            found.setdefault((row[0], row[2]), []).append(rows.edge_of(row))
        return found

    def dead_letters(self, refs: Sequence[Ref]) -> dict[Ref, DeadLetter]:
        return {(row[0], row[1]): rows.letter_of(row) for row in self.of("dead_letters", refs)}

    def results(self, refs: Sequence[Ref]) -> dict[Ref, Result]:
        ended = {job.spec.seq: job for job in self.jobs(refs).values() if job.state is State.SUCCEEDED}
        found = self.results_at([(job.result_expires_at, seq) for seq, job in ended.items()])
        return {ended[seq].ref: result for seq, result in found.items()}

    def results_at(self, keys: Sequence[tuple[Ms, int]]) -> dict[int, Result]:
        """Results by arrival number, of (when they expire, arrival number)."""
        found = self.of("results", keys) if keys else []
        return {row[0]: Result(*row[1:]) for row in found}

    def slots(self, refs: Sequence[Ref]) -> dict[Ref, Slot]:
        return {(row[0], row[1]): rows.slot_of(row) for row in self.of("slots", refs)}

    def attached(self, family: Attached, jobs: Sequence[Job]) -> dict[Ref, dict[str, Any]]:
        refs = {job.spec.seq: job.ref for job in jobs}
        found: dict[Ref, dict[str, Any]] = {ref: {} for ref in refs.values()}
        for seq, member, body in self.of("attached", [(seq, family.name) for seq in refs]):
            found[refs[seq]][member] = rows.attached_of(family.name, body)
        return found

    def members(self, family: Attached, jobs: Sequence[Job]) -> dict[Ref, list[str]]:
        refs = {job.spec.seq: job.ref for job in jobs}
        found: dict[Ref, list[str]] = {ref: [] for ref in refs.values()}
        for seq, member in self.of("members", [(seq, family.name) for seq in refs]):
            found[refs[seq]].append(member)
        return found

    def document(self, key: DocumentKey) -> Document | None:
        if key[1] in (QUEUE, TENANT):
            return self._configuration().get(key)
        found = self.all("document", *key)
        return rows.document_of(found[0]) if found else None

    def _configuration(self) -> dict[DocumentKey, Document]:
        """Every configuration at once: a claim over many tenants asks for each of theirs."""
        if self._configured is None:
            found = (rows.document_of(row) for row in self.all("configuration", QUEUE, TENANT))
            self._configured = {(one.tenant, one.kind, one.name): one for one in found}
        return self._configured

    def _forget_config(self) -> None:
        self._configured = None
        self._rules.clear()
        self._tenant_configs.clear()

    def documents(self, tenant: str, kind: str, prefix: str) -> list[Document]:
        return [rows.document_of(row) for row in self.all("documents", tenant, kind, prefix)]

    def rules(self, tenant: str, queue: str) -> QueueRules:
        lane = (tenant, queue)
        if lane not in self._rules:
            self._rules[lane] = merge(*configs(self, tenant, queue))
        return self._rules[lane]

    def knows_rules(self, tenant: str, queue: str) -> bool:
        """Whether `rules` needn't ask."""
        return (tenant, queue) in self._rules

    def tenant_config(self, tenant: str) -> TenantConfig:
        if tenant not in self._tenant_configs:
            document = self.document((tenant, TENANT, tenant))
            config = None if document is None or document.body is None else parse(TENANT, document.body)
            self._tenant_configs[tenant] = config if isinstance(config, TenantConfig) else TenantConfig()
        return self._tenant_configs[tenant]

    def bucket(self, key: BucketKey) -> int:
        found = self.all("bucket", *key)
        return found[0][0] if found else 0

    def position(self, lane: Lane) -> str:
        found = self.all("position", *lane)
        return found[0][0] if found else ""

    # Counts

    def depth(self, lane: Lane) -> int:
        return int(self.row("depth", lane[1], lane[0])[0])

    @abstractmethod
    def held(self, lane: Lane) -> int: ...

    @abstractmethod
    def holders(self, lane: Lane, group: str) -> int: ...

    def live_tenants(self, queue: str) -> list[str]:
        return [row[0] for row in self.all("live_tenants", queue)]

    def arriving(self, lane: Lane) -> bool:
        return False  # one writes at a time

    # Scans of a claim

    @abstractmethod
    def promote(self, queues: Sequence[str], now: Ms) -> None: ...

    def running_under(self, token: bytes) -> list[Ref]:
        return self.all("running_under", token)

    def tenants(self, queues: Sequence[str], after: str, limit: int) -> list[str]:
        found = {row[0] for queue in queues for row in self.all("tenants", queue, after, limit)}
        return sorted(found)[:limit]

    def groups(self, lane: Lane, after: str, limit: int) -> list[str]:
        return [row[0] for row in self.all("groups", lane[1], lane[0], after, limit)]

    def line(self, lane: Lane, group: str, now: Ms, ahead: Callable[[], int]) -> Iterator[Job]:
        return self.line_after(lane, group, now, ahead, (-101, 0, 0))

    def line_after(
        self, lane: Lane, group: str, now: Ms, ahead: Callable[[], int], last: tuple[int, Ms, int]
    ) -> Iterator[Job]:
        """A line from after a place (-priority, run_at, seq) on."""
        (tenant, queue), grown = lane, 1
        record, payloads = self.record, self._payloads
        while True:
            size = max(ahead(), grown)
            page = self.all("line", queue, tenant, group, *last, now, size)
            for row in page:
                job = record(row)
                payloads[tenant, job.spec.id] = row[6]
                yield job
            if len(page) < size:
                return
            last, grown = (-page[-1][3], page[-1][4], page[-1][0]), min(2 * size, 256)

    def head(self, lane: Lane, group: str, now: Ms) -> Job | None:
        found = self._records("head", lane[1], lane[0], group, now)
        return found[0] if found else None

    @abstractmethod
    def upcoming(self, queue: str, now: Ms) -> Iterator[tuple[Ms, str]]: ...

    # Scans of sweep and purge

    def cascades(self, limit: int) -> list[tuple[int, Ref]]:
        return [(row[0], (row[1], row[2])) for row in self.all("cascades", limit)]

    def lost(self, now: Ms, limit: int) -> list[Job]:
        return self._records("lost", now, limit)

    def expired(self, now: Ms, limit: int) -> list[Job]:
        return self._records("expired", now, limit)

    def drained(self, now: Ms, limit: int) -> list[Slot]:
        return [rows.slot_of(row) for row in self.all("drained", now, limit)]

    def due(self, kind: str, until: int, after: Due | None, limit: int) -> list[Due]:
        at, key = (-1, ("",) * KEYS[kind]) if after is None else (after.at, after.key)
        found = self.all(f"due_{kind}", until, at, *key, limit)
        return [Due(row[0], row[2:], row[1]) for row in found]

    def clean(self, unit: Unit) -> None:
        """Removes the rows that a sweep chose, unless their time is another now."""
        for kind, cleaned in unit.cleaned.items():
            keys = [(one.at, one.seq) if kind == "result" else (*one.key, one.at) for one in cleaned]
            self.many(f"clean_{kind}", sorted(keys))

    @abstractmethod
    def tidy(self, now: Ms, limit: int) -> None: ...

    def old_chunks(self, before: Ms, limit: int) -> int | None:
        last: int | None = self.row("old_chunks", before, limit)[0]
        return last

    def finished(self) -> list[FinishedBatch]:
        found: list[FinishedBatch] = []
        last: tuple[int, str] = (-1, "")
        while page := self.all("next_finished", *last):
            last = (page[0][0], page[0][1])
            found.append(FinishedBatch(last[0], State(last[1])))
        return found

    def ended(self, batch: FinishedBatch, after: int, limit: int) -> list[Ended]:
        found = self.all("ended_jobs", batch.day, batch.state.value, after, limit)
        return [rows.ended_of(row) for row in found]

    # Lists

    def query(self, where: JobFilter, before_seq: int | None, limit: int) -> list[Job]:
        return [self.record(row) for row in self.stream(*query_sql(where, before_seq, limit, self.listed))]

    def chunks(self, tenant: str | None, after: int, limit: int) -> list[Chunk]:
        found = self.all("chunks", after, limit) if tenant is None else self.all("tenant_chunks", after, limit, tenant)
        return [rows.chunk_of(row) for row in found]

    # Transfer

    def dump(self, kind: str, after: str, limit: int) -> list[tuple[str, Any]]:
        if kind == "meta":
            return [] if after else [("meta", self._meta)]
        return dump(self, kind, after, limit)

    def restore(self, kind: str, value: Any) -> None:
        restore(self, kind, value)
        self._specs.clear()
        self.running.clear()
        if kind == "document":
            self.run("touch_config")
            self._forget_config()

    # Writing

    @abstractmethod
    def restore_job(self, job: Job) -> None:
        """Writes a record verbatim, with all that is derived from it."""

    @abstractmethod
    def keep(self, unit: Unit) -> None: ...

    def keep_attached(self, unit: Unit) -> None:
        """Writes the rows that a unit put beside records, and takes away those that it took."""
        changed = [
            ((job.spec.seq, family, member), value)
            for (family, ref), rows_of in unit.attached.items()
            if (job := unit.job(ref)) is not None
            for member, value in rows_of.items()
        ]
        put = [(*key, records.encode(value)) for key, value in changed if value is not None]
        gone = [key for key, value in changed if value is None]
        if put:
            self.many("put_attached", sorted(put))
        if gone:
            self.many("drop_attached", sorted(gone))
