"""Dumping and restoring rows verbatim, kind by kind."""

import sqlite3
from typing import Any

from tenure.domain.job import Job
from tenure.domain.model import Chunk
from tenure.domain.states import TERMINAL, State
from tenure.stores.sql.sqlite import rows
from tenure.stores.sql.sqlite.places import KEYS, places
from tenure.stores.sql.sqlite.rows import Row

_KEYS = {
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


def dump(
    connection: sqlite3.Connection, sql: dict[str, str], kind: str, after: str, limit: int
) -> list[tuple[str, Any]]:
    """Values of one kind with their sort keys, by key, after `after`."""
    start: list[Any] = [int(after or 0)] if kind in _NUMBERED else _parts(after, _KEYS[kind])
    return [_dumped(kind, row) for row in connection.execute(sql[f"dump_{kind}"], (*start, limit))]


def _parts(after: str, count: int) -> list[Any]:
    return after.split("\0") if after else [""] * count


def _dumped(kind: str, row: Row) -> tuple[str, Any]:
    match kind:
        case "job":
            job = rows.job_of(rows.spec_of(row[1]), *row[2:])
            return "\0".join(job.ref), job
        case "cascade":
            return f"{row[0]:020d}", (row[0], (row[1], row[2]))
        case "chunk":
            return f"{row[0]:020d}", Chunk(*row)
    return "\0".join(row[: _KEYS[kind]]), _value(kind, row)


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


def restore(connection: sqlite3.Connection, sql: dict[str, str], kind: str, value: Any) -> None:
    """Writes one dumped value; the same again changes nothing."""
    match kind:
        case "job":
            _restore_job(connection, sql, value)
        case "body":
            connection.execute(sql["set_payload"], (*value[0], value[1]))
        case "binding":
            connection.execute(sql["put_binding"], (*value[0], *rows.binding_row(value[1])))
        case "edge":
            connection.execute(sql["put_edge"], rows.edge_row(value))
        case "dead_letter":
            connection.execute(sql["put_dead_letter"], rows.letter_row(value))
        case "result":
            result = value[1]
            connection.execute(sql["restore_result"], (*value[0], result.body, result.codec, result.expires_at))
        case "slot":
            connection.execute(sql["put_slot"], rows.slot_row(value))
        case "cascade":
            connection.execute(sql["put_cascade"], (value[0], *value[1]))
        case "bucket":
            connection.execute(sql["put_bucket"], (*value[0], value[1]))
        case "position":
            connection.execute(sql["put_position"], (*value[0], value[1]))
        case "document":
            connection.execute(sql["put_document"], rows.document_row(value))
        case "chunk":
            connection.execute(sql["add_chunk"], (value.position, value.tenant, value.at, value.body))


def _restore_job(connection: sqlite3.Connection, sql: dict[str, str], job: Job) -> None:
    """A pending job goes to `scheduled` whatever its time: the first claim moves what is due."""
    seq = job.spec.seq
    for table in ("job", "label", "running", "finished", *KEYS):
        connection.execute(f"DELETE FROM {table} WHERE seq = ?", (seq,))
    connection.execute(sql["add_job"], rows.job_row(job))
    connection.execute(sql["restore_body"], (seq,))
    connection.executemany(sql["add_label"], rows.label_rows(job.spec))
    if job.state is State.RUNNING:
        connection.execute(sql["put_running"], rows.running_row(job))
    elif job.state in TERMINAL:
        connection.execute(sql["put_finished"], rows.finished_row(job))
    for table, row in places(job, border=-1):
        connection.execute(sql[f"put_{table}"], row)
