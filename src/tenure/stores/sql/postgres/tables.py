"""The SQL tables in a PostgreSQL schema, while others write to them.

A transaction here sees what was committed before each statement (READ COMMITTED), and takes few locks. What it read may
have changed by the time it writes; every row it moves is therefore found by its key and the version that was read, and
if one isn't there the statement fails: the whole call begins again (`Overtaken`). What versions don't cover is locked:

* a claim id that may be known, so that one that was sent twice takes once (a new one is a unique row in `claimed`);
* a lane or group with a limit or a rate, tried only: a claim passes over one that another claim is at;
* the blocked children of a parent that ends, so that of two parents that end together one sees the other.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from tenure.domain.calls import Claim, Document
from tenure.domain.job import Edge, Job, NewJob, Ref, Spec, secret_hash
from tenure.domain.model import FinishedBatch, Meta, Unit
from tenure.domain.model.entries import labels, waiting
from tenure.domain.model.retention import Ended
from tenure.domain.model.tables import BucketKey, DocumentKey, Lane
from tenure.domain.names import Ms
from tenure.domain.states import TERMINAL, State
from tenure.stores.sql import rows
from tenure.stores.sql.postgres import modes
from tenure.stores.sql.postgres.frontier import MOST_LANES, MOST_PLACES, NOTHING, Border, Frontier, Mark
from tenure.stores.sql.postgres.keeping import OWN, PLACES, keep, put_finished, put_running
from tenure.stores.sql.postgres.keyed import FULL, Keyed
from tenure.stores.sql.postgres.pipeline import Pipeline
from tenure.stores.sql.postgres.place import Place, Unreadable
from tenure.stores.sql.postgres.ring import RING, FrontierRing, Ring
from tenure.stores.sql.postgres.runners import Runner
from tenure.stores.sql.query import Listed
from tenure.stores.sql.rows import Row
from tenure.stores.sql.tables import SqlTables
from tenure.stores.ways import Way

PROMOTED_AT_ONCE = 10_000
"""Jobs of a queue that one claim moves to `ready`: a flood of due jobs must not stall a claim for seconds."""
CHUNKS_AT_ONCE = 10_000
UPCOMING = 16
"""Future jobs that are read first."""


class PostgresTables(SqlTables):
    """What the model remembers, as one transaction sees it. `begin` must come before anything else, `end` after."""

    begins = "meta_to_write"
    """What a transaction that writes begins with; one that claims, with `meta_to_claim`."""
    listed = Listed('tenant COLLATE "POSIX"', "(seq + 0)")

    def __init__(self, runner: Runner, place: Place) -> None:
        super().__init__(place.ways)
        self.pipeline = Pipeline(runner, place)
        self.place = place
        self.running = place.running
        self._specs = place.specs
        self.config = -1
        """The count of configuration changes that was read last; -1 for none."""
        self.version = 0
        """How often the store's own numbers have changed."""
        self.flows = True
        """Whether a job may wait for another, as the transaction began."""
        self.writing = False
        self._careful = False
        self._since = time.monotonic()
        """When the connection was open already."""
        self._frontier: Frontier | None = None
        self._borders: dict[str, Border] = {}
        self._lane_keys: dict[Lane, tuple[int, int]] = {}
        self.end()

    def begin(self, writing: bool = True, careful: bool = False, claiming: bool = False) -> tuple[Meta, Ms]:
        """Reads the store's own numbers and its time; careful is one who trusts nothing that was remembered."""
        self.writing, self._careful = writing, careful
        numbers = self.row("meta" if not writing else "meta_to_claim" if claiming else self.begins)
        seq, epoch, frozen, loading, last_turn, hold_until, head, floor, config, self.version, self.flows, now = numbers
        self._meta = Meta(0, seq, epoch, frozen, loading, last_turn, hold_until, head, floor, OWN)
        if config != self.config:
            self._forget_config()
            self.config = config
        return self._meta, now

    def know_config(self) -> None:
        """Asks which configuration holds, unless this connection has seen one: it may be an old one."""
        if self.config < 0:
            self.begin(writing=False)

    def end(self) -> None:
        """The transaction is over: what was read in it may not be used in the next."""
        self.pipeline.clear()
        self._payloads.clear()
        self.versions: dict[DocumentKey, int] = {}
        """Documents that were read, and the versions they had."""
        self.lived: dict[str, list[str]] = {}
        """Queues that were asked about, and the tenants that had jobs there."""
        self.busy = False
        """Whether something was passed over because another claim is at it."""
        self._locked: dict[tuple[str, ...], bool] = {}
        self._seqs: Iterator[int] = iter(())
        self.new_claim = False
        """Whether the claim's id is known to be new."""
        self._ring: Ring | None = None
        self._keyed: Keyed | None = None
        self._untimed = False
        """Whether statements that want the time are told the transaction's."""
        self._asked: tuple[Any, ...] | None = None
        """What a look was asked with that is on its way."""
        self.lying: dict[int, bytes] = {}
        """Where the rows of `ready` lie that this claim has locked, by arrival number."""
        if self._frontier is not None:
            self.place.frontiers.give_back(self._frontier)
        self.forsake()
        self.place.borders.update(self._borders)
        self._borders.clear()

    def forget(self) -> None:
        """The transaction was undone: what was remembered of running jobs and configuration may be wrong."""
        self.running.clear()
        self.config = -1
        self._borders.clear()
        if self._frontier is not None:
            self._frontier.undo()

    def forsake(self) -> None:
        """The frontier that was lent is of no use any more."""
        self._frontier = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is sent in the block happens at once, or not at all. On a user's connection it is part of theirs."""
        yield

    # Running statements

    def all(self, name: str, *values: Any) -> list[Row]:
        return self.pipeline.ask(name, *values)

    def of(self, name: str, keys: Sequence[Any]) -> list[Row]:
        return self.pipeline.ask_many(name, keys)

    def many(self, name: str, values: Iterable[Row]) -> None:
        given = values if isinstance(values, list) else list(values)
        if given:
            self.pipeline.send_many(name, given)

    def run(self, name: str, *values: Any) -> None:
        self.pipeline.send(name, *values)

    def stream(self, sql: str, values: Sequence[Any]) -> Iterator[Row]:
        return self.pipeline.stream(sql, values)

    def record(self, row: Row) -> Job:
        try:
            return super().record(row)
        except Exception as error:
            raise Unreadable(row[0], error) from error

    def spec_of(self, row: Row) -> Spec:
        try:
            return super().spec_of(row)
        except Exception as error:
            raise Unreadable(row[0], error) from error

    # Asking ahead

    def expect_enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Asks what an enqueue will: whether ids and keys are known, and for arrival numbers."""
        pipeline = self.pipeline
        if any(job.key is not None for job in jobs):
            self.run("soon")
        keys = [(job.tenant, job.queue, job.job_type, job.key) for job in jobs if job.key is not None]
        pipeline.ahead_many("bindings", keys)
        pipeline.ahead_many("jobs", [(job.tenant, job.id) for job in jobs])
        pipeline.ahead("arrive", len(jobs))
        self._seqs = self._arriving(len(jobs))

    def look_ahead(self, request: Claim, now: Ms | None) -> None:
        """Asks what a claim that comes first in its transaction will, as far as that is known. Without a time it is the
        transaction's.
        """
        queues = sorted(queue for queue, _ in request.queues)
        self.pipeline.ahead("meta_to_claim")
        self._frontier = self.place.frontiers.lend(queues, self._since)
        if self._frontier is None:
            self._untimed = now is None
            self._asked = self._asking(request, queues, now)
            self.pipeline.ahead("claim_look", *self._asked)
            self._read_lone(request, queues, now)

    def _asking(self, request: Claim, queues: list[str], now: Ms | None) -> tuple[Any, ...]:
        token = secret_hash(request.claim_id)
        return (token, self.pipeline.column("text", queues), request.cursor.tenant, min(request.n, RING), now)

    def _read_lone(self, request: Claim, queues: list[str], now: Ms | None) -> None:
        """Reads the line of whoever was alone before: likely they still are."""
        tenant = self.place.lone.get(queues[0])
        if tenant is not None and len(queues) == 1 and request.tenants is None:
            self.pipeline.ahead_many("lines", [(queues[0], tenant, request.n)], now)
            if self.place.falls_short:
                self.pipeline.ahead("upcoming", queues[0], now, UPCOMING, 0)

    def expect_claim(self, request: Claim, now: Ms) -> None:
        """Looks at what a claim will ask for. An id that is known, or may be, is looked at behind its lock."""
        queues = sorted(queue for queue, _ in request.queues)
        self._ring = None
        self.lying.clear()
        if self._frontier is None and not self._careful:
            self._frontier = self.place.frontiers.lend(queues, self._since)
        if self._frontier is not None and self._discovered(self._frontier, queues):
            known = self._look_from(self._frontier, request, queues, now)
        else:
            known = self._look(request, queues, now)
        self._promoted(now)
        self.new_claim = not known and not self._careful
        self._keyed = Keyed(self, request, now, len(self._ring.names()) if self._ring is not None else 1)

    def _look(self, request: Claim, queues: list[str], now: Ms) -> bool:
        """Looks from the beginning of every line; whether the claim's id is known. What became due moves first."""
        size = min(request.n, RING)
        self.ways.took(Way.LOOK_PLAIN)
        if self._asked is None:
            self._asked = self._asking(request, queues, now)
            self.pipeline.ahead("claim_look", *self._asked)
            self._read_lone(request, queues, now)
        before, known, due, names, most, edge, read = self.row("claim_look", *self._asked)
        if due:
            self.pipeline.clear()
            self.promote(queues, now)
            before, known, _, names, most, edge, read = self.row("claim_look", *self._asking(request, queues, now))
        self._asked = None
        whole = request.tenants is not None or most < size
        self.place.frontiers.looked(read - before)
        self._ring = Ring(self, request, now, sorted(names), None if whole else edge or "")
        return bool(known)

    def _look_from(self, frontier: Frontier, request: Claim, queues: list[str], now: Ms) -> bool:
        """Looks from a frontier on; whether the claim's id is known."""
        self.ways.took(Way.LOOK_FRONTIER)
        from_where = self._move_due(frontier, queues, now)
        ring = FrontierRing(self, request, now, frontier)
        ring.look()
        late = [queue for queue in queues if frontier.due_at(queue) < from_where.get(queue, NOTHING)]
        if self._move_due(frontier, late, now):
            ring = FrontierRing(self, request, now, frontier)
            ring.look()
        self._ring = ring
        return ring.known

    def _move_due(self, frontier: Frontier, queues: list[str], now: Ms) -> dict[str, Mark]:
        """Moves what became due to `ready`, where it is new to the frontier; in which queues, and from where on."""
        due = {queue: mark for queue in queues if (mark := frontier.due_at(queue))[0] <= now}
        for queue, mark in due.items():
            self.ways.took(Way.LOOK_DUE)
            self.run("promote", queue, now, PROMOTED_AT_ONCE, *mark)
        return due

    def _discovered(self, frontier: Frontier, queues: list[str]) -> bool:
        """Whether a frontier is known, for these queues; one that isn't yet is looked for."""
        if not set(queues) <= set(frontier.queues):
            self.forsake()
            return False
        if frontier.snapshot is not None:
            return True
        self.ways.took(Way.LOOK_DISCOVER)
        sent = time.monotonic()
        *found, moment = self.all("claim_discover", self.pipeline.column("text", frontier.queues), MOST_PLACES)
        for kind, queue, tenant, prio_neg, run_at, seq in found:
            if kind == "due":
                frontier.first_due(queue, None if seq is None else (run_at, seq))
            else:
                frontier.first((tenant, queue), prio_neg, (run_at, seq))
        server, snapshot, own = moment[:3]
        if len(found) >= MOST_PLACES or len(frontier) > MOST_LANES:
            self.place.frontiers.too_many()
            self.forsake()
            return False
        frontier.at(snapshot, own, server, sent)
        return True

    def lone_line(self, request: Claim) -> "tuple[Lane, list[Row]] | None":
        """The only lane that a claim may take from and the beginning of its line, if that is so and it has one."""
        if self._ring is None or not self.new_claim or len(request.queues) != 1:
            return None
        tenant = self._ring.lone(request.n)
        if self._ring.names():
            self.place.keep_lone(request.queues[0][0], tenant)
        if tenant is None:
            return None
        lane = (tenant, request.queues[0][0])
        line = self._ring.peek(lane)
        return (lane, line) if self._ring.read_all(lane, request.n) else None

    # Locks

    def lock(self, *what: str) -> None:
        """Waits until nobody else holds what is named; held until the transaction ends."""
        self.run("lock", self.pipeline.number(*what))

    def stop(self) -> None:
        """Waits until every writer so far has ended; those to come wait until this transaction does."""
        self.run("impatient")
        self.run("stop")

    def stop_claims(self) -> None:
        """The same of everybody who may claim: users' transactions don't, and may be open for long."""
        self.run("impatient")
        self.run("stop_claims")

    def _mine(self, *what: str) -> bool:
        """Whether what is named is this claim's until the transaction ends. Whoever only reads takes nothing."""
        if not self.writing:
            return True
        if what not in self._locked:
            self.tried(self.row("try_lock", self.pipeline.number(*what))[0], *what)
        return self._locked[what]

    def tried(self, mine: bool, *what: str) -> None:
        """Whether what is named could be had."""
        self._locked[what] = mine
        self.busy |= not mine

    # Reading

    def next_seq(self, last: int) -> int:
        number = next(self._seqs, None)
        if number is None:
            self._seqs = self._arriving(1 if last == self._meta.seq else 100)
            number = next(self._seqs)
        return number

    def _arriving(self, count: int) -> Iterator[int]:
        for row in self.all("arrive", count):
            yield row[0]

    def recent(self, refs: Sequence[Ref]) -> dict[Ref, Job]:
        return self.jobs(refs) if self._careful else super().recent(refs)

    def childless(self, refs: Sequence[Ref]) -> bool:
        """Taken for granted at first: the transaction fails if it turns out otherwise (`keep`)."""
        return super().childless(refs) if self._careful else True

    def edges_to(self, children: Sequence[Ref]) -> dict[Ref, list[Edge]]:
        if self.writing:
            self.of("hold_blocked", children)
        return super().edges_to(children)

    def document(self, key: DocumentKey) -> Document | None:
        found = super().document(key)
        if found is not None:
            self.versions[key] = found.version
        return found

    def live_tenants(self, queue: str) -> list[str]:
        found = self.lived[queue] = super().live_tenants(queue)
        return found

    def arriving(self, lane: Lane) -> bool:
        """Whoever changes the mode finds out for itself once more (`modes.change`)."""
        keys = modes.change_keys(self.pipeline, lane)
        return bool(self.row("arriving", self.pipeline.column("bigint", keys))[0])

    def lane_keys(self, lane: Lane) -> tuple[int, int]:
        """What an enqueue to the lane holds against a change of its mode."""
        known = self._lane_keys.get(lane)
        if known is None:
            known = self._lane_keys[lane] = modes.lane_keys(self.pipeline, lane)
        return known

    def _forget_config(self) -> None:
        super()._forget_config()
        self._lane_keys.clear()

    def held(self, lane: Lane) -> int:
        return int(self.row("lane_holders", *lane)[0]) if self._mine("lane", *lane) else FULL

    def holders(self, lane: Lane, group: str) -> int:
        tenant, queue = lane
        known = None if self._keyed is None else self._keyed.holders(lane, group)
        if known is not None:
            return known
        if self.rules(tenant, queue).limit_of(group) is not None and not self._mine("group", *lane, group):
            return FULL
        return int(self.row("group_holders", queue, tenant, group)[0])

    def bucket(self, key: BucketKey) -> int:
        tenant, queue, group = key
        mine = self._mine("group", *key) if group else self._mine("lane", tenant, queue)
        return super().bucket(key) if mine else FULL

    # Scans of a claim

    def promote(self, queues: Sequence[str], now: Ms) -> None:
        if self._ring is not None:
            return  # nothing is due
        self._promoted(now)
        for queue in queues:
            self.run("promote", queue, now, PROMOTED_AT_ONCE, 0, 0)

    def _promoted(self, now: Ms) -> None:
        self.place.promoted = max(self.place.promoted, now)

    def running_under(self, token: bytes) -> list[Ref]:
        if self.new_claim:
            return []
        self.lock("claim", token.hex())
        return super().running_under(token)

    def tenants(self, queues: Sequence[str], after: str, limit: int) -> list[str]:
        known = None if self._ring is None else self._ring.after(after, limit)
        return super().tenants(queues, after, limit) if known is None else known

    def groups(self, lane: Lane, after: str, limit: int) -> list[str]:
        if self._keyed is None:
            return super().groups(lane, after, limit)
        names = super().groups(lane, after, max(limit, self._keyed.size))
        self._keyed.expect(lane, names)
        return names

    def line(self, lane: Lane, group: str, now: Ms, ahead: Callable[[], int]) -> Iterator[Job]:
        if group:
            first = None if self._keyed is None else self._keyed.first(lane, group)
            return (
                super().line(lane, group, now, ahead)
                if first is None
                else self._begun(lane, group, now, ahead, first, 1)
            )
        if self._ring is None:
            return super().line(lane, group, now, ahead)
        return self._read_ahead(self._ring, lane, now, ahead)

    def _read_ahead(self, ring: "Ring", lane: Lane, now: Ms, ahead: Callable[[], int]) -> Iterator[Job]:
        """A line whose beginning is read with those of the lanes that will be asked for next."""
        yield from self._begun(lane, "", now, ahead, *ring.line(lane))

    def _begun(
        self, lane: Lane, group: str, now: Ms, ahead: Callable[[], int], page: list[Row], size: int
    ) -> Iterator[Job]:
        """A line whose beginning is read: all of it, if that is less than was asked for."""
        payloads, lying = self._payloads, self.lying
        for row in page:
            job = self.record(row)
            payloads[lane[0], job.spec.id] = row[6]
            lying[row[0]] = row[7]
            yield job
        if len(page) == size:
            last = (-page[-1][3], page[-1][4], page[-1][0]) if page else (-101, 0, 0)
            yield from self.line_after(lane, group, now, ahead, last)

    def upcoming(self, queue: str, now: Ms) -> Iterator[Row]:
        """If the clock went back, some of them only seemed due and stand in `ready`."""
        if now < self.place.promoted - self.place.slack:
            return iter(sorted([*self.all("early", queue, now), *self._scheduled(queue, now)]))
        return self._scheduled(queue, now)

    def _scheduled(self, queue: str, now: Ms) -> Iterator[Row]:
        size, offset = UPCOMING, 0
        from_when: Ms | None = None if self._untimed else now
        if isinstance(self._ring, FrontierRing):
            from_when = max(now, self._ring.frontier.due_at(queue)[0] - 1)
        while page := self.all("upcoming", queue, from_when, size, offset):
            yield from page
            if len(page) < size:
                return
            size, offset = size * 4, offset + len(page)

    # Sweep, purge, transfer

    def tidy(self, now: Ms, limit: int) -> None:
        self.run("clean_claims", now, limit, self._first_claimed())

    def finished(self) -> list[FinishedBatch]:
        return [FinishedBatch(row[0], State(row[1])) for row in self.all("ended")]

    def cascades(self, limit: int) -> list[tuple[int, Ref]]:
        self.run("rechecked", limit)
        return super().cascades(limit)

    def old_chunks(self, before: Ms, limit: int) -> int | None:
        self.sequence()
        return super().old_chunks(before, limit)

    def sequence(self) -> None:
        """Gives the chunks that are visible their places in the feed."""
        self.lock("feed")
        moved = CHUNKS_AT_ONCE
        while moved == CHUNKS_AT_ONCE:
            (moved,) = self._from_border("inbox", "sequence", CHUNKS_AT_ONCE)

    def _from_border(self, table: str, statement: str, *values: Any) -> Row:
        """Runs a statement that reads a table from its frontier on, and keeps the next one; what it answers besides."""
        border = self._borders.get(table) or self.place.borders.get(table)
        if border is None or not border.usable(self._since):
            border = Border()
        self.ways.took(Way.BORDER_NONE if border.snapshot is None else Way.BORDER)
        sent = time.monotonic()
        *answer, mark, snapshot, own, server = self.row(
            statement, *values, border.snapshot, border.own, border.mark, border.server
        )
        self._borders[table] = border.then(mark, snapshot, own, server, sent)
        return tuple(answer)

    def _first_claimed(self) -> int:
        if "claimed" not in self._borders:
            self._from_border("claimed", "first_claimed")
        return self._borders["claimed"].mark

    def lost(self, now: Ms, limit: int) -> list[Job]:
        return self._records("lost", now, limit, self._first_claimed())

    def ended(self, batch: FinishedBatch, after: int, limit: int) -> list[Ended]:
        self.run("scan_freely")
        found = super().ended(batch, after, limit)
        if not found:
            self.run("forget_ended", batch.day, batch.state.value)
        return found

    def dump(self, kind: str, after: str, limit: int) -> list[tuple[str, Any]]:
        if kind == "meta" and not after:
            return [("meta", replace(self._meta, cascade_head=self.row("last_cascade")[0]))]
        return super().dump(kind, after, limit)

    def restore_job(self, job: Job) -> None:
        """A pending job goes to `scheduled` whatever its time: the first claim moves what is due."""
        seq, version = job.spec.seq, job.version
        for table in ("label", "running", "finished", "in_order", "expiring", *PLACES):
            self.stream(f"DELETE FROM tenure.{table} WHERE seq = ? RETURNING 1", (seq,))
        self.run("restore_job", *rows.job_row(job))
        self.many("add_label", labels(job.spec))
        if job.state is State.RUNNING:
            put_running(self, [(*rows.running_row(job), version)])
        elif job.state in TERMINAL:
            put_finished(self, [(*rows.finished_row(job), version)])
        for table, row in waiting(job, border=-1):
            self.many(f"put_{table}", [(*row, version) if table in PLACES else row])

    # Writing

    def keep(self, unit: Unit) -> None:
        if unit.wrote:
            self._meta, configured = keep(self, unit)
            if configured:
                self.config += 1
                self._forget_config()
