"""Bringing a schema to what this code needs, while others may be doing the same, or working.

Programs of several versions share a schema while a fleet is being upgraded, so migrations add: a column that may be
NULL or has a default, a table, an index; and newer programs write records that the older ones can read. A file says so
by its first line, `-- needs: N`: programs that know schema N or newer go on beside it. Without that line it needs the
programs that brought it. A store that finds a schema newer than it knows goes on if all that was added since allows
it, and otherwise refuses (`SchemaTooNew`).
"""

import re
from importlib import resources
from typing import Any

from psycopg import Connection

from tenure.domain.errors import SchemaTooNew
from tenure.stores.sql.postgres.connection import Server

SCHEMA = 2
IMPATIENT = b"SELECT set_config('lock_timeout', '1s', true)"
"""Whoever wants a table for themselves makes others wait behind them: better to give up, and to try again."""


_NEEDS = re.compile(r"-- needs: (\d+)\n")


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
    """All or nothing, one at a time. Where there is nothing to do, nothing is asked for that a worker's role may lack.

    With `row_security` the tables get policies for `tenure_fleet` and `tenure_tenant`; once they have, they keep them.
    """
    schema = f'"{server.schema}"'
    current = check(connection, server)
    if current >= SCHEMA and not row_security:
        return current
    with connection.transaction():
        connection.execute(IMPATIENT)
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", (f"tenure migrate {schema}",))
        if not current:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {schema}.migration (number bigint PRIMARY KEY, needs bigint NOT NULL, "
                "at timestamptz NOT NULL DEFAULT now())".encode()
            )
        current = check(connection, server)
        for number in range(current + 1, SCHEMA + 1):
            text = _text(f"{number:04d}")
            said = _NEEDS.match(text)
            connection.execute(text.replace("tenure.", f"{schema}.").encode())
            connection.execute(
                f"INSERT INTO {schema}.migration (number, needs) VALUES ($1, $2)".encode(),
                (number, int(said[1]) if said else number),
            )
        if row_security or _secured(connection, schema):
            connection.execute(_text("row_security").replace("tenure.", f"{schema}.").encode())
    return max(current, SCHEMA)


def _secured(connection: "Connection[Any]", schema: str) -> bool:
    found = connection.execute("SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass($1)", (f"{schema}.job",))
    return found.fetchone() == (True,)


def _text(name: str) -> str:
    return (resources.files(__package__ or "") / "migrations" / f"{name}.sql").read_text(encoding="utf-8")
