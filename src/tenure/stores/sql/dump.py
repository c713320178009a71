"""Dumping and restoring rows verbatim, kind by kind."""

from typing import TYPE_CHECKING, Any

from tenure.domain.model.attached import ATTACHED
from tenure.stores import records
from tenure.stores.sql import rows
from tenure.stores.sql.rows import Row

if TYPE_CHECKING:
    from tenure.stores.sql.tables import SqlTables

KEYS = {
    "job": 2,
    "body": 2,
    "binding": 4,
    "edge": 3,
    "dead_letter": 2,
    "result": 2,
    "slot": 2,
    "cascade": 1,
    "bucket": 3,
    "position": 2,
    "document": 3,
    "chunk": 1,
}
"""How many columns each kind's key has."""

_NUMBERED = ("cascade", "chunk")


def dump(tables: "SqlTables", kind: str, after: str, limit: int) -> list[tuple[str, Any]]:
    """Values of one kind with their sort keys, by key, after `after`."""
    if kind in ATTACHED:
        found = tables.all("dump_attached", *_parts(after, 3), kind, limit)
        return [("\0".join(row[:3]), (row[:2], row[2], rows.attached_of(kind, row[3]))) for row in found]
    start: list[Any] = [int(after or 0)] if kind in _NUMBERED else _parts(after, KEYS[kind])
    return [_dumped(kind, row) for row in tables.all(f"dump_{kind}", *start, limit)]


def _parts(after: str, count: int) -> list[Any]:
    return after.split("\0") if after else [""] * count


def _dumped(kind: str, row: Row) -> tuple[str, Any]:
    match kind:
        case "job":
            job = rows.job_of(records.spec_of(row[1]), *row[2:])
            return "\0".join(job.ref), job
        case "cascade":
            return f"{row[0]:020d}", (row[0], (row[1], row[2]))
        case "chunk":
            return f"{row[0]:020d}", rows.chunk_of(row)
    return "\0".join(row[: KEYS[kind]]), _value(kind, row)


def _value(kind: str, row: Row) -> Any:
    match kind:
        case "body":
            return row[:2], row[2]
        case "binding":
            return row[:4], rows.binding_of(row)
        case "edge":
            return rows.edge_of(row)
        case "dead_letter":
            return rows.letter_of(row)
        case "result":
            return row[:2], rows.result_of(row)
        case "slot":
            return rows.slot_of(row)
        case "bucket":
            return row[:3], row[3]
        case "position":
            return row[:2], row[2]
    return rows.document_of(row)


def restore(tables: "SqlTables", kind: str, value: Any) -> None:
    """Writes one dumped value; the same again changes nothing."""
    match kind:
        case _ if kind in ATTACHED:
            ref, member, row = value
            tables.run("restore_attached", *ref, kind, member, records.encode(row))
        case "job":
            tables.restore_job(value)
        case "body":
            tables.run("set_payload", *value[0], value[1])
        case "result":
            result = value[1]
            tables.run("restore_result", *value[0], result.body, result.codec, result.expires_at)
        case "chunk":
            tables.many("add_chunk", [(value.position, value.tenant, value.at, value.body)])
        case _:
            tables.many(f"put_{kind}", [_row(kind, value)])


def _row(kind: str, value: Any) -> Row:
    """What `put_…` takes."""
    match kind:
        case "binding":
            return (*value[0], *rows.binding_row(value[1]))
        case "edge":
            return rows.edge_row(value)
        case "dead_letter":
            return rows.letter_row(value)
        case "slot":
            return rows.slot_row(value)
        case "cascade":
            return (value[0], *value[1])
        case "bucket" | "position":
            return (*value[0], value[1])
    return rows.document_row(value)
