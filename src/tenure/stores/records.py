"""A job's record as bytes: what never changes about it (`Spec`), and what does (`Live`), each a MessagePack array.

Which fields there are, and in which order, is said by the domain's structs alone.
"""

from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import astuple

from tenure.domain.job import Job, Spec, as_enqueued
from tenure.domain.names import Ms
from tenure.domain.states import State

COLUMNS = ("spec", "state", "priority", "run_at")
"""What stores keep beside `Live`, because they search by it, or because it is in a state's own place."""

encode = msgspec.msgpack.Encoder().encode
spec_of = msgspec.msgpack.Decoder(Spec).decode

_FIELDS = [field for field in msgspec.structs.fields(Job) if field.name not in COLUMNS]
Live = msgspec.defstruct(
    "Live", [(field.name, field.type) for field in _FIELDS], frozen=True, array_like=True, gc=False
)
"""A record's changing parts but for its columns, in the order of `Job`'s fields. Each must be there."""
_live_of = msgspec.msgpack.Decoder(Live).decode
_changing = attrgetter(*Live.__struct_fields__)


def live_blob(job: Job) -> bytes:
    """What changes about a job, but for its columns."""
    return encode(_changing(job))


def job_of(spec: Spec, state: State, priority: int, run_at: Ms, live: bytes | None) -> Job:
    """A record. Without `live` it is as it was enqueued."""
    if live is None:
        return as_enqueued(spec, state, priority, run_at)
    version, *others = astuple(_live_of(live))
    return Job(spec, state, version, priority, run_at, *others)


def cut(record: msgspec.Struct, **widths: int) -> list[bytes]:
    """An array's encoding around the values of some fields, in the order of the struct.

    A value of the given width in bytes, any of that width, can be put into its room as it is; one of width 0, as
    MessagePack writes it.
    """
    values = [encode(value) for value in astuple(record)]
    parts = [encode(record)[: -sum(map(len, values))]]
    for name, value in zip(record.__struct_fields__, values, strict=True):
        if name in widths:
            parts[-1] += _head(getattr(record, name), widths[name])
            parts.append(b"")
        else:
            parts[-1] += value
    return parts


def _head(value: Any, width: int) -> bytes:
    """What MessagePack writes before a value of this type and width."""
    if not width:
        return b""
    return encode((1 << 8 * width) - 1 if isinstance(value, int) else value)[:-width]


def rooms(blob: bytes, number: int, count: int) -> list[int]:
    """Where a number of eight bytes stands in an encoding, so many times, counted from 1 as SQL counts."""
    before = blob.split(number.to_bytes(8))[:-1]
    if len(before) != count:
        raise AssertionError(f"the number {number} is there {len(before)} times, not {count}")
    return [sum(map(len, before[: at + 1])) + 8 * at + 1 for at in range(count)]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


_AFTER_KEY = msgspec.structs.fields(Spec)[Spec.__struct_fields__.index("key") + 1 :]
PLAIN_END = b"".join(encode(_default(field)) for field in _AFTER_KEY)
"""The end of an encoded `Spec` whose fields after `key` all have their defaults. No other encoding ends so: MessagePack
writes a type before each number, and UTF-8 has no byte 0xC0, which is its nil."""
