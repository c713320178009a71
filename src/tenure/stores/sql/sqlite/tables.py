"""The model's tables in a SQLite file. Everything here runs inside one transaction of one connection."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import astuple, replace

from tenure.domain.calls import Document, JobFilter
from tenure.domain.config import QUEUE, TENANT, QueueRules, TenantConfig, merge
from tenure.domain.event import encode_events
from tenure.domain.job import Binding, BindingKey, DeadLetter, Edge, Job, Ref, Result, Slot, Spec
from tenure.domain.model import Chunk, FinishedBatch, Meta, Unit
from tenure.domain.model.documents import configs, parse
from tenure.domain.model.tables import BucketKey, DocumentKey, Lane
from tenure.domain.names import DAY, Ms
from tenure.domain.states import TERMINAL, State
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


class HotMoves:
    """What the hot path will write."""

    def __init__(self, running: dict[Ref, Job]) -> None:
        self.running = running
        """Running jobs as they will be; shared with the tables."""
        self.clear()

    def clear(self) -> None:
        self.leased: dict[tuple[str, str, bytes], list[Row]] = defaultdict(list)
        """(queue, tenant, token) → the plain jobs without expiry taken there, in order: (*turn, deadline, live)."""
        self.taken: list[Row] = []
        """Jobs of groups that were taken, as `put_running` wants them."""
        self.left: list[Row] = []
        """Where they stood in `ready`."""
        self.succeeded: dict[bytes, list[int]] = defaultdict(list)
        """live → the jobs that end with it."""
        self.out_of_order: list[Row] = []
        """Jobs of groups that succeeded, as `drop_in_order` wants them."""
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
        return rows.job_of(spec, row[2], row[3], row[4], row[5])

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
            found.update((job.ref, job) for job in self._records("jobs", rows.json_text(missing)))
        return found

    def payloads(self, refs: Sequence[Ref]) -> dict[Ref, bytes]:
        missing = [ref for ref in refs if ref not in self._payloads]
        if missing:
            self._payloads.update(((row[0], row[1]), row[2]) for row in self._all("payloads", rows.json_text(missing)))
        return {ref: self._payloads[ref] for ref in refs if ref in self._payloads}

    def bindings(self, keys: Sequence[BindingKey]) -> dict[BindingKey, Binding]:
        return {row[:4]: rows.binding_of(row) for row in self._all("bindings", rows.json_text(keys))}

    def edges_from(self, parents: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        found: dict[Ref, list[Edge]] = {}
        if self._row("has_edges")[0]:
            for row in self._all("edges_from", rows.json_text(parents)):
                found.setdefault((row[0], row[1]), []).append(rows.edge_of(row))
        return found

    def edges_to(self, children: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        found: dict[Ref, list[Edge]] = {}
        for row in self._all("edges_to", rows.json_text(children)):
            found.setdefault((row[0], row[2]), []).append(rows.edge_of(row))
        return found

    def dead_letters(self, refs: Sequence[Ref]) -> dict[Ref, DeadLetter]:
        return {(row[0], row[1]): rows.letter_of(row) for row in self._all("dead_letters", rows.json_text(refs))}

    def results(self, refs: Sequence[Ref]) -> dict[Ref, Result]:
        ended = {job.spec.seq: job for job in self.jobs(refs).values() if job.state is State.SUCCEEDED}
        found = self.results_at([(job.result_expires_at, seq) for seq, job in ended.items()])
        return {ended[seq].ref: result for seq, result in found.items()}

    def results_at(self, keys: Sequence[tuple[Ms, int]]) -> dict[int, Result]:
        """Results by arrival number, of (when they expire, arrival number)."""
        found = self._all("results", rows.json_text(keys)) if keys else []
        return {row[0]: Result(*row[1:]) for row in found}

    def slots(self, refs: Sequence[Ref]) -> dict[Ref, Slot]:
        return {(row[0], row[1]): rows.slot_of(row) for row in self._all("slots", rows.json_text(refs))}

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

    def line(self, lane: Lane, group: str, now: Ms, ahead: Callable[[], int]) -> Iterator[Job]:
        (tenant, queue), last, grown = lane, (-101, 0, 0), 1
        record, payloads = self._record, self._payloads
        while True:
            size = max(ahead(), grown)
            page = self._all("line", queue, tenant, group, *last, now, size)
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
        now, running = unit.now, self._running
        added: list[Job] = []
        writes: dict[str, list[Row]] = defaultdict(list)
        left: dict[str, list[Row]] = defaultdict(list)
        taken: dict[str, list[Row]] = defaultdict(list)
        for ref, job in unit.after.items():
            before, state = unit.before[ref], job.state
            if state is State.RUNNING:
                running[ref] = job
                writes["put_running"].append(rows.running_row(job))
            else:
                running.pop(ref, None)
                if before is not None and before.state is State.RUNNING:
                    writes["drop_running"].append((job.spec.seq,))
                if state in TERMINAL:
                    writes["put_finished"].append(rows.finished_row(job))
            if before is None:
                added.append(job)
                goes_to = places(job, now)
            else:
                self._save(before, job, writes)
                comes_from, goes_to = moved(before, job, now)
                for table, row in comes_from:
                    left[table].append(row)
            for table, row in goes_to:
                taken[table].append(row)
        for name, values in writes.items():
            self._many(name, values)
        self._leave(left)
        if added:
            self._add(unit, added)
        for table, rows_taken in taken.items():
            self._many(f"put_{table}", rows_taken)

    @staticmethod
    def _save(before: Job, job: Job, writes: dict[str, list[Row]]) -> None:
        """The wide row says how a job waits; of one that runs or ended it keeps the turn it had."""
        turn = (job.priority, job.run_at)
        if job.state is State.PENDING or job.state is State.BLOCKED:
            writes["save_job"].append((rows.STATE_NAMES[job.state], *turn, rows.live_blob(job), job.spec.seq))
        elif turn != (before.priority, before.run_at):
            writes["save_turn"].append((*turn, job.spec.seq))

    def _keep_hot(self, hot: HotMoves, now: Ms) -> None:
        for (queue, tenant, token), taken in hot.leased.items():
            if taken:
                self._lease(queue, tenant, token, taken, now)
        if hot.taken:
            self._many("put_running", hot.taken)
            self._many("drop_ready", hot.left)
        if hot.succeeded:
            self._finish(hot, now // DAY)
        if hot.out_of_order:
            self._many("drop_in_order", hot.out_of_order)
        if hot.results:
            self._many("put_result", hot.results)
        hot.clear()

    def _lease(self, queue: str, tenant: str, token: bytes, taken: list[Row], now: Ms) -> None:
        """Moves jobs from a lane's line to `running`: all at once when nothing tells them apart there."""
        *last, deadline, live = taken[-1]
        if len(taken) == 1 or any(row[4] != live for row in taken):
            self._many("put_running", [(row[2], queue, tenant, "", token, row[3], row[4]) for row in taken])
            left = self._many("drop_ready", [(queue, tenant, "", *row[:3]) for row in taken])
        else:
            lane = (queue, tenant, *last, now)
            self.connection.execute(SQL["lease_range"], (*lane, token, deadline, live))
            left = self.connection.execute(SQL["leave_range"], lane).rowcount
        if left != len(taken):
            raise AssertionError(f"{left} jobs left the line of {tenant}, {queue}, not {len(taken)}")

    def _finish(self, hot: HotMoves, day: int) -> None:
        """Moves jobs from `running` to `finished`, those together that nothing tells apart there."""
        ended: list[int] = []
        single: list[Row] = []
        for live, seqs in hot.succeeded.items():
            ended += seqs
            if len(seqs) < 2:
                single += [(seq, day, "succeeded", live) for seq in seqs]
            else:
                self.connection.execute(SQL["finish_alike"], (rows.json_text(seqs), day, live))
        if single:
            self._many("put_finished", single)
        self.connection.execute(SQL["end_running"], (rows.json_text(ended),))

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
