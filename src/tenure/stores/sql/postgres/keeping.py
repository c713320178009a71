"""Keeping what a unit changed, so that whoever was overtaken keeps nothing.

Chunks of events come last: they are numbered as they are written, and whoever moves a job after us must find it moved
before they can write theirs.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenure.domain.calls import Document
from tenure.domain.config import QUEUE, TENANT, QueueConfig
from tenure.domain.event import encode_events
from tenure.domain.job import Job
from tenure.domain.model import FinishedBatch, Meta, Unit
from tenure.domain.model.documents import parse
from tenure.domain.model.entries import labels, waiting
from tenure.domain.model.families import FAMILIES
from tenure.domain.model.retention import Ended
from tenure.domain.model.tables import DocumentKey
from tenure.domain.names import DAY, Ms
from tenure.domain.states import TERMINAL, State
from tenure.stores import records
from tenure.stores.sql import bulk, rows
from tenure.stores.sql.postgres import modes
from tenure.stores.sql.postgres.place import Overtaken
from tenure.stores.sql.rows import Row
from tenure.stores.ways import Way

if TYPE_CHECKING:
    from tenure.stores.sql.postgres.tables import PostgresTables

PLACES = {"ready": 6, "scheduled": 3, "blocked": 3}
"""The tables that say where a waiting job stands, and how many columns each one's key has."""
OWN_WAYS = ("binding", "document", "cascade")
"""Families whose rows are found by more than their keys, or numbered here."""
WAITING = ("ready", "scheduled")
OWN = 1 << 62
"""Cascades that a unit adds are numbered from here until they get a number of the sequence."""
NUMBERS = ("epoch", "frozen", "loading", "last_turn", "hold_until", "feed_floor")

Rows = dict[str, list[Row]]
"""Statement or table → rows for it."""


def keep(tables: "PostgresTables", unit: Unit) -> tuple[Meta, bool]:
    """Sends everything; the store's numbers as they then are, and whether the configuration changed."""
    if (tables.new_claim and _lease_at_once(tables, unit)) or finish_at_once(tables, unit):
        return tables.meta(), False
    _keep_bulk(tables, unit)
    _keep_jobs(tables, unit)
    _keep_bindings(tables, unit)
    _keep_documents(tables, unit)
    for family, row in rows.ROWS.items():
        if family not in OWN_WAYS:
            _keep_map(tables, family, getattr(unit, FAMILIES[family].changes), row)
    seqs = {ref: job.spec.seq for ref in unit.results if (job := unit.job(ref)) is not None}
    _keep_map(tables, "result", unit.results, lambda ref, one: (one.expires_at, seqs[ref], one.body, one.codec))
    tables.keep_attached(unit)
    _keep_cascades(tables, unit)
    tables.clean(unit)
    for batch, purged in unit.purged.items():
        _purge(tables, batch, purged)
    _check_children(tables, unit)
    modes.hold(tables, unit)
    changed = modes.changes(tables, unit)
    meta, configured = _keep_meta(tables, unit)
    events = [(tenant, unit.now, encode_events(made)) for tenant, made in unit.events.items()]
    tables.many("add_events", events)
    modes.change(tables, changed)
    return meta, configured


# Jobs


def _keep_jobs(tables: "PostgresTables", unit: Unit) -> None:
    added: list[Job] = []
    left: Rows = defaultdict(list)
    written: Rows = defaultdict(list)
    running = tables.running
    for ref, job in sorted(unit.after.items()):
        before = unit.before[ref]
        if job.state is State.RUNNING:
            running[ref] = job
        else:
            running.pop(ref, None)
        if before is None:
            added.append(job)
        else:
            _leave(before, job, unit.now, left, written)
        _take(before, job, unit.now, written)
    _drop(tables, left)
    if added:
        tables.many("add_job", [(*rows.job_row(job), unit.payloads[job.ref]) for job in added])
        tables.many("add_label", [row for job in added if job.spec.labels for row in labels(job.spec)])
    tables.pipeline.exactly("save_running", written.pop("save_running", []))
    put_running(tables, written.pop("put_running", []))
    put_finished(tables, written.pop("put_finished", []))
    for name, values in written.items():
        tables.many(name, values)


def put_running(tables: "PostgresTables", given: list[Row]) -> None:
    """Jobs that run from now on, as (seq, queue, tenant, group, token, deadline, live, version)."""
    if not given:
        return
    limited = {lane: tables.rules(lane[1], lane[0]).limit is not None for lane in {(row[1], row[2]) for row in given}}
    tables.many("put_running", [(*row, limited[row[1], row[2]]) for row in given])
    claims: dict[bytes, list[Row]] = defaultdict(list)
    for row in given:
        claims[row[4]].append(row)
    for token, rows_of in sorted(claims.items()):
        seqs = tables.pipeline.column("bigint", [row[0] for row in rows_of])
        tables.run("add_claimed" if tables.new_claim else "put_claimed", token, min(row[5] for row in rows_of), seqs)


def put_finished(tables: "PostgresTables", given: list[Row]) -> None:
    """Jobs that have ended, as (seq, day, state, live, version)."""
    tables.many("put_finished", given)
    tables.many("put_ended", sorted({(row[1], row[2]) for row in given}))


def _leave(before: Job, job: Job, now: Ms, left: Rows, written: Rows) -> None:
    """Where a job stood, by the version that was read; and how it waits from now on."""
    seq, version = job.spec.seq, before.version
    if before.state is State.RUNNING:
        if job.state is not State.RUNNING:
            left["running"].append((seq, version))
    elif before.state in TERMINAL:
        left["finished"].append((seq, version))
    stays = waiting(job, now)
    for table, row in waiting(before, now):
        if table in PLACES:
            left["waiting" if table in WAITING else table].append((*row[: PLACES["ready"]], version))
        elif (table, row) not in stays:
            left[table].append(row[:4] if table == "in_order" else row[:3])
    turn = (job.priority, job.run_at)
    if job.state is State.PENDING or job.state is State.BLOCKED:
        written["save_job"].append((rows.STATE_NAMES[job.state], *turn, records.live_blob(job), seq))
    elif turn != (before.priority, before.run_at):
        written["save_turn"].append((*turn, seq))


def _take(before: Job | None, job: Job, now: Ms, written: Rows) -> None:
    """Where a job stands from now on."""
    version = job.version
    if job.state is State.RUNNING:
        row = rows.running_row(job)
        if before is not None and before.state is State.RUNNING:
            written["save_running"].append((row[0], before.version, row[5], row[6], version))
        else:
            written["put_running"].append((*row, version))
    elif job.state in TERMINAL:
        written["put_finished"].append((*rows.finished_row(job), version))
    stood = [] if before is None else waiting(before, now)
    for table, place in waiting(job, now):
        if table in PLACES:
            written[f"put_{table}"].append((*place, version))
        elif (table, place) not in stood:
            written[f"put_{table}"].append(place)


def _drop(tables: "PostgresTables", left: Rows) -> None:
    for table, gone in left.items():
        if table in ("waiting", "in_order", "expiring"):
            tables.many(f"drop_{table}", gone)  # the first of them counts for itself, the others stand or fall with it
        else:
            tables.pipeline.exactly(f"drop_{table}", gone)


def _keep_bulk(tables: "PostgresTables", unit: Unit) -> None:
    bulk.remember(unit, tables.running)
    _take_from_line(tables, [job for leased in unit.leased for job in leased.jobs])
    put_running(tables, [(*row, leased.jobs[0].version) for leased in unit.leased for row in bulk.running_rows(leased)])
    if unit.succeeded:
        ended = sorted((seq, version, live) for (version, live), seqs in bulk.ends(unit).items() for seq in seqs)
        column = tables.pipeline.column
        numbers, versions = [row[0] for row in ended], [row[1] - 1 for row in ended]
        tables.run("end_running", column("bigint", numbers), column("bigint", versions))
        day = unit.now // DAY
        put_finished(tables, [(seq, day, bulk.SUCCEEDED, live, version) for seq, version, live in ended])
        tables.many("drop_in_order", bulk.out_of_order(unit))
        tables.many("put_result", bulk.result_rows(unit))


def _take_from_line(tables: "PostgresTables", taken: list[Job]) -> None:
    """Most rows were locked when they were read, and lie where they lay."""
    lying = tables.lying
    known: list[Row] = []
    keys: list[Row] = []
    for job in taken:
        if job.spec.seq in lying:
            known.append((lying[job.spec.seq],))
        else:
            keys.append((*bulk.ready_key(job), job.version - 1))
    tables.pipeline.exactly("take_ready", known)
    tables.pipeline.exactly("drop_ready", keys)


def _lease_at_once(tables: "PostgresTables", unit: Unit) -> bool:
    """A claim that took nothing but what it had locked, by one statement; whether that was so.

    Most of its jobs are alike but for their numbers: each says which of the few kinds it is.
    """
    column, lying = tables.pipeline.column, tables.lying
    if unit.after or unit.buckets or unit.positions or unit.succeeded or not unit.leased:
        return False
    kinds: dict[Row, int] = {}
    seqs: list[int] = []
    numbers: list[int] = []
    for leased in unit.leased:
        first = leased.jobs[0]
        _, queue, tenant, group, _, deadline, live = rows.running_row(first)
        if group:
            return False
        kind = (queue, tenant, deadline, live, first.version, tables.rules(tenant, queue).limit is not None)
        number = kinds.setdefault(kind, len(kinds) + 1)
        numbers += [number] * len(leased.jobs)
        seqs += [job.spec.seq for job in leased.jobs]
    if not lying.keys() >= set(seqs):
        return False
    lie = [lying[seq] for seq in seqs]
    bulk.remember(unit, tables.running)
    queues, tenants, deadlines, lives, versions, limits = zip(*kinds, strict=True)
    tables.ways.took(Way.CLAIM_KEPT_AT_ONCE)
    tables.run(
        "lease_at_once",
        column("tid", lie),
        len(seqs),
        unit.leased[0].jobs[0].token,
        column("bigint", seqs),
        column("bigint", numbers if len(kinds) > 1 else ()),
        column("text", queues),
        column("text", tenants),
        column("bigint", deadlines),
        column("bytea", lives),
        column("bigint", versions),
        column("boolean", limits),
        min(deadlines),
        column("text", list(unit.events)),
        column("bytea", [encode_events(made) for made in unit.events.values()]),
        unit.now,
    )
    return True


def finish_at_once(tables: "PostgresTables", unit: Unit) -> bool:
    """Successes and nothing else, by one statement; whether that was so. It fails if one isn't as it was read.

    Most end alike: each says which of the few ends is its own.
    """
    column = tables.pipeline.column
    changed = (unit.after, unit.bindings, unit.documents, unit.edges, unit.letters, unit.slots, unit.cascades)
    if any(changed) or unit.results or unit.leased or not unit.succeeded:
        return False
    tables.ways.took(Way.SETTLE_KEPT_AT_ONCE)
    bulk.remember(unit, tables.running)
    alike, results, grouped = bulk.ends(unit), bulk.result_rows(unit), bulk.out_of_order(unit)
    ends = list(alike)
    seqs: Sequence[int] = sorted(alike[ends[0]])
    numbers: Sequence[int] = ()
    if len(ends) > 1:
        ended = sorted((seq, number) for number, end in enumerate(ends, 1) for seq in alike[end])
        seqs, numbers = zip(*ended, strict=True)
    parts = {name for name, given in (("results", results), ("grouped", grouped)) if given}
    tables.pipeline.send_part(
        "finish_at_once",
        frozenset(parts),
        column("bigint", seqs),
        column("bigint", [version - 1 for version, _ in ends]),
        column("bigint", numbers),
        column("bytea", [live for _, live in ends]),
        unit.now // DAY,
        column("text", list(unit.events)),
        column("bytea", [encode_events(made) for made in unit.events.values()]),
        unit.now,
        *_columns(tables, results, ("bigint", "bigint", "bytea", "text")),
        *_columns(tables, grouped, ("text", "text", "text", "bigint")),
    )
    if tables.flows:
        tables.many("no_children", unit.ended_parents)
    else:
        tables.run("no_flows")
    return True


def _columns(tables: "PostgresTables", given: list[Row], kinds: tuple[str, ...]) -> list[Any]:
    columns = list(zip(*given, strict=True)) or [()] * len(kinds)
    return [tables.pipeline.column(kind, values) for kind, values in zip(kinds, columns, strict=True)]


# What belongs to jobs


def _keep_bindings(tables: "PostgresTables", unit: Unit) -> None:
    new: list[Row] = []
    taken: list[Row] = []
    given: list[Row] = []
    for key, binding in sorted(unit.bindings.items()):
        held = unit.held_binding(key)
        if binding is not None:
            row = (*key, *rows.binding_row(binding))
            if held is None:
                new.append(row)
            else:
                taken.append((*row, held.job_id))
        elif held is not None:
            given.append((*key, held.job_id))
    tables.many("bind", new)
    tables.pipeline.exactly("rebind", taken)
    tables.pipeline.exactly("unbind", given)


def _keep_cascades(tables: "PostgresTables", unit: Unit) -> None:
    """Positions that the unit counted itself become numbers of the sequence, in their order."""
    tables.many("drop_cascade", [(position,) for position, ref in unit.cascades.items() if ref is None])
    new = sorted((position, ref) for position, ref in unit.cascades.items() if ref is not None)
    tables.many("put_cascade", [(tables.row("cascading")[0], *ref) for _, ref in new])


def _check_children(tables: "PostgresTables", unit: Unit) -> None:
    """A child that was tied to a parent while it ended must not be overlooked, by one of the two at least.

    The one that ends looks again, now that it is known to: whoever comes later sees that it has. The one that ties
    leaves a note for the sweeper, which sees both.
    """
    parents = {(edge.tenant, edge.parent) for edge in unit.edges.values() if edge is not None}
    tables.many("recheck", [ref for ref in sorted(parents) if (job := unit.job(ref)) and not job.state.terminal])
    tables.many("no_children", [ref for ref in unit.ended_parents if not unit.known_children(ref)])
    for parent in unit.ended_parents:
        known = unit.known_children(parent)
        if known and {edge.child for edge in tables.edges_from([parent]).get(parent, ())} - known:
            raise Overtaken


def _keep_map(tables: "PostgresTables", table: str, changes: dict[Any, Any], row: Callable[[Any, Any], Row]) -> None:
    tables.many(f"drop_{table}", sorted(key for key, value in changes.items() if value is None))
    put = sorted(key for key, value in changes.items() if value is not None)
    tables.many(f"put_{table}", [row(key, changes[key]) for key in put])


def _purge(tables: "PostgresTables", batch: FinishedBatch, jobs: list[Ended]) -> None:
    """Another purge may have taken some of them meanwhile: its event has counted them."""
    (count,) = tables.row("purge", tables.pipeline.column("bigint", [job.seq for job in jobs]))
    if count != len(jobs):
        raise Overtaken
    tables.run("forget_ended", batch.day, batch.state.value)


# Configuration, and the store's own numbers


def _keep_documents(tables: "PostgresTables", unit: Unit) -> None:
    new: list[Row] = []
    saved: list[Row] = []
    gone: list[Row] = []
    for key, document in sorted(unit.documents.items()):
        if key[1] == QUEUE:
            _count_from_now(tables, key, document)
        before = tables.versions.get(key)
        if document is not None:
            row = rows.document_row(document)
            if before is None:
                new.append(row)
            else:
                saved.append((*row, before))
        elif before is not None:
            gone.append((*key, before))
    tables.many("add_document", new)
    tables.pipeline.exactly("save_document", saved)
    tables.pipeline.exactly("remove_document", gone)


def _count_from_now(tables: "PostgresTables", key: DocumentKey, document: Document | None) -> None:
    """Jobs that run without a limit aren't counted, until there is one: nobody may be about to claim another."""
    if _config(document).limit is not None and _config(tables.document(key)).limit is None:
        tables.stop_claims()
        tables.run("limit_running", key[2], key[0])


def _config(document: Document | None) -> QueueConfig:
    config = None if document is None or document.body is None else parse(QUEUE, document.body)
    return config if isinstance(config, QueueConfig) else QueueConfig()


def _keep_meta(tables: "PostgresTables", unit: Unit) -> tuple[Meta, bool]:
    meta, before = unit.meta, tables.meta()
    if meta.frozen and not before.frozen:
        tables.stop()
    if meta.loading and meta.seq > before.seq:
        tables.run("set_arrival", meta.seq)
    if meta.loading and 0 < meta.cascade_head < OWN:
        tables.run("set_cascading", meta.cascade_head)
    if meta.feed_floor != before.feed_floor:
        tables.run("trim_feed", meta.feed_floor)
    configured = any(key[1] in (QUEUE, TENANT) for key in unit.documents)
    if configured or any(getattr(meta, name) != getattr(before, name) for name in NUMBERS):
        tables.run("put_meta", *(getattr(meta, name) for name in NUMBERS), int(configured), tables.version)
        tables.version += 1
    return replace(meta, feed_head=before.feed_head, cascade_head=OWN), configured
