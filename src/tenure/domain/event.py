"""Events: what happened to a job, as the feed keeps it and as Spark reads it.

Stored one JSON object a line; absent fields are left out, unknown ones are kept in `more`. Events in a row that differ
in one or two values alone may be folded: the line that they share, `#` before it and a tab where they differ, then a
line of values for each. JSON has no tabs, and no other line begins so. In a batch of jobs an event takes some 45 bytes
instead of 220, which are to be sent, compressed and kept.
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


Told = Event | str | tuple[str, str]
"""An event; its line, encoded before; or the form of its line, and its values (`form`)."""


def form(head: str, middle: str, tail: str | None = None) -> str:
    """What the lines of some events share: before and after the value that they differ in, or around both."""
    return f"#{head}\t{middle}\n" if tail is None else f"#{head}\t{middle}\t{tail}\n"


def encode_events(events: Sequence[Told]) -> bytes:
    """A chunk's body. Values come as text with tabs between them and a line's end; lone events aren't folded."""
    lines: list[str] = []
    last: str | None = None
    for event in events:
        if type(event) is tuple:
            shared, values = event
            if shared is not last:
                lines.append(shared)
                last = shared
            lines.append(values)
        else:
            lines.append(event if isinstance(event, str) else _line(event))  # type: ignore[arg-type]
            last = None
    body = "".join(lines).encode()
    return unfold(body) if len(events) == 1 else body


def unfold(body: bytes) -> bytes:
    """A chunk's body as NDJSON, a line for each event."""
    if not body.startswith(b"#") and b"\n#" not in body:
        return body
    before, *folds = (b"\n" + body.removesuffix(b"\n")).split(b"\n#")
    lines = [before.removeprefix(b"\n") + b"\n"] if before else []
    for fold in folds:
        shared, _, rest = fold.partition(b"\n")
        values, brace, others = rest.partition(b"\n{")
        head, *middle, tail = shared.split(b"\t")
        if middle:
            values = values.replace(b"\t", middle[0])
        lines.append(head + values.replace(b"\n", tail + b"\n" + head) + tail + b"\n")
        if brace:
            lines.append(b"{" + others + b"\n")
    return b"".join(lines)


def unfolded_size(size: int, first: bytes) -> int:
    """About how much a stored body of this size, that begins so, has as NDJSON. What is folded repeats a line of some
    250 bytes for every 40 of its own.
    """
    return size + 6 * max(0, size - 250) if first == b"#" else size


def cut(event: Event, *fields: str) -> list[str]:
    """The event's line around the values of some fields, which it must have, in the order of the struct.

    Texts of users come before some fields. Their quotes are escaped, so none of them looks like a field's name.
    """
    rest, parts = _line(event).removesuffix("\n"), []
    for name in fields:
        value = _encode(getattr(event, name)).decode()
        quote = '"' if value.startswith('"') else ""
        before, found, rest = rest.partition(f'"{name}":{value}')
        if not found:
            raise AssertionError(f"{event.kind} has no {name} there")
        parts.append(f'{before}"{name}":{quote}')
        rest = quote + rest
    return [*parts, rest]


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
