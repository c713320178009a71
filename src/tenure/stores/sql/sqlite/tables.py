"""The model's tables in a SQLite file. Everything here runs inside one transaction of one connection."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import astuple, replace

from tenure.domain.calls import Document, JobFilter
from tenure.domain.config import QUEUE, TENANT, QueueRules, TenantConfig, merge
from tenure.domain.event import encode_events
from tenure.domain.job import Binding, BindingKey, DeadLetter, Edge, Job, Ref, Result, Slot, Spec
from tenure.domain.model import Chunk, FinishedBatch, Meta, Unit
from tenure.domain.model.documents import configs, parse
from tenure.domain.model.tables import BucketKey, DocumentKey, Lane
from tenure.domain.names import DAY, Ms
from tenure.domain.states import State
from tenure.stores.sql import statements
from tenure.stores.sql.sqlite import rows
from tenure.stores.sql.sqlite.dump import dump, restore
from tenure.stores.sql.sqlite.places import key_of, moved, places
from tenure.stores.sql.sqlite.query import query_sql
from tenure.stores.sql.sqlite.rows import Row

K = TypeVar("K")
V = TypeVar("V")

SQL = statements.load(__package__ or "", "read", "claim", "sweep", "write", "transfer")

PROMOTED_AT_ONCE = 10_000
"""Jobs of a queue that one claim moves to `ready`: a flood of due jobs must not stall a claim for seconds."""

KEPT_SPECS = 20_000
"""Specs remembered between transactions."""

_json = msgspec.json.Encoder().encode


class HotMoves:
    """What the hot path will write."""

    def __init__(self, running: dict[Ref, Job]) -> None:
        self.running = running
        """Running jobs as they will be; shared with the tables."""
        self.clear()

    def clear(self) -> None:
        self.saved: list[Row] = []
        self.leased: dict[tuple[str, str, bytes], list[Row]] = defaultdict(list)
        """(queue, tenant, token) → the plain jobs without expiry taken there, in order: (*place, deadline)."""
        self.succeeded: list[int] = []
        self.results: list[Row] = []


class SqliteTables:
    """What the model remembers, as one transaction sees it. `begin` must come before anything else."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._meta = Meta()
        self._promoted: Ms = 0
        self._config = -1
        self._configured: dict[DocumentKey, Document] | None = None
        self._rules: dict[Lane, QueueRules] = {}
        self._tenant_configs: dict[str, TenantConfig] = {}
        self._payloads: dict[Ref, bytes] = {}
        self._specs: dict[int, Spec] = {}
        self._running: dict[Ref, Job] = {}
        self.hot = HotMoves(self._running)
        self._held: dict[Lane, dict[str, int]] | None = None
        self._data_version = -1

    def begin(self, rolled_back: bool = False) -> Meta:
        """Reads the store's own numbers; call it when a transaction begins or was rolled back.

        Running jobs are remembered from one transaction to the next while nobody else writes to the file.
        """
        version = self.connection.execute("PRAGMA data_version").fetchone()[0]
        if rolled_back or version != self._data_version:
            self._data_version = version
            self._running.clear()
        *numbers, self._promoted, config = self._row("meta")
        self._meta = Meta(numbers[0], numbers[1], numbers[2], bool(numbers[3]), bool(numbers[4]), *numbers[5:])
        if config != self._config or rolled_back:
            self._forget_config()
            self._config = config
        self._payloads.clear()
        self._held = None
        self.hot.clear()
        return self._meta

    # Running statements

    def _all(self, name: str, *values: Any) -> list[Row]:
        return self.connection.execute(SQL[name], values).fetchall()

    def _row(self, name: str, *values: Any) -> Row:
        row: Row | None = self.connection.execute(SQL[name], values).fetchone()
        if row is None:
            raise AssertionError(f"statement {name} found nothing")
        return row

    def _many(self, name: str, values: Iterable[Row]) -> int:
        return self.connection.executemany(SQL[name], values).rowcount

    def _records(self, name: str, *values: Any) -> list[Job]:
        return [self._record(row) for row in self.connection.execute(SQL[name], values)]

    def _record(self, row: Row) -> Job:
        seq = row[0]
        spec = self._specs.get(seq)
        if spec is None:
            spec = self._remember(seq, row[1])
        return rows.job_of(spec, row[2], row[3])

    def _remember(self, seq: int, blob: bytes) -> Spec:
        """A spec never changes: a job is claimed and settled by the same process, so it is decoded once."""
        if len(self._specs) >= KEPT_SPECS:
            self._specs.clear()
        spec = self._specs[seq] = rows.spec_of(blob)
        return spec

    # Point reads

    def meta(self) -> Meta:
        return self._meta

    def jobs(self, refs: Sequence[Ref]) -> dict[Ref, Job]:
        running = self._running
        found = {ref: running[ref] for ref in refs if ref in running}
        if len(found) < len(refs):
            missing = [ref for ref in refs if ref not in found]
            found.update((job.ref, job) for job in self._records("jobs", _json(missing).decode()))
        return found

    def payloads(self, refs: Sequence[Ref]) -> dict[Ref, bytes]:
        missing = [ref for ref in refs if ref not in self._payloads]
        if missing:
            self._payloads.update(((row[0], row[1]), row[2]) for row in self._all("payloads", _json(missing).decode()))
        return {ref: self._payloads[ref] for ref in refs if ref in self._payloads}

    def bindings(self, keys: Sequence[BindingKey]) -> dict[BindingKey, Binding]:
        return {row[:4]: rows.binding_of(row) for row in self._all("bindings", _json(keys).decode())}

    def edges_from(self, parents: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        found: dict[Ref, list[Edge]] = {}
        if self._row("has_edges")[0]:
            for row in self._all("edges_from", _json(parents).decode()):
                found.setdefault((row[0], row[1]), []).append(rows.edge_of(row))
        return found

    def edges_to(self, children: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        found: dict[Ref, list[Edge]] = {}
        for row in self._all("edges_to", _json(children).decode()):
            found.setdefault((row[0], row[2]), []).append(rows.edge_of(row))
        return found

    def dead_letters(self, refs: Sequence[Ref]) -> dict[Ref, DeadLetter]:
        return {(row[0], row[1]): rows.letter_of(row) for row in self._all("dead_letters", _json(refs).decode())}

    def results(self, refs: Sequence[Ref]) -> dict[Ref, Result]:
        ended = {job.spec.seq: job for job in self.jobs(refs).values() if job.state is State.SUCCEEDED}
        keys = [(job.result_expires_at, seq) for seq, job in ended.items()]
        found = self._all("results", _json(keys).decode()) if keys else []
        return {ended[row[0]].ref: Result(*row[1:]) for row in found}

    def slots(self, refs: Sequence[Ref]) -> dict[Ref, Slot]:
        return {(row[0], row[1]): rows.slot_of(row) for row in self._all("slots", _json(refs).decode())}

    def document(self, key: DocumentKey) -> Document | None:
        if key[1] in (QUEUE, TENANT):
            return self._configuration().get(key)
        found = self._all("document", *key)
        return rows.document_of(found[0]) if found else None

    def _configuration(self) -> dict[DocumentKey, Document]:
        """Every configuration at once: a claim over many tenants asks for each of theirs."""
        if self._configured is None:
            found = (rows.document_of(row) for row in self._all("configuration", QUEUE, TENANT))
            self._configured = {(one.tenant, one.kind, one.name): one for one in found}
        return self._configured

    def documents(self, tenant: str, kind: str, prefix: str) -> list[Document]:
        return [rows.document_of(row) for row in self._all("documents", tenant, kind, prefix)]

    def rules(self, tenant: str, queue: str) -> QueueRules:
        lane = (tenant, queue)
        if lane not in self._rules:
            self._rules[lane] = merge(*configs(self, tenant, queue))
        return self._rules[lane]

    def tenant_config(self, tenant: str) -> TenantConfig:
        if tenant not in self._tenant_configs:
            document = self.document((tenant, TENANT, tenant))
            config = None if document is None or document.body is None else parse(TENANT, document.body)
            self._tenant_configs[tenant] = config if isinstance(config, TenantConfig) else TenantConfig()
        return self._tenant_configs[tenant]

    def bucket(self, key: BucketKey) -> int:
        found = self._all("bucket", *key)
        return found[0][0] if found else 0

    def position(self, lane: Lane) -> str:
        found = self._all("position", *lane)
        return found[0][0] if found else ""

    # Counts

    def depth(self, lane: Lane) -> int:
        return int(self._row("depth", lane[1], lane[0])[0])

    def held(self, lane: Lane) -> int:
        return sum(self._holding().get(lane, {}).values())

    def holders(self, lane: Lane, group: str) -> int:
        return self._holding().get(lane, {}).get(group, 0)

    def _holding(self) -> dict[Lane, dict[str, int]]:
        """Leases in force by lane and group, counted once for a claim that visits many groups."""
        if self._held is None:
            self._held = defaultdict(dict)
            for tenant, queue, group, count in self._all("holders"):
                self._held[tenant, queue][group] = count
        return self._held

    def live_tenants(self, queue: str) -> list[str]:
        return [row[0] for row in self._all("live_tenants", queue)]

    # Scans of a claim

    def promote(self, queues: Sequence[str], now: Ms) -> None:
        if now < self._promoted:
            self.connection.execute(SQL["demote"], (now,))
            self.connection.execute(SQL["demoted"], (now,))
            self._set_promoted(now)
        for queue in queues:
            values = (queue, now, PROMOTED_AT_ONCE)
            if self.connection.execute(SQL["promote"], values).rowcount:
                self.connection.execute(SQL["promoted"], values)
                self._set_promoted(now)

    def _set_promoted(self, now: Ms) -> None:
        self._promoted = now
        self.connection.execute(SQL["set_promoted"], (now,))

    def running_under(self, token: bytes) -> list[Ref]:
        return self._all("running_under", token)

    def tenants(self, queues: Sequence[str], after: str, limit: int) -> list[str]:
        found = {row[0] for queue in queues for row in self._all("tenants", queue, after, limit)}
        return sorted(found)[:limit]

    def groups(self, lane: Lane, after: str, limit: int) -> list[str]:
        return [row[0] for row in self._all("groups", lane[1], lane[0], after, limit)]

    def line(self, lane: Lane, group: str, now: Ms, hint: int) -> Iterator[Job]:
        last, size = (-101, 0, 0), max(1, hint)
        while True:
            page = self._all("line", lane[1], lane[0], group, *last, now, size)
            job = None
            for row in page:
                job = self._record(row)
                self._payloads[job.ref] = row[4]
                yield job
            if job is None or len(page) < size:
                return
            last, size = (-job.priority, job.run_at, job.spec.seq), min(2 * size, 256)

    def head(self, lane: Lane, group: str, now: Ms) -> Job | None:
        found = self._records("head", lane[1], lane[0], group, now)
        return found[0] if found else None

    def next_run_at(self, queues: Sequence[str], tenants: Sequence[str] | None, now: Ms) -> Ms | None:
        found = [self._upcoming(queue, tenants, now) for queue in queues]
        return min((run_at for run_at in found if run_at is not None), default=None)

    def _upcoming(self, queue: str, tenants: Sequence[str] | None, now: Ms) -> Ms | None:
        for run_at, tenant in self.connection.execute(SQL["upcoming"], (queue, now)):
            paused = self.tenant_config(tenant).paused or self.rules(tenant, queue).paused
            if not paused and (tenants is None or tenant in tenants):
                return int(run_at)
        return None

    # Scans of sweep and purge

    def cascades(self, limit: int) -> list[tuple[int, Ref]]:
        return [(row[0], (row[1], row[2])) for row in self._all("cascades", limit)]

    def lost(self, now: Ms, limit: int) -> list[Job]:
        return self._records("lost", now, limit)

    def expired(self, now: Ms, limit: int) -> list[Job]:
        return self._records("expired", now, limit)

    def drained(self, now: Ms, limit: int) -> list[Slot]:
        return [rows.slot_of(row) for row in self._all("drained", now, limit)]

    def clean(self, now: Ms, limit: int) -> None:
        for name in ("clean_bindings", "clean_results", "clean_documents", "clean_buckets"):
            self.connection.execute(SQL[name], (now, limit))

    def old_chunks(self, before: Ms, limit: int) -> int | None:
        last: int | None = self._row("old_chunks", before, limit)[0]
        return last

    def finished(self) -> list[FinishedBatch]:
        found: list[FinishedBatch] = []
        last: tuple[int, str] = (-1, "")
        while row := self.connection.execute(SQL["next_finished"], last).fetchone():
            last = (row[0], row[1])
            found.append(FinishedBatch(row[0], State(row[1])))
        return found

    def purge(self, batch: FinishedBatch, now: Ms) -> int:
        self.connection.execute(SQL["purging_begin"])
        count = self.connection.execute(SQL["purging_fill"], (batch.day, batch.state.value, now)).rowcount
        for name in ("results", "dead_letters", "bindings", "labels", "bodies"):
            self.connection.execute(SQL[f"purge_{name}"])
        self.connection.execute(SQL["purge_finished"], (batch.day, batch.state.value))
        self.connection.execute(SQL["purge_jobs"])
        self.connection.execute(SQL["purging_end"])
        return count

    # Lists

    def query(self, where: JobFilter, before_seq: int | None, limit: int) -> list[Job]:
        sql, values = query_sql(where, before_seq, limit)
        return [self._record(row) for row in self.connection.execute(sql, values)]

    def chunks(self, tenant: str | None, after: int, limit: int) -> list[Chunk]:
        found = (
            self._all("chunks", after, limit) if tenant is None else self._all("tenant_chunks", after, limit, tenant)
        )
        return [Chunk(*row) for row in found]

    # Transfer

    def dump(self, kind: str, after: str, limit: int) -> list[tuple[str, Any]]:
        if kind == "meta":
            return [] if after else [("meta", self._meta)]
        return dump(self.connection, SQL, kind, after, limit)

    def restore(self, kind: str, value: Any) -> None:
        restore(self.connection, SQL, kind, value)
        self._specs.clear()
        self._running.clear()
        if kind == "document":
            self.connection.execute(SQL["touch_config"])
            self._forget_config()

    # Writing

    def keep(self, unit: Unit) -> None:
        if not unit.wrote:
            return
        self._held = None
        self._keep_hot(self.hot, unit.now)
        self._keep_jobs(unit)
        self._keep_map("binding", unit.bindings, lambda key, binding: (*key, *rows.binding_row(binding)))
        self._keep_map("edge", unit.edges, lambda _, edge: rows.edge_row(edge))
        self._keep_map("dead_letter", unit.letters, lambda _, letter: rows.letter_row(letter))
        seqs = {ref: job.spec.seq for ref in unit.results if (job := unit.job(ref)) is not None}
        self._keep_map("result", unit.results, lambda ref, one: (one.expires_at, seqs[ref], one.body, one.codec))
        self._keep_map("slot", unit.slots, lambda _, slot: rows.slot_row(slot))
        self._keep_map("cascade", unit.cascades, lambda position, ref: (position, *ref))
        self._keep_map("document", unit.documents, lambda _, document: rows.document_row(document))
        if unit.buckets:
            self._many("put_bucket", [(*key, tat) for key, tat in unit.buckets.items()])
        if unit.positions:
            self._many("put_position", [(*lane, group) for lane, group in unit.positions.items()])
        self._keep_meta(unit)

    def _keep_jobs(self, unit: Unit) -> None:
        added: list[Job] = []
        saved: list[Row] = []
        left: dict[str, list[Row]] = defaultdict(list)
        taken: dict[str, list[Row]] = defaultdict(list)
        now, running = unit.now, self._running
        for ref, job in unit.after.items():
            before, state = unit.before[ref], job.state
            if state is State.RUNNING:
                running[ref] = job
            else:
                running.pop(ref, None)
            if before is None:
                added.append(job)
                goes_to = places(job, now)
            else:
                saved.append((rows.STATE_NAMES[state], rows.live_blob(job), job.spec.seq))
                comes_from, goes_to = moved(before, job, now)
                for table, row in comes_from:
                    left[table].append(row)
            for table, row in goes_to:
                taken[table].append(row)
        if saved:
            self._many("save_job", saved)
            self._leave(left)
        if added:
            self._add(unit, added)
        for table, rows_taken in taken.items():
            self._many(f"put_{table}", rows_taken)

    def _keep_hot(self, hot: HotMoves, now: Ms) -> None:
        if not hot.saved:
            return
        self._many("save_job", hot.saved)
        for (queue, tenant, token), taken in hot.leased.items():
            self._lease(queue, tenant, token, taken, now)
        if hot.succeeded:
            seqs = _json(hot.succeeded).decode()
            self.connection.execute(SQL["end_running"], (seqs,))
            self.connection.execute(SQL["finish_succeeded"], (now // DAY, seqs))
        if hot.results:
            self._many("put_result", hot.results)
        hot.clear()

    def _lease(self, queue: str, tenant: str, token: bytes, taken: list[Row], now: Ms) -> None:
        """Moves jobs from a lane's line to `running`: all at once when their deadlines are the same."""
        last, deadline = taken[-1], taken[-1][3]
        if len(taken) == 1 or any(row[3] != deadline for row in taken):
            self._many("put_running", [(row[2], queue, tenant, "", token, row[3]) for row in taken])
            left = self._many("drop_ready", [(queue, tenant, "", *row[:3]) for row in taken])
        else:
            lane = (queue, tenant, *last[:3], now)
            self.connection.execute(SQL["lease_range"], (*lane, token, deadline))
            left = self.connection.execute(SQL["leave_range"], lane).rowcount
        if left != len(taken):
            raise AssertionError(f"{left} jobs left the line of {tenant}, {queue}, not {len(taken)}")

    def _add(self, unit: Unit, added: list[Job]) -> None:
        self._many("add_job", [rows.job_row(job) for job in added])
        self._many("add_body", [(job.spec.seq, unit.payloads[job.ref]) for job in added])
        labels = [row for job in added if job.spec.labels for row in rows.label_rows(job.spec)]
        if labels:
            self._many("add_label", labels)

    def _leave(self, left: dict[str, list[Row]]) -> None:
        """Takes jobs from where they stood. One whose time has come may still stand in `scheduled`."""
        for table, left_rows in left.items():
            dropped = self._many(f"drop_{table}", [key_of(table, row) for row in left_rows])
            if table == "ready" and dropped < len(left_rows):
                self._many("drop_scheduled", [key_of("scheduled", row) for row in left_rows])

    def _keep_map(self, table: str, changes: dict[Any, Any], row: Any) -> None:
        if not changes:
            return
        dropped = [key if isinstance(key, tuple) else (key,) for key, value in changes.items() if value is None]
        if dropped:
            self._many(f"drop_{table}", dropped)
        if len(dropped) < len(changes):
            self._many(f"put_{table}", [row(key, value) for key, value in changes.items() if value is not None])

    def _keep_meta(self, unit: Unit) -> None:
        meta, head = unit.meta, unit.meta.feed_head
        chunks = [
            (position, tenant, unit.now, encode_events(events))
            for position, (tenant, events) in enumerate(unit.events.items(), head + 1)
        ]
        if chunks:
            self._many("add_chunk", chunks)
            head += len(chunks)
        if meta.feed_floor != self._meta.feed_floor:
            self.connection.execute(SQL["trim_feed"], (meta.feed_floor,))
        configured = any(key[1] in (QUEUE, TENANT) for key in unit.documents)
        self._meta = replace(meta, feed_head=head, mark=max(meta.mark, unit.now))
        self.connection.execute(SQL["put_meta"], (*astuple(self._meta), int(configured)))
        if configured:
            self._forget_config()

    def _forget_config(self) -> None:
        self._config += 1
        self._configured = None
        self._rules.clear()
        self._tenant_configs.clear()
