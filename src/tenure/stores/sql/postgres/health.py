"""What can be told of a server and a schema from outside: what `tenure doctor` judges. Nothing is changed."""

from typing import Any

import msgspec
from psycopg import Connection

from tenure.stores.sql.postgres.connection import Server, translated
from tenure.stores.sql.postgres.migrate import SCHEMA, version

HOT = ("ready", "scheduled", "running", "claimed", "in_order", "expiring", "inbox")
"""Tables whose rows come and go."""
OTHERS = 3
"""Connections of a process beside those for its calls: for documents, which go one after the other, for hints, and for
an event loop that enqueues one by one."""
SETTINGS = (
    "autovacuum",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "track_counts",
)


class Holder(msgspec.Struct, frozen=True):
    """Somebody for whom dead rows are kept."""

    kind: str
    """session, prepared transaction, replication slot or standby."""
    name: str
    seconds: float | None
    """For how long; None where the server doesn't tell."""
    transactions: int
    """How many began since."""
    end: str
    """What ends it."""


class Dead(msgspec.Struct, frozen=True):
    """A table's rows, as the server counts them."""

    table: str
    live: int
    dead: int


class Health(msgspec.Struct, frozen=True):
    """A server and a schema at one moment."""

    server_version: int
    schema: int
    """0 when there is none."""
    needs: int
    """The oldest schema that a program must know to use it."""
    known_schema: int
    settings: dict[str, str]
    connections: int
    """How many the role may open in this database."""
    wanted: int
    """How many one process holds at most."""
    used: int
    """How many are taken, by anyone."""
    sees_all: bool
    """Whether the role may see what other roles' sessions do."""
    holders: list[Holder]
    """Oldest first."""
    dead: list[Dead]
    aside: list[str]
    """Why rows were set aside, the last ones first."""


def examine(url: str) -> Health:
    """Looks at the server and the schema of a URL. Raises what opening the store would."""
    server = Server(url)
    with translated(server), server.connect() as connection:
        schema, needs = version(connection, f'"{server.schema}"')
        allowed, used = _row(connection, _CONNECTIONS)
        return Health(
            server_version=connection.info.server_version,
            schema=schema,
            needs=needs,
            known_schema=SCHEMA,
            settings=dict(connection.execute(_SETTINGS, (list(SETTINGS),)).fetchall()),
            connections=allowed,
            wanted=server.connections + OTHERS,
            used=used,
            sees_all=_row(connection, _SEES_ALL)[0],
            holders=[Holder(*row) for row in connection.execute(_HOLDERS).fetchall()],
            aside=_aside(connection, server.schema) if schema and needs <= SCHEMA else [],
            dead=[Dead(*row) for row in connection.execute(_DEAD, (server.schema, list(HOT))).fetchall()],
        )


def _aside(connection: "Connection[Any]", schema: str) -> list[str]:
    found = connection.execute(_ASIDE.replace("tenure.", f'"{schema}".').encode()).fetchall()
    return [f"seq {seq} from {', '.join(tables)} ({reason})" for seq, tables, reason in found]


def _row(connection: "Connection[Any]", question: bytes) -> Any:
    row = connection.execute(question).fetchone()
    if row is None:
        raise AssertionError("a count has one row")
    return row


_SETTINGS = b"SELECT name, setting FROM pg_settings WHERE name = ANY ($1)"

_SEES_ALL = b"SELECT pg_has_role('pg_read_all_stats', 'USAGE')"

_CONNECTIONS = b"""
SELECT (SELECT min(most) FROM (
           SELECT sum(CASE WHEN name = 'max_connections' THEN 1 ELSE -1 END * setting::int) FROM pg_settings
           WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections')
           UNION ALL SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user AND rolconnlimit >= 0
           UNION ALL SELECT datconnlimit FROM pg_database WHERE datname = current_database() AND datconnlimit >= 0
       ) AS limits (most))::int,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())::int
"""

# Sessions of other databases keep nothing here; slots and standbys keep everything.
_HOLDERS = b"""
SELECT * FROM (
    SELECT 'session', format('pid %s of %s (%s, %s)', pid, coalesce(usename, 'the server'),
                             coalesce(nullif(application_name, ''), 'without a name'), coalesce(state, backend_type)),
           extract(epoch FROM clock_timestamp() - xact_start)::float8,
           greatest(age(backend_xmin), age(backend_xid)), format('SELECT pg_terminate_backend(%s)', pid)
    FROM pg_stat_activity
    WHERE datname = current_database() AND coalesce(backend_xmin, backend_xid) IS NOT NULL AND pid <> pg_backend_pid()
      AND backend_type <> 'walsender'
    UNION ALL
    SELECT 'prepared transaction', format('%s of %s', gid, owner),
           extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction),
           format('ROLLBACK PREPARED %L', gid)
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'replication slot', format('%s (%s)', slot_name, CASE WHEN active THEN 'in use' ELSE 'nobody uses it' END),
           NULL, age(xmin), format('SELECT pg_drop_replication_slot(%L)', slot_name)
    FROM pg_replication_slots WHERE xmin IS NOT NULL
    UNION ALL
    SELECT 'standby', format('%s at %s', coalesce(nullif(application_name, ''), 'without a name'),
                             coalesce(host(client_addr), 'the local socket')),
           NULL, age(backend_xmin), 'end its long queries, or set hot_standby_feedback = off there'
    FROM pg_stat_replication WHERE backend_xmin IS NOT NULL
) AS holders (kind, name, seconds, transactions, ends)
ORDER BY seconds DESC NULLS LAST, transactions DESC
"""

_ASIDE = """
SELECT seq, ARRAY(SELECT jsonb_object_keys(held)), reason FROM tenure.quarantine ORDER BY number DESC LIMIT 100
"""

_DEAD = b"""
SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE schemaname = $1 AND relname = ANY ($2)
ORDER BY n_dead_tup DESC
"""
