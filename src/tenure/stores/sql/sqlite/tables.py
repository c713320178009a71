"""The SQL tables in a SQLite file."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from msgspec.structs import astuple, replace

from tenure.domain.config import QUEUE, TENANT
from tenure.domain.event import encode_events
from tenure.domain.job import Edge, Job, Ref
from tenure.domain.model import Meta, Unit
from tenure.domain.model.bulk import BulkLease
from tenure.domain.model.entries import WAITING, key_of, labels, moved, waiting
from tenure.domain.model.families import FAMILIES
from tenure.domain.model.retention import Ended
from tenure.domain.model.tables import Lane
from tenure.domain.names import DAY, Ms
from tenure.domain.states import TERMINAL, State
from tenure.stores import records
from tenure.stores.sql import bulk, rows, statements
from tenure.stores.sql.rows import Row
from tenure.stores.sql.tables import SqlTables
from tenure.stores.ways import Ways

_STATEMENTS = statements.load(__package__ or "", statements.sqlite)
SQL = {name: statement.text for name, statement in _STATEMENTS.items()}
ORDER = {name: itemgetter(*statement.order) for name, statement in _STATEMENTS.items() if statement.order}
"""What makes a statement's values of its parameters, where they aren't the same."""

PROMOTED_AT_ONCE = 10_000
"""Jobs of a queue that one claim moves to `ready`: a flood of due jobs must not stall a claim for seconds."""


class SqliteTables(SqlTables):
    """What the model remembers, as one transaction sees it. `begin` must come before anything else."""

    payload = "(SELECT payload FROM body WHERE body.seq = record.seq) AS payload"

    def __init__(self, connection: sqlite3.Connection, ways: Ways | None = None) -> None:
        super().__init__(ways)
        self.connection = connection
        self._promoted: Ms = 0
        self._config = -1
        self._held: dict[Lane, dict[str, int]] | None = None
        self._data_version = -1

    def begin(self, rolled_back: bool = False) -> Meta:
        """Reads the store's own numbers; call it when a transaction begins or was rolled back.

        Running jobs are remembered from one transaction to the next while nobody else writes to the file.
        """
        version = self.connection.execute("PRAGMA data_version").fetchone()[0]
        if rolled_back or version != self._data_version:
            self._data_version = version
            self.running.clear()
        *numbers, self._promoted, config = self.row("meta")
        self._meta = Meta(numbers[0], numbers[1], numbers[2], bool(numbers[3]), bool(numbers[4]), *numbers[5:])
        if config != self._config or rolled_back:
            self._forget_config()
            self._config = config
        self._payloads.clear()
        self._held = None
        return self._meta

    # Running statements

    def all(self, name: str, *values: Any) -> list[Row]:
        return self._done(name, values).fetchall()

    def of(self, name: str, keys: Sequence[Any]) -> list[Row]:
        """Lists of keys come as one JSON array, so that a batch is one statement."""
        return self._done(name, (rows.json_text(keys),)).fetchall()

    def many(self, name: str, values: Iterable[Row]) -> None:
        self._done_for_each(name, values)

    def _many_changed(self, name: str, values: Iterable[Row]) -> int:
        return self._done_for_each(name, values).rowcount

    def run(self, name: str, *values: Any) -> None:
        self._done(name, values)

    def _changed(self, name: str, *values: Any) -> int:
        return self._done(name, values).rowcount

    def _done(self, name: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        order = ORDER.get(name)
        return self.connection.execute(SQL[name], values if order is None else order(values))

    def _done_for_each(self, name: str, values: Iterable[Row]) -> sqlite3.Cursor:
        order = ORDER.get(name)
        return self.connection.executemany(SQL[name], values if order is None else map(order, values))

    def stream(self, sql: str, values: Sequence[Any]) -> sqlite3.Cursor:
        return self.connection.execute(sql.replace("tenure.", ""), values)

    # Reading

    def jobs(self, refs: Sequence[Ref]) -> dict[Ref, Job]:
        """What was seen to run still does: nobody else has written since, else `begin` would have forgotten it."""
        return self.recent(refs)

    def edges_from(self, parents: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        return super().edges_from(parents) if self.row("has_edges")[0] else {}

    def held(self, lane: Lane) -> int:
        return sum(self._holding().get(lane, {}).values())

    def holders(self, lane: Lane, group: str) -> int:
        return self._holding().get(lane, {}).get(group, 0)

    def _holding(self) -> dict[Lane, dict[str, int]]:
        """Leases in force by lane and group, counted once for a claim that visits many groups."""
        if self._held is None:
            self._held = defaultdict(dict)
            for tenant, queue, group, count in self.all("holders"):
                self._held[tenant, queue][group] = count
        return self._held

    def promote(self, queues: Sequence[str], now: Ms) -> None:
        if now < self._promoted:
            self.run("demote", now)
            self.run("demoted", now)
            self._set_promoted(now)
        for queue in queues:
            values = (queue, now, PROMOTED_AT_ONCE)
            if self._changed("promote", *values):
                self.run("promoted", *values)
                self._set_promoted(now)

    def _set_promoted(self, now: Ms) -> None:
        self._promoted = now
        self.run("set_promoted", now)

    def upcoming(self, queue: str, now: Ms) -> Iterator[Row]:
        return self.connection.execute(SQL["upcoming"], (queue, now))

    def tidy(self, now: Ms, limit: int) -> None:
        """Nothing here is for its own use only."""

    # Writing

    def restore_job(self, job: Job) -> None:
        """A pending job goes to `scheduled` whatever its time: the first claim moves what is due."""
        seq = job.spec.seq
        for table in ("label", "running", "finished", *WAITING):
            self.connection.execute(f"DELETE FROM {table} WHERE seq = ?", (seq,))
        self.run("restore_job", *rows.job_row(job))
        self.run("restore_body", seq)
        self.many("add_label", labels(job.spec))
        if job.state is State.RUNNING:
            self.run("put_running", *rows.running_row(job))
        elif job.state in TERMINAL:
            self.run("put_finished", *rows.finished_row(job))
        for table, row in waiting(job, border=-1):
            self.run(f"put_{table}", *row)

    def keep(self, unit: Unit) -> None:
        if not unit.wrote:
            return
        self._held = None
        self._keep_bulk(unit)
        self._keep_jobs(unit)
        for family, row in rows.ROWS.items():
            self._keep_map(family, getattr(unit, FAMILIES[family].changes), row)
        seqs = {ref: job.spec.seq for ref in unit.results if (job := unit.job(ref)) is not None}
        self._keep_map("result", unit.results, lambda ref, one: (one.expires_at, seqs[ref], one.body, one.codec))
        self.keep_attached(unit)
        self.clean(unit)
        for purged in unit.purged.values():
            self._purge(purged)
        self._keep_meta(unit)

    def _purge(self, jobs: list[Ended]) -> None:
        """Removes ended jobs, with all that is theirs."""
        self.many("drop_dead_letter", [job.ref for job in jobs if job.letter is not None])
        self.many("drop_binding", [job.key for job in jobs if job.key is not None])
        seqs = rows.json_text([job.seq for job in jobs])
        for name in ("results", "labels", "bodies", "finished", "jobs"):
            self.run(f"purge_{name}", seqs)

    def _keep_jobs(self, unit: Unit) -> None:
        now, running = unit.now, self.running
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
                goes_to = waiting(job, now)
            else:
                self._save(before, job, writes)
                comes_from, goes_to = moved(before, job, now)
                for table, row in comes_from:
                    left[table].append(row)
            for table, row in goes_to:
                taken[table].append(row)
        for name, values in writes.items():
            self.many(name, values)
        self._leave(left)
        if added:
            self._add(unit, added)
        for table, rows_taken in taken.items():
            self.many(f"put_{table}", rows_taken)

    @staticmethod
    def _save(before: Job, job: Job, writes: dict[str, list[Row]]) -> None:
        """The wide row says how a job waits; of one that runs or ended it keeps the turn it had."""
        turn = (job.priority, job.run_at)
        if job.state is State.PENDING or job.state is State.BLOCKED:
            writes["save_job"].append((rows.STATE_NAMES[job.state], *turn, records.live_blob(job), job.spec.seq))
        elif turn != (before.priority, before.run_at):
            writes["save_turn"].append((*turn, job.spec.seq))

    def _keep_bulk(self, unit: Unit) -> None:
        if not (unit.leased or unit.succeeded):
            return
        bulk.remember(unit, self.running)
        grouped: list[BulkLease] = []
        lanes: dict[tuple[str, str], list[BulkLease]] = defaultdict(list)
        for leased in unit.leased:
            spec = leased.jobs[0].spec
            (lanes[spec.queue, spec.tenant] if spec.group is None else grouped).append(leased)
        for lane, taken in lanes.items():
            self._lease(*lane, taken, unit.now)
        if grouped:
            self._lease_each(grouped)
        if unit.succeeded:
            self._finish(bulk.ends(unit), unit.now // DAY)
            self.many("drop_in_order", bulk.out_of_order(unit))
            self.many("put_result", bulk.result_rows(unit))

    def _lease(self, queue: str, tenant: str, taken: list[BulkLease], now: Ms) -> None:
        """Moves jobs from a lane's line to `running`: all at once when nothing tells them apart there."""
        count = sum(len(leased.jobs) for leased in taken)
        first, *others = [rows.running_row(leased.jobs[0])[1:] for leased in taken]
        if count == 1 or any(other != first for other in others):
            left = self._lease_each(taken)
        else:
            last = max(bulk.ready_key(leased.jobs[-1])[3:] for leased in taken)
            lane = (queue, tenant, *last, now)
            self.run("lease_range", *lane, *first[3:])
            left = self.connection.execute(SQL["leave_range"], lane).rowcount
        if left != count:
            raise AssertionError(f"{left} jobs left the line of {tenant}, {queue}, not {count}")

    def _lease_each(self, taken: list[BulkLease]) -> int:
        """How many left the line."""
        self.many("put_running", [row for leased in taken for row in bulk.running_rows(leased)])
        return self._many_changed("drop_ready", [bulk.ready_key(job) for leased in taken for job in leased.jobs])

    def _finish(self, ends: bulk.Ends, day: int) -> None:
        """Moves jobs from `running` to `finished`, those together that nothing tells apart there."""
        ended: list[int] = []
        single: list[Row] = []
        for (_, live), seqs in ends.items():
            ended += seqs
            if len(seqs) < 2:
                single += [(seq, day, bulk.SUCCEEDED, live) for seq in seqs]
            else:
                self.run("finish_alike", rows.json_text(seqs), day, live)
        if single:
            self.many("put_finished", single)
        self.connection.execute(SQL["end_running"], (rows.json_text(ended),))

    def _add(self, unit: Unit, added: list[Job]) -> None:
        self.many("add_job", [rows.job_row(job) for job in added])
        self.many("add_body", [(job.spec.seq, unit.payloads[job.ref]) for job in added])
        labelled = [row for job in added if job.spec.labels for row in labels(job.spec)]
        if labelled:
            self.many("add_label", labelled)

    def _leave(self, left: dict[str, list[Row]]) -> None:
        """Takes jobs from where they stood. One whose time has come may still stand in `scheduled`."""
        for table, left_rows in left.items():
            dropped = self._many_changed(f"drop_{table}", [key_of(table, row) for row in left_rows])
            if table == "ready" and dropped < len(left_rows):
                self.many("drop_scheduled", [key_of("scheduled", row) for row in left_rows])

    def _keep_map(self, table: str, changes: dict[Any, Any], row: Any) -> None:
        if not changes:
            return
        dropped = [key if isinstance(key, tuple) else (key,) for key, value in changes.items() if value is None]
        if dropped:
            self.many(f"drop_{table}", dropped)
        if len(dropped) < len(changes):
            self.many(f"put_{table}", [row(key, value) for key, value in changes.items() if value is not None])

    def _keep_meta(self, unit: Unit) -> None:
        meta, head = unit.meta, unit.meta.feed_head
        chunks = [
            (position, tenant, unit.now, encode_events(events))
            for position, (tenant, events) in enumerate(unit.events.items(), head + 1)
        ]
        if chunks:
            self.many("add_chunk", chunks)
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
        super()._forget_config()


def disconnect(tables: SqliteTables) -> None:
    """Closes the tables' connection, which may be broken."""
    with suppress(sqlite3.Error):
        tables.connection.close()
