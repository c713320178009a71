"""Dumping and restoring rows verbatim, kind by kind."""

from typing import TYPE_CHECKING, Any

from tenure.domain.model.attached import ATTACHED
from tenure.domain.model.families import FAMILIES
from tenure.stores import records
from tenure.stores.sql import rows
from tenure.stores.sql.rows import Row

if TYPE_CHECKING:
    from tenure.stores.sql.tables import SqlTables

KEYS = {**{family.name: family.columns for family in FAMILIES.values()}, "chunk": 1}
"""How many columns each kind's key has."""

_NUMBERED = ("cascade", "chunk")


def dump(tables: "SqlTables", kind: str, after: str, limit: int) -> list[tuple[str, Any]]:
    """Values of one kind with their sort keys, by key, after `after`."""
    if kind in ATTACHED:
        seq, member = _parts(after, 2)
        found = tables.all("dump_attached", int(seq or 0), member, kind, limit)
        return [(f"{row[4]}\0{row[2]}", (row[:2], row[2], rows.attached_of(kind, row[3]))) for row in found]
    if kind == "result":
        found = tables.all("dump_result", *(int(part or 0) for part in _parts(after, 2)), limit)
        return [(f"{row[4]}\0{row[5]}", (row[:2], rows.result_of(row))) for row in found]
    start: list[Any] = [int(after or 0)] if kind in _NUMBERED else _parts(after, KEYS[kind])
    return [_dumped(kind, row) for row in tables.all(f"dump_{kind}", *start, limit)]


def _parts(after: str, count: int) -> list[Any]:
    return after.split("\0") if after else [""] * count


def _dumped(kind: str, row: Row) -> tuple[str, Any]:
    if kind == "job":
        job = rows.job_of(records.spec_of(row[1]), *row[2:])
        return "\0".join(job.ref), job
    if kind == "chunk":
        return f"{row[0]:020d}", rows.chunk_of(row)
    value = rows.VALUES[kind](row)
    if kind == "cascade":
        return f"{row[0]:020d}", FAMILIES[kind].row(row[0], value)
    key = row[: KEYS[kind]]
    return "\0".join(key), FAMILIES[kind].row(key, value)


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
            tables.many(f"put_{kind}", [rows.ROWS[kind](*FAMILIES[kind].pair(value))])
