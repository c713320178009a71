"""One private server for everybody: durable, with its settings printed."""

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.ceiling import fsync_micros
from bench.folder import IN_MEMORY, kind_of
from bench.record import Figures
from tenure.testing.postgres import PostgresServer

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "min_wal_size": "4GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "max_connections": "200",
}
"""Durable; and room enough that no subject's figures depend on when a checkpoint falls."""
WAL_FILES = 200
"""Made beforehand, to be used again and again: a server that has run for a while has them. Else whoever comes to the
end of one waits until the next is made, 16 MiB of zeros that are written and synced."""
SHOWN = ("server_version", *SETTINGS, "wal_compression", "wal_sync_method", "autovacuum")


class Server:
    """The server, with a new database for each subject."""

    def __init__(self, private: PostgresServer) -> None:
        self._private = private
        self.url = private.url
        self._made = 0

    @property
    def settings(self) -> Figures:
        """What it runs with, as it says itself, and on which disk."""
        with self.connect(self.url) as connection:
            said = {name: connection.execute(f"SHOW {name}").fetchone() for name in SHOWN}
        disk = {"filesystem": kind_of(self._private.folder), "fsync_micros": round(fsync_micros(self._private.folder))}
        return {**{name: row[0] for name, row in said.items() if row is not None}, **disk}

    def connect(self, url: str) -> "psycopg.Connection[Any]":
        return psycopg.connect(url, autocommit=True)

    def make_wal_files(self) -> None:
        with self.connect(self.url) as connection:
            for _ in range(WAL_FILES):
                connection.execute("SELECT pg_logical_emit_message(false, 'bench', '')")
                connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a new one, dropped afterwards."""
        self._made += 1
        name = f"bench{self._made}"
        with self.connect(self.url) as connection:
            connection.execute(f"CREATE DATABASE {name}")
            connection.execute("CHECKPOINT")
        try:
            yield self.url.rpartition("/")[0] + f"/{name}"
        finally:
            with self.connect(self.url) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def started(*, anywhere: bool = False) -> Iterator[Server]:
    """A private server, gone afterwards, also when the measurement is told to end. It must lie on a real disk."""
    folder = Path(tempfile.gettempdir())
    if not anywhere and (kind := kind_of(folder)) in IN_MEMORY:
        raise SystemExit(f"{folder} is in memory ({kind}): set TMPDIR to a folder on a real disk")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    private = PostgresServer(settings=SETTINGS)
    try:
        server = Server(private)
        if not anywhere:
            server.make_wal_files()
        yield server
    finally:
        private.remove()


def wal_position(connection: "psycopg.Connection[Any]") -> int:
    """Bytes of WAL that the server has written so far."""
    row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    return int(row[0]) if row else 0
