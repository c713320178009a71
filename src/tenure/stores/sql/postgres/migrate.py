"""Bringing a schema to what this code needs, while others may be doing the same, or working.

Programs of several versions share a schema while a fleet is being upgraded, so migrations add: a column that may be
NULL or has a default, a table, an index; and newer programs write records that the older ones can read. A file says so
by its first line, `-- needs: N`: programs that know schema N or newer go on beside it. Without that line it needs the
programs that brought it. A store that finds a schema newer than it knows goes on if all that was added since allows
it, and otherwise refuses (`SchemaTooNew`).

A step changes one table that was there before, at most: what it has locked is locked while it waits for the next. An
index on such a table is built while others write: in a file of its own, whose next line is `-- apart`, by `CREATE INDEX
CONCURRENTLY IF NOT EXISTS name ON tenure.table …;`. A migration that was killed in the middle of it is followed by one
that begins that index again.
"""

import re
from importlib import resources
from itertools import takewhile
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.errors import LockNotAvailable

from tenure.domain.errors import SchemaTooNew
from tenure.stores.sql.postgres.connection import Server, set_locally
from tenure.stores.sql.postgres.place import Held

SCHEMA = 3
IMPATIENT = b"SELECT set_config('lock_timeout', '500ms', true)"
"""Whoever wants a table for themselves makes others wait behind them: better to give up, and to try again."""


_HEAD = re.compile(r"(?:-- needs: (\d+)\n)?(-- apart\n)?")
_BUILT = re.compile(r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+) ON ", re.MULTILINE)
_UNFINISHED = """
SELECT EXISTS (SELECT FROM pg_stat_progress_create_index AS building WHERE building.index_relid = i.indexrelid)
FROM pg_index AS i WHERE i.indexrelid = to_regclass($1) AND NOT i.indisvalid
"""


class Step(msgspec.Struct, frozen=True):
    """A migration: what it does, and for whom."""

    number: int
    text: str
    needs: int
    """The oldest schema that a program must know to go on beside it."""
    apart: bool
    """Its statements stand each for themselves, outside a transaction; any of them may be run again."""


def steps(after: int) -> list[Step]:
    """The migrations from a schema to this code's, in order."""
    return [_step(number) for number in range(after + 1, SCHEMA + 1)]


def _step(number: int) -> Step:
    text = _text(f"{number:04d}")
    head = _HEAD.match(text)
    assert head is not None  # it may be empty
    return Step(number, text, int(head[1] or number), head[2] is not None)


def version(connection: "Connection[Any]", schema: str) -> tuple[int, int]:
    """The schema's version, and the oldest that a program must know to use it: 0 when there is none."""
    known = connection.execute("SELECT to_regclass($1)", (f"{schema}.migration",)).fetchone()
    if known is None or known[0] is None:
        return 0, 0
    found = connection.execute(f"SELECT max(number), max(needs) FROM {schema}.migration".encode()).fetchone()
    return (int(found[0] or 0), int(found[1] or 0)) if found else (0, 0)


def check(connection: "Connection[Any]", server: Server) -> int:
    """The schema's version. Raises `SchemaTooNew` for one that a program like this can't use."""
    current, needs = version(connection, f'"{server.schema}"')
    if needs > SCHEMA:
        raise SchemaTooNew(
            f"{server.shown} has schema {current}, this Tenure knows up to {SCHEMA}: upgrade tenure before using it"
        )
    return current


def migrate(connection: "Connection[Any]", server: Server, row_security: bool = False) -> int:
    """One at a time, each step all or nothing; begun again, it goes on from there. Where there is nothing to do,
    nothing is asked for that a worker's role may lack.

    With `row_security` the tables get policies for `tenure_fleet` and `tenure_tenant`; once they have, they keep them.
    """
    while True:
        current = check(connection, server)
        waiting = steps(current)
        if waiting and waiting[0].apart:
            _build(server, waiting[0])
        elif waiting or row_security:
            _add(connection, server, row_security)
            row_security = False
        else:
            return current


def _alone(connection: "Connection[Any]", server: Server) -> None:
    """Only one migrates, until this transaction ends; the next waits half a second for it. Behind a pooler nothing else
    has put the settings of a database or a role aside.
    """
    connection.execute(set_locally(connection))
    connection.execute(IMPATIENT)
    name = f'tenure migrate "{server.schema}"'
    try:
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", (name,))
    except LockNotAvailable:
        raise Held("another program migrates it; indexes take long: wait until it has ended") from None


def _add(connection: "Connection[Any]", server: Server, row_security: bool) -> None:
    """The next step, so that what it locked is free again while the one after it waits; of a new schema, all that go by
    one transaction.
    """
    schema = f'"{server.schema}"'
    with connection.transaction():
        _alone(connection, server)
        current = check(connection, server)
        if not current:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {schema}.migration (number bigint PRIMARY KEY, needs bigint NOT NULL, "
                "at timestamptz NOT NULL DEFAULT now())".encode()
            )
        for step in takewhile(lambda step: not step.apart, steps(current)[: 1 if current else None]):
            connection.execute(step.text.replace("tenure.", f"{schema}.").encode())
            _done(connection, schema, step)
        if row_security or _secured(connection, schema):
            connection.execute(_text("row_security").replace("tenure.", f"{schema}.").encode())


def _build(server: Server, step: Step) -> None:
    """A step that stands apart: indexes on tables that others fill meanwhile. Other migrations are kept away by a
    transaction that does nothing else, on a connection of its own: no build waits for it, and it holds behind a pooler.
    """
    schema = f'"{server.schema}"'
    with server.connect() as guard, guard.transaction():
        _alone(guard, server)
        if check(guard, server) >= step.number:
            return
        with server.connect_to_build() as connection:
            for statement in step.text.replace("tenure.", f"{schema}.").split(";\n"):
                if statement.strip():
                    _clear_unfinished(connection, schema, statement)
                    connection.execute(statement.encode())
            _done(connection, schema, step)


def _clear_unfinished(connection: "Connection[Any]", schema: str, statement: str) -> None:
    """Takes away what a build that was ended left: an index that all writers fill and nobody may read."""
    for name in _BUILT.findall(statement):
        index = f"{schema}.{name}"
        found = connection.execute(_UNFINISHED, (index,)).fetchone()
        if found == (True,):
            raise Held(  # its program was killed, and the server goes on
                f"the server still builds {index} for a migration that was ended: wait until it is there"
            )
        if found is not None:
            connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index}".encode())


def _done(connection: "Connection[Any]", schema: str, step: Step) -> None:
    connection.execute(
        f"INSERT INTO {schema}.migration (number, needs) VALUES ($1, $2)".encode(), (step.number, step.needs)
    )


def _secured(connection: "Connection[Any]", schema: str) -> bool:
    found = connection.execute("SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass($1)", (f"{schema}.job",))
    return found.fetchone() == (True,)


def _text(name: str) -> str:
    return (resources.files(__package__ or "") / "migrations" / f"{name}.sql").read_text(encoding="utf-8")
