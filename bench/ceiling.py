"""The bare ceiling: what SQLite itself can do with jobs of the same shape, and what its disk costs.

Rows are deleted from `ready` and inserted into `running`, then into `finished`, with a chunk of events beside them: no
checks, no tenants, no answers. What Tenure does on top is the difference.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

SCHEMA = """
CREATE TABLE ready (run_at INTEGER, seq INTEGER, id TEXT, PRIMARY KEY (run_at, seq)) WITHOUT ROWID;
CREATE TABLE running (seq INTEGER PRIMARY KEY, id TEXT, token BLOB, deadline INTEGER);
CREATE TABLE finished (seq INTEGER PRIMARY KEY, id TEXT, result BLOB);
CREATE TABLE body (seq INTEGER PRIMARY KEY, payload BLOB);
CREATE TABLE feed (position INTEGER PRIMARY KEY, body BLOB);
"""
EVENT = b'{"tenant":"acme","kind":"claimed","at":1800000000000,"job_id":"01900000-0000-7000-8000-000000000000"}'

Row = tuple[int, str]


class Bare:
    """A raw connection with Tenure's settings."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + SCHEMA)
        self._connection.execute("PRAGMA cache_size = -65536")
        self._connection.execute("PRAGMA wal_autocheckpoint = 4000")
        self._seq = 0

    def close(self) -> None:
        self._connection.close()

    def enqueue(self, ids: list[str], payload: bytes) -> None:
        seqs = range(self._seq, self._seq + len(ids))
        self._seq += len(ids)
        run = self._connection
        run.execute("BEGIN IMMEDIATE")
        run.executemany("INSERT INTO ready VALUES (?, ?, ?)", [(0, seq, id) for seq, id in zip(seqs, ids, strict=True)])
        run.executemany("INSERT INTO body VALUES (?, ?)", [(seq, payload) for seq in seqs])
        self._chunk(len(ids))
        run.execute("COMMIT")

    def claim(self, n: int) -> list[Row]:
        self._connection.execute("BEGIN IMMEDIATE")
        rows = self._claim(n)
        self._connection.execute("COMMIT")
        return rows

    def settle(self, rows: list[Row], result: bytes) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._settle(rows, result)
        self._connection.execute("COMMIT")

    def exchange(self, rows: list[Row], result: bytes, n: int) -> list[Row]:
        self._connection.execute("BEGIN IMMEDIATE")
        self._settle(rows, result)
        claimed = self._claim(n)
        self._connection.execute("COMMIT")
        return claimed

    def _claim(self, n: int) -> list[Row]:
        run = self._connection
        found = run.execute(
            "SELECT r.seq, r.id, b.payload FROM ready AS r JOIN body AS b USING (seq) ORDER BY r.run_at, r.seq LIMIT ?",
            (n,),
        ).fetchall()
        if not found:
            return []
        token = os.urandom(16)
        run.executemany("DELETE FROM ready WHERE run_at = 0 AND seq = ?", [(row[0],) for row in found])
        run.executemany("INSERT INTO running VALUES (?, ?, ?, 0)", [(row[0], row[1], token) for row in found])
        self._chunk(len(found))
        return [(row[0], row[1]) for row in found]

    def _settle(self, rows: list[Row], result: bytes) -> None:
        run = self._connection
        run.executemany("DELETE FROM running WHERE seq = ?", [(row[0],) for row in rows])
        run.executemany("INSERT INTO finished VALUES (?, ?, ?)", [(*row, result) for row in rows])
        self._chunk(len(rows))

    def _chunk(self, events: int) -> None:
        self._connection.execute("INSERT INTO feed (body) VALUES (?)", (b"\n".join([EVENT] * events),))


def fsync_micros(folder: Path, times: int = 200) -> float:
    """The median cost of making a 4 KiB append durable on this disk, in microseconds."""
    path = folder / "fsync"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return median(_timed(lambda: _append(file)) for _ in range(times)) * 1e6
    finally:
        os.close(file)
        path.unlink()


def _append(file: int) -> None:
    os.write(file, bytes(4096))
    os.fdatasync(file)


def _timed(action: Callable[[], None]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
