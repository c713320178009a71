"""Rows of the SQL stores as the domain's values, and back.

A record comes as (seq, spec, state, priority, run_at, live).
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import msgspec

from tenure.domain.calls import Document
from tenure.domain.event import unfold
from tenure.domain.job import Binding, DeadLetter, Edge, Job, Result, Slot, Spec, as_enqueued
from tenure.domain.model import Chunk
from tenure.domain.model.attached import ATTACHED
from tenure.domain.model.retention import Ended
from tenure.domain.names import DAY, Ms
from tenure.domain.states import Disposition, OnParentFailure, State, Unique
from tenure.stores import records

Row = tuple[Any, ...]

_STATES = {state.value: state for state in State}
STATE_NAMES = {state: state.value for state in State}
"""Plain strings: `.value` of an enum is slow, and drivers bind a subclass of str slowly."""
_json = msgspec.json.Encoder().encode
_attached = {family.name: msgspec.msgpack.Decoder(family.shape).decode for family in ATTACHED.values()}


def json_text(value: Any) -> str:
    """A value as JSON: how lists of keys go into a statement."""
    return _json(value).decode()


def job_of(spec: Spec, state: str, priority: int, run_at: Ms, live: bytes | None) -> Job:
    """A record from its columns."""
    return records.job_of(spec, _STATES[state], priority, run_at, live)


def job_row(job: Job) -> Row:
    """What `add_job` takes. A job that doesn't wait has the rest in `running` or `finished`."""
    spec, state, priority, run_at = job.spec, job.state, job.priority, job.run_at
    identity = (spec.seq, spec.tenant, spec.id, spec.queue, spec.job_type, spec.enqueued_at)
    waits = state is State.PENDING or state is State.BLOCKED
    unchanged = not waits or job == as_enqueued(spec, state, priority, run_at)
    live = None if unchanged else records.live_blob(job)
    return (*identity, records.encode(spec), STATE_NAMES[state] if waits else "pending", priority, run_at, live)


def running_row(job: Job) -> Row:
    """What `put_running` takes."""
    spec, lease = job.spec, job.lease
    if lease is None:
        raise AssertionError(f"job {job.ref} runs without a lease")
    return (
        spec.seq,
        spec.queue,
        spec.tenant,
        spec.group or "",
        job.token,
        lease.until + lease.grace,
        records.live_blob(job),
    )


def finished_row(job: Job) -> Row:
    """What `put_finished` takes."""
    return (job.spec.seq, (job.finished_at or 0) // DAY, STATE_NAMES[job.state], records.live_blob(job))


def binding_of(row: Row) -> Binding:
    return Binding(row[4], row[5], Unique(row[6]), row[7])


def binding_row(binding: Binding) -> Row:
    return (binding.job_id, binding.fingerprint, binding.unique.value, binding.expires_at)


def edge_of(row: Row) -> Edge:
    return Edge(row[0], row[1], row[2], row[3], OnParentFailure(row[4]), bool(row[5]))


def edge_row(edge: Edge) -> Row:
    return (edge.tenant, edge.parent, edge.child, edge.child_seq, edge.on_failure.value, int(edge.resolved))


def ended_of(row: Row) -> Ended:
    """From (seq, tenant, id, a binding's columns after its tenant, disposition, whether it has a child, and a slot)."""
    seq, tenant, id, *binding, letter, child, draining = row
    return Ended(
        (tenant, id),
        seq,
        None if binding[2] is None else (tenant, *binding[:3]),
        None if binding[2] is None else binding_of((tenant, *binding)),
        None if letter is None else Disposition(letter),
        bool(child),
        bool(draining),
    )


def letter_of(row: Row) -> DeadLetter:
    return DeadLetter(row[0], row[1], row[2], Disposition(row[3]), row[4])


def letter_row(letter: DeadLetter) -> Row:
    return (letter.tenant, letter.job_id, letter.at, letter.disposition.value, letter.new_id)


def result_of(row: Row) -> Result:
    return Result(row[2], row[3], row[4])


def slot_of(row: Row) -> Slot:
    return Slot(*row)


def slot_row(slot: Slot) -> Row:
    return (slot.tenant, slot.job_id, slot.lease_seq, slot.queue, slot.group, slot.deadline)


def attached_of(family: str, body: bytes) -> Any:
    """The value of a row beside a record."""
    return _attached[family](body)


def chunk_of(row: Row) -> Chunk:
    position, tenant, at, body = row
    return Chunk(position, tenant, at, unfold(body))


def document_of(row: Row) -> Document:
    return Document(tenant=row[0], kind=row[1], name=row[2], body=row[3], version=row[4], expires_at=row[5])


def document_row(document: Document) -> Row:
    return (
        document.tenant,
        document.kind,
        document.name,
        document.body,
        document.version,
        document.expires_at,
    )


ROWS: dict[str, Callable[[Any, Any], Row]] = {
    "binding": lambda key, binding: (*key, *binding_row(binding)),
    "edge": lambda _, edge: edge_row(edge),
    "dead_letter": lambda _, letter: letter_row(letter),
    "slot": lambda _, slot: slot_row(slot),
    "cascade": lambda position, ref: (position, *ref),
    "bucket": lambda key, tat: (*key, tat),
    "position": lambda lane, group: (*lane, group),
    "document": lambda _, document: document_row(document),
}
"""What `put_…` of a family takes, of a key and a value. Records, payloads and results go other ways."""

VALUES: dict[str, Callable[[Row], Any]] = {
    "body": itemgetter(2),
    "binding": binding_of,
    "edge": edge_of,
    "dead_letter": letter_of,
    "result": result_of,
    "slot": slot_of,
    "cascade": lambda row: (row[1], row[2]),
    "bucket": itemgetter(3),
    "position": itemgetter(2),
    "document": document_of,
}
"""The value in what `dump_…` of a family finds."""
