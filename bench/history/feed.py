"""The feed of a SQLite store, written and read without the store: as many chunks at once as memory likes."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.history.arrivals import MOST_IN_CHUNK
from bench.history.lives import NUMBER, Job, Telling
from bench.history.world import KIND_NAMED
from tenure.domain.names import Ms
from tenure.stores.opening import open_store

_TENANTS = tuple(NUMBER)
Chunk = tuple[int, str, Ms, bytes]


class Feed:
    """A store's feed, open for bulk writing; each call is one transaction with the store's own head and mark."""

    def __init__(self, path: Path) -> None:
        asyncio.run(_migrate(path))
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("PRAGMA wal_autocheckpoint = 16000")
        self.head, self.mark = self._connection.execute("SELECT feed_head, mark FROM meta").fetchone()

    def append(self, events: list[Telling]) -> None:
        """Adds events that are sorted."""
        if not events:
            return
        chunks = list(_chunks(events, self.head + 1))
        self.head, self.mark = chunks[-1][0], max(self.mark, chunks[-1][2])
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO feed (position, tenant, at, body) VALUES (?, ?, ?, ?)", chunks)
        self._connection.execute("UPDATE meta SET feed_head = ?, mark = ?", (self.head, self.mark))
        self._connection.execute("COMMIT")

    def open_jobs(self) -> list["Open"]:
        """Jobs that the feed has told of and not ended, as they stand, those that wait for parents left out."""
        found: dict[tuple[str, str], Open] = {}
        decode = msgspec.json.Decoder(_Line).decode_lines
        for (body,) in self._connection.execute("SELECT body FROM feed ORDER BY position"):
            for line in decode(body):
                if line.job_id is not None:
                    _fold(found, line)
        return [one for one in found.values() if one.stands in ("pending", "running")]

    def close(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


async def _migrate(path: Path) -> None:
    store = open_store(f"sqlite:///{path.absolute()}")
    try:
        await store.migrate()
    finally:
        await store.close()


def _chunks(events: list[Telling], position: int) -> Iterator[Chunk]:
    """One chunk for what a lane tells at one time, at most as long as a store would write them."""
    start, last = 0, len(events)
    while start < last:
        at, lane = events[start][0], events[start][1]
        stop, most = start + 1, min(last, start + MOST_IN_CHUNK)
        while stop < most and events[stop][0] == at and events[stop][1] == lane:
            stop += 1
        yield position, _TENANTS[lane >> 1], at, "".join([event[3] for event in events[start:stop]]).encode()
        start, position = stop, position + 1


# Going on where a history ended


class _Line(msgspec.Struct, gc=False):
    tenant: str
    kind: str
    at: Ms
    job_id: str | None = None
    version: int = 0
    job_type: str = ""
    attempt: int = 0
    lease_seq: int = 0
    worker: str = ""
    priority: int | None = None
    group: str | None = None
    max_attempts: int = 1
    parents: list[str] | None = None
    run_at: Ms | None = None
    run_ms: Ms | None = None


class Open(msgspec.Struct, gc=False):
    """A job that hasn't ended: `stands` is pending, running, or the name of something that is left alone."""

    stands: str
    job: Job
    claimed: Ms = 0
    worker: str = ""


_STANDS = {
    "unblocked": "pending",
    "claimed": "running",
    "retry_scheduled": "pending",
    "lease_lost": "pending",
    "released": "pending",
    "cancel_requested": "asked to end",
}
_ENDS = frozenset({"succeeded", "failed", "cancelled"})


def _fold(found: dict[tuple[str, str], Open], line: _Line) -> None:
    ref = (line.tenant, line.job_id or "")
    if line.kind in _ENDS:
        found.pop(ref, None)
        return
    if line.kind == "enqueued" and line.tenant in NUMBER and line.job_type in KIND_NAMED:
        job = Job(NUMBER[line.tenant], KIND_NAMED[line.job_type], ref[1])
        job.group, job.max_attempts = line.group, line.max_attempts
        found[ref] = Open("blocked" if line.parents else "pending", job)
    one = found.get(ref)
    if one is None:
        return
    one.stands = _STANDS.get(line.kind, one.stands)
    _update(one, line)


def _update(one: Open, line: _Line) -> None:
    job = one.job
    job.version, job.attempt, job.lease_seq, job.last = line.version, line.attempt, line.lease_seq, line.at
    if line.run_at is not None:
        job.run_at = line.run_at
    if line.priority is not None:
        job.priority = line.priority
    if line.run_ms is not None:
        job.freed = line.at
    if line.kind == "claimed":
        one.claimed, one.worker = line.at, line.worker
