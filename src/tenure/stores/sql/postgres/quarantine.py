"""Rows that can't be: a record that can't be read, a job that stands in two places. Nobody but a hand from outside, a
broken disk or a bug makes them; a queue that stops at the first of them makes one bad row everybody's.

Whoever meets one sets it aside in a transaction of its own, and begins again. What can't be read goes whole, record and
all. Of a job that stands in two places, the one that it was about to leave goes: what the other says still holds.
"""

import json
import logging
import re

import msgspec
import psycopg

from tenure.domain.errors import StoreCorrupt
from tenure.stores.sql.postgres.migrate import SCHEMA
from tenure.stores.sql.postgres.place import Overtaken, Unreadable
from tenure.stores.sql.postgres.tables import PostgresTables

PLACES = ("ready", "scheduled", "blocked", "running", "finished")
EVERYTHING = ("attached", "job", "label", "in_order", "expiring", *PLACES)

_SEQ = re.compile(r"=\((?:.*, )?(\d+)\)", re.DOTALL)
"""The last column of a key, in what the server says of one that exists already."""

log = logging.getLogger("tenure.postgres")


class Bad(msgspec.Struct, frozen=True):
    """A job that can't be as it stands."""

    seq: int
    reason: str
    tables: tuple[str, ...]
    """Those that must not hold it."""


def unreadable(error: Unreadable) -> Bad:
    return Bad(error.seq, str(error), EVERYTHING)


def contradiction(error: Overtaken) -> Bad | None:
    """The job that already stands where it was to go; None where somebody was merely faster."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.errors.UniqueViolation):
        return None
    table, key = cause.diag.table_name, _SEQ.search(cause.diag.message_detail or "")
    if table not in PLACES or key is None:
        return None
    others = tuple(place for place in PLACES if place != table)
    return Bad(int(key[1]), f"it stands in {table} already", others)


def set_aside(tables: PostgresTables, bad: Bad) -> None:
    """Moves what is bad to `quarantine`, in the caller's transaction.

    Raises `StoreCorrupt` in a schema newer than this code: it may be the code that can't read.
    """
    ((schema,),) = tables.stream("SELECT max(number) FROM tenure.migration", ())
    if schema > SCHEMA:
        raise StoreCorrupt(f"{bad.reason}; the schema is newer than this Tenure: upgrade, or restore the record")
    held: dict[str, list[object]] = {}
    for table in bad.tables:
        question = f"DELETE FROM tenure.{table} AS t WHERE seq = ? RETURNING to_jsonb(t)::text"
        found = [json.loads(row[0]) for row in tables.stream(question, (bad.seq,))]
        if found:
            held[table] = found
    if held:
        question = "INSERT INTO tenure.quarantine (seq, reason, held) VALUES (?, ?, ?::text::jsonb) RETURNING number"
        list(tables.stream(question, (bad.seq, bad.reason[:1_000], json.dumps(held))))
        log.error(
            "seq %d was set aside from %s: %s; tenure doctor lists such rows", bad.seq, ", ".join(held), bad.reason
        )
