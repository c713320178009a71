"""Index entries: which of them follow from a record, derived here for every store but the oracle.

An entry is the name of an index and a row of it. An index is sorted by its key, column by column: text by the bytes of
its UTF-8, which is the order of its code points; numbers and times ascending. `prio_neg` is minus the priority, so that
ascending order is the contract's (§10). What a row has besides its key is carried along for the scans. A store with
tables makes each index a table of its own; one with ordered keys takes `ordered_key`, whose bytes sort like the key.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import msgspec

from tenure.domain.job import Job, Slot, Spec
from tenure.domain.names import DAY, Ms
from tenure.domain.states import TERMINAL, State

Row = tuple[Any, ...]
Entry = tuple[str, Row]
"""The name of an index, and a row of it."""


class Index(msgspec.Struct, frozen=True):
    """A sorted list of rows."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The columns it is sorted by, which no two rows have in common. None of them is ever None."""


_LINE = ("queue", "tenant", "group", "prio_neg", "run_at", "seq", "expires_at")

WAITING = {
    "ready": Index(_LINE, _LINE[:6]),
    "scheduled": Index(_LINE, ("queue", "run_at", "seq")),
    "blocked": Index(("queue", "tenant", "seq"), ("queue", "tenant", "seq")),
    "in_order": Index(("queue", "tenant", "group", "seq", "expires_at"), ("queue", "tenant", "group", "seq")),
    "expiring": Index(("expires_at", "tenant", "id", "seq"), ("expires_at", "tenant", "id")),
}
"""Where a job stands that waits. `in_order` has the running jobs of groups too: one of them may head its group."""

_HOLDER = ("queue", "tenant", "group", "id")
_DEADLINE = ("deadline", "tenant", "id")
_CLAIMED = ("token", "tenant", "id")
_FINISHED = ("day", "state", "tenant", "id", "seq")
_LABELLED = ("tenant", "name", "value", "seq")

INDEXES = {
    **WAITING,
    "running": Index(_HOLDER, _HOLDER),
    "leased": Index(_DEADLINE, _DEADLINE),
    "claimed": Index(_CLAIMED, _CLAIMED),
    "finished": Index(_FINISHED, _FINISHED[:4]),
    "labelled": Index(_LABELLED, _LABELLED),
    "draining": Index(_HOLDER, _HOLDER),
    "drained": Index(_DEADLINE, _DEADLINE),
}
"""All of them. What a lane or a group holds is counted in `running` and `draining`; the last two are of slots."""


def waiting(job: Job, border: Ms) -> list[Entry]:
    """Where a job stands in line. A pending job is ready up to `border`, scheduled after it."""
    spec, state = job.spec, job.state
    tenant, queue, seq, group = spec.tenant, spec.queue, spec.seq, spec.group or ""
    if state is State.BLOCKED:
        return [("blocked", (queue, tenant, seq))]
    found: list[Entry] = []
    expires_at = None
    if state is State.PENDING:
        expires_at = job.expires_at
        index = "ready" if job.run_at <= border else "scheduled"
        found.append((index, (queue, tenant, group, -job.priority, job.run_at, seq, expires_at)))
        if expires_at is not None:
            found.append(("expiring", (expires_at, tenant, spec.id, seq)))
    elif state is not State.RUNNING:
        return found
    if group:
        found.append(("in_order", (queue, tenant, group, seq, expires_at)))
    return found


def entries(job: Job, border: Ms) -> list[Entry]:
    """Every entry of a job; those in line by `border`."""
    spec, found = job.spec, waiting(job, border)
    if job.lease is not None:
        found.append(("running", (spec.queue, spec.tenant, spec.group or "", spec.id)))
        found.append(("leased", (job.lease.deadline, spec.tenant, spec.id)))
        found.append(("claimed", (job.token, spec.tenant, spec.id)))
    if job.state in TERMINAL:
        found.append(("finished", ((job.finished_at or 0) // DAY, job.state.value, spec.tenant, spec.id, spec.seq)))
    return found + [("labelled", row) for row in labels(spec)]


def labels(spec: Spec) -> list[Row]:
    """Rows of `labelled`. They never change."""
    return [(spec.tenant, name, value, spec.seq) for name, value in spec.labels.items()]


def slot_entries(slot: Slot) -> list[Entry]:
    """The entries of a draining slot."""
    return [
        ("draining", (slot.queue, slot.tenant, slot.group or "", slot.job_id)),
        ("drained", (slot.deadline, slot.tenant, slot.job_id)),
    ]


def moved(before: Job, after: Job, border: Ms) -> tuple[list[Entry], list[Entry]]:
    """The places in line that a job leaves, and those it takes; one that stays the same is in neither."""
    return difference(waiting(before, border), waiting(after, border))


def difference(here: list[Entry], there: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The entries that are in the first only, and those in the second only."""
    return [entry for entry in here if entry not in there], [entry for entry in there if entry not in here]


def _picks(index: Index) -> Callable[[Row], Row]:
    return itemgetter(*map(index.columns.index, index.key))


_KEYS = {name: _picks(index) for name, index in INDEXES.items()}


def key_of(index: str, row: Row) -> Row:
    """The key of a row."""
    return _KEYS[index](row)


def ordered_key(index: str, row: Row) -> bytes:
    """The key of a row as bytes, which sort as keys do."""
    return b"".join(map(_ordered, key_of(index, row)))


def _ordered(value: int | str | bytes) -> bytes:
    """Text ends with a zero byte, which no text here contains (§11). Bytes are a token's hash, all of one length."""
    if isinstance(value, int):
        return (value + (1 << 63)).to_bytes(8)
    return value.encode() + b"\0" if isinstance(value, str) else value
