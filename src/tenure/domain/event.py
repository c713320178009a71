"""Events: what happened to a job, as the feed keeps it and as Spark reads it.

Stored one JSON object a line; absent fields are left out, unknown ones are kept in `more`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.domain.names import Ms
from tenure.domain.states import EventKind


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One fact. The first block is on every event; the others go with the kinds named above them."""

    tenant: str
    kind: EventKind
    at: Ms
    job_id: str | None = None
    version: int | None = None
    queue: str | None = None
    job_type: str | None = None
    attempt: int | None = None
    lease_seq: int | None = None
    worker: str | None = None
    # enqueued; priority also on reprioritised
    priority: int | None = None
    key_hash: str | None = None
    group: str | None = None
    max_attempts: int | None = None
    parents: tuple[str, ...] | None = None
    replay_of: str | None = None
    payload_size: int | None = None
    labels: dict[str, str] | None = None
    # enqueued, rescheduled, and wherever a job goes back to pending
    run_at: Ms | None = None
    # claimed
    lease_until: Ms | None = None
    waited_ms: Ms | None = None
    group_holders: int | None = None
    group_limit: int | None = None
    # every kind that ends a job or a lease; run_ms only where a lease ended
    run_ms: Ms | None = None
    reason: str | None = None
    error_family: str | None = None
    message: str | None = None
    result_size: int | None = None
    # progress
    progress: float | None = None
    # replayed
    new_id: str | None = None
    # purged
    day: str | None = None
    state: str | None = None
    count: int | None = None
    # configured, paused, resumed
    document: str | None = None
    # clock_jump
    hold_until: Ms | None = None

    more: dict[str, Any] = {}


_KNOWN = frozenset(Event.__struct_fields__)
_encode = msgspec.json.Encoder().encode
_decode_lines = msgspec.json.Decoder().decode_lines


def encode_events(events: Sequence[Event | str]) -> bytes:
    """A chunk's body: NDJSON. A string is a line that was encoded before."""
    return "".join([event if isinstance(event, str) else _line(event) for event in events]).encode()


def _line(event: Event) -> str:
    return _encode(_flat(event)).decode() + "\n"


def decode_events(body: bytes) -> list[Event]:
    """The events of a chunk, fields of newer versions kept in `more`."""
    return [_event(line) for line in _decode_lines(body)]


def _flat(event: Event) -> Event | dict[str, Any]:
    if not event.more:
        return event
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {**fields.pop("more"), **fields}


def _event(fields: dict[str, Any]) -> Event:
    if not fields.keys() <= _KNOWN:
        fields = {
            **{name: value for name, value in fields.items() if name in _KNOWN},
            "more": {name: value for name, value in fields.items() if name not in _KNOWN},
        }
    return msgspec.convert(fields, Event)
