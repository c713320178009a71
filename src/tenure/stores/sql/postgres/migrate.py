"""Bringing a schema to what this code needs, while others may be doing the same, or working."""

from importlib import resources
from typing import Any

from psycopg import Connection

from tenure.domain.errors import SchemaTooNew
from tenure.stores.sql.postgres.connection import Server

SCHEMA = 1


def version(connection: "Connection[Any]", schema: str) -> int:
    """The schema's version: 0 when there is none."""
    known = connection.execute("SELECT to_regclass($1)", (f"{schema}.migration",)).fetchone()
    if known is None or known[0] is None:
        return 0
    found = connection.execute(f"SELECT max(number) FROM {schema}.migration".encode()).fetchone()
    return int(found[0] or 0) if found else 0


def migrate(connection: "Connection[Any]", server: Server) -> int:
    """All or nothing, one at a time."""
    schema = f'"{server.schema}"'
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", (f"tenure migrate {schema}",))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {schema}.migration (number bigint PRIMARY KEY, "
            "at timestamptz NOT NULL DEFAULT now())".encode()
        )
        current = version(connection, schema)
        if current > SCHEMA:
            raise SchemaTooNew(
                f"{server.shown} has schema {current}, this Tenure knows up to {SCHEMA}: upgrade tenure before using it"
            )
        for number in range(current + 1, SCHEMA + 1):
            connection.execute(_text(number).replace("tenure.", f"{schema}.").encode())
            connection.execute(f"INSERT INTO {schema}.migration (number) VALUES ($1)".encode(), (number,))
    return SCHEMA


def _text(number: int) -> str:
    return (resources.files(__package__ or "") / "migrations" / f"{number:04d}.sql").read_text(encoding="utf-8")
