"""One view for several processes, kept by a process of its own: until when, and what those find who come too late."""

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from tenure.domain.calls import Claim, Claimed, Cursor, JobFilter, Settle, Succeed
from tenure.domain.errors import InvalidValue, SnapshotExpired, StoreUnavailable
from tenure.domain.names import MINUTE
from tenure.domain.store import Snapshot
from tenure.stores.sql.postgres import PostgresStore, keeper
from tenure.stores.sql.postgres.keeper import NAME
from tenure.stores.sql.postgres.shared import Order
from tests.schemas import new_schema
from tests.stores.everything import job

LONG = 600


@pytest.fixture
def url(postgres_url: str) -> Iterator[str]:
    with new_schema(postgres_url) as made:
        yield made


@pytest.fixture
def store(url: str) -> PostgresStore:
    made = PostgresStore(url)
    add(made, "a", "b", "c")
    return made


@pytest.fixture(autouse=True)
def keepers(postgres_url: str) -> Iterator[None]:
    """Those of a test end with it."""
    before = running(postgres_url)
    yield
    for process in running(postgres_url) - before:
        end(process, signal.SIGTERM)


def running(url: str) -> set[int]:
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT application_name FROM pg_stat_activity").fetchall()
    return {int(found[1]) for (name,) in names if (found := re.match(rf"{NAME} (\d+) ", name))}


class Kept:
    """Who keeps what a handle is of."""

    def __init__(self, url: str, handle: str) -> None:
        self._address = url.partition("?")[0]
        (name,) = self._ask(
            "SELECT application_name FROM pg_stat_activity WHERE query = %s", f"LISTEN {channel(handle)}"
        )
        self.process = int(name.removeprefix(NAME).split()[0])
        self._backends = self._ask("SELECT pid FROM pg_stat_activity WHERE application_name = %s", name)
        assert len(self._backends) == 2

    def _ask(self, sql: LiteralString, *values: Any) -> list[Any]:
        with psycopg.connect(self._address, autocommit=True) as connection:
            return [row[0] for row in connection.execute(sql, values).fetchall()]

    def hang_up(self, state: str = "") -> None:
        """The server ends the connections in a state, or has done so when this returns."""
        chosen = "(%s = '' OR pid IN (SELECT pid FROM pg_stat_activity WHERE state = %s))"
        terminated = "SELECT pg_terminate_backend(pid, 60000) FROM unnest(%s::int[]) AS pid WHERE "
        self._ask(terminated + chosen, self._backends, state, state)

    def end(self, by: signal.Signals) -> None:
        end(self.process, by)
        self.hang_up()


def channel(handle: str) -> str:
    return str(json.loads(handle)["channel"])


@contextmanager
def watched(process: int) -> Iterator[None]:
    """The block ends it."""
    descriptor = os.pidfd_open(process)
    try:
        yield
        assert select.select([descriptor], [], [], 60)[0], "the keeper doesn't end"
    finally:
        os.close(descriptor)


def end(process: int, by: signal.Signals) -> None:
    with watched(process):
        os.kill(process, by)


def add(store: PostgresStore, *names: str) -> None:
    async def enqueue() -> None:
        writing = PostgresStore(store._server.url)
        await writing.migrate()
        await writing.enqueue([job(name) for name in names])
        await writing.close()

    asyncio.run(enqueue())


def count(snapshot: Snapshot) -> int:
    return sum(len(page["id"]) for page in snapshot.scan(JobFilter(), {"id"}))


def test_what_is_written_later_isnt_in_it(store: PostgresStore) -> None:
    handle = store.share(LONG, os.getpid())
    add(store, "d")
    with store.open_shared(handle) as kept, store.open_shared(handle) as again, store.snapshot() as now:
        assert (count(kept), count(again), count(now)) == (3, 3, 4)
        assert (kept.feed().head, now.feed().head) == (1, 2)


def test_another_process_reads_the_same(store: PostgresStore, url: str) -> None:
    handle = store.share(LONG, os.getpid())
    add(store, "d")
    code = (
        "import sys; from tenure.domain.calls import JobFilter; from tenure.stores.opening import open_store\n"
        "with open_store(sys.argv[1]).open_shared(sys.argv[2]) as kept:\n"
        "    print(sum(len(page['id']) for page in kept.scan(JobFilter(), {'id'})))"
    )
    command = [sys.executable, "-c", code, url, handle]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "3"


def test_parts_agree_while_jobs_move(store: PostgresStore, url: str) -> None:
    """Each part is read after more of them were claimed and ended, and still shows every job as it was."""
    add(store, *(f"job {n}" for n in range(60)))

    async def work() -> None:
        writing = PostgresStore(url)
        for number in range(5):
            request = Claim(
                claim_id=os.urandom(16), worker="w", queues=(("mail", None),), n=8, ttl=MINUTE, cursor=Cursor()
            )
            claimed = await writing.claim(request)
            assert isinstance(claimed, Claimed)
            await writing.settle([Settle(one.token, Succeed(b"1")) for one in claimed.jobs[number:]])
        await writing.close()

    asyncio.run(work())
    with store.snapshot() as now:
        before = states(now)
    assert {state for _, state in before} == {"pending", "running", "succeeded"}
    handle = store.share(LONG, os.getpid())
    with store.open_shared(handle) as kept:
        spans = kept.split(4)
    found = []
    for span in spans:
        asyncio.run(work())
        with store.open_shared(handle) as kept:
            found += states(kept, span=span)
    assert found == before
    with store.snapshot() as now:
        assert states(now) != before


def states(view: Snapshot, **span: Any) -> list[tuple[str, str]]:
    pages = view.scan(JobFilter(), {"id", "state"}, limit=7, **span)
    return [pair for page in pages for pair in zip(page["id"], page["state"], strict=True)]


def test_it_is_of_one_instant_for_all_its_readers(store: PostgresStore, url: str) -> None:
    late = PostgresStore(url, lambda: 4_000_000_000_000)

    async def schedule() -> None:
        writing = PostgresStore(url)
        await writing.enqueue([job("d", delay=3_600_000)])
        await writing.close()

    asyncio.run(schedule())
    for sharing, expected in ((late, "ready"), (store, "scheduled")):
        handle = sharing.share(LONG, os.getpid())
        with late.open_shared(handle) as kept:
            assert next(kept.scan(JobFilter(), {"status"}))["status"][-1] == expected


def test_it_goes_when_nobody_used_it_for_its_time(store: PostgresStore, url: str) -> None:
    handle = store.share(1, os.getpid())
    with watched(Kept(url, handle).process):
        pass
    with pytest.raises(SnapshotExpired, match=r"for 1 s.*load\(\) again.*snapshotSeconds"), store.open_shared(handle):
        pass


def test_it_goes_with_its_owner(store: PostgresStore, url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        handle = store.share(LONG, owner.pid)
        with store.open_shared(handle) as kept:
            assert count(kept) == 3
        with watched(Kept(url, handle).process):
            owner.communicate(b"\n")
    with pytest.raises(SnapshotExpired), store.open_shared(handle):
        pass


class Hearing:
    """A keeper's two connections in this process, and how long it waits each time."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.view, self.hearing = (psycopg.connect(url, autocommit=True) for _ in range(2))
        self.view.cursor_factory = self.hearing.cursor_factory = psycopg.RawCursor
        self.order = Order("tenure_view_test", None, LONG, os.getpid())
        self.hearing.execute("LISTEN tenure_view_test")
        self.clock = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.clock)
        self.waits: list[float] = []

    def keep(self) -> None:
        keeper.keep(self.view, self.hearing, self.order)
        self.view.close()
        self.hearing.close()


def test_use_puts_its_end_off(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Hearing(postgres_url, monkeypatch)

    def ended_within(process: int, seconds: float, watched: Any) -> bool:
        kept.waits.append(seconds)
        if len(kept.waits) == 1:
            with psycopg.connect(postgres_url, autocommit=True) as reader:
                reader.execute("NOTIFY tenure_view_test")
            assert select.select(watched, [], [], 60)[0]
            kept.clock += 500
        else:
            kept.clock += seconds
        return False

    monkeypatch.setattr(keeper, "ended_within", ended_within)
    kept.keep()
    assert kept.waits == [LONG, LONG]
    assert kept.clock == 500 + LONG


def test_it_stays_while_it_is_read(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over again and again; it goes when the reader has gone, and then nobody can come."""
    kept = Hearing(postgres_url, monkeypatch)
    lock = "SELECT pg_try_advisory_xact_lock_shared(hashtextextended('tenure_view_test', 0))"
    reader = psycopg.connect(postgres_url)
    assert reader.execute(lock).fetchone() == (True,)

    def ended_within(process: int, seconds: float, watched: Any) -> bool:
        kept.waits.append(seconds)
        kept.clock += seconds
        if len(kept.waits) == 4:
            reader.rollback()
        return False

    monkeypatch.setattr(keeper, "ended_within", ended_within)
    keeper.keep(kept.view, kept.hearing, kept.order)
    assert len(kept.waits) == 4
    assert reader.execute(lock).fetchone() == (False,)
    for connection in (reader, kept.view, kept.hearing):
        connection.close()


def test_a_reader_tells_when_it_has_read(store: PostgresStore, postgres_url: str) -> None:
    handle = store.share(LONG, os.getpid())
    with psycopg.connect(postgres_url, autocommit=True) as hearing:
        hearing.execute(f"LISTEN {channel(handle)}".encode())
        with store.open_shared(handle) as kept:
            assert count(kept) == 3
            assert list(hearing.notifies(timeout=0)) == []
        assert len(list(hearing.notifies(timeout=60, stop_after=1))) == 1


def test_whoever_reads_holds_the_lock_that_the_keeper_asks_for(store: PostgresStore, postgres_url: str) -> None:
    handle = store.share(LONG, os.getpid())
    lock = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
    with psycopg.connect(postgres_url, autocommit=True) as other:
        with store.open_shared(handle):
            assert other.execute(lock, (channel(handle),)).fetchone() == (False,)
        with other.transaction():
            assert other.execute(lock, (channel(handle),)).fetchone() == (True,)
            gone(store, handle)


def test_a_reader_that_came_in_time_reads_on_without_the_keeper(store: PostgresStore, url: str) -> None:
    handle = store.share(LONG, os.getpid())
    with store.open_shared(handle) as kept:
        Kept(url, handle).end(signal.SIGKILL)
        add(store, "d")
        assert count(kept) == 3
    gone(store, handle)


@pytest.mark.parametrize("state", ["idle in transaction", "idle"])
def test_a_keeper_ends_when_the_server_ends_one_of_its_connections(store: PostgresStore, url: str, state: str) -> None:
    handle = store.share(LONG, os.getpid())
    kept = Kept(url, handle)
    with watched(kept.process):
        kept.hang_up(state)
    kept.hang_up()
    gone(store, handle)


def test_a_keeper_that_is_told_to_end_does(store: PostgresStore, url: str) -> None:
    handle = store.share(LONG, os.getpid())
    Kept(url, handle).end(signal.SIGTERM)
    gone(store, handle)


def gone(store: PostgresStore, handle: str) -> None:
    with pytest.raises(SnapshotExpired), store.open_shared(handle):
        pass


def test_nobody_can_read_the_address_off_the_process(store: PostgresStore, url: str) -> None:
    process = Kept(url, store.share(LONG, os.getpid())).process
    said = Path(f"/proc/{process}/cmdline").read_bytes()
    assert b"keeper" in said
    assert b"postgresql://" not in said


def test_what_keeps_a_view_from_being_kept_is_said(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="has no schema yet"):
        PostgresStore(url).share(LONG, os.getpid())
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        PostgresStore("postgresql://nobody@127.0.0.1:1/none").share(LONG, os.getpid())


@pytest.mark.parametrize("handle", ["nonsense", '{"type": "Handle"}'])
def test_what_is_no_handle_is_refused(store: PostgresStore, handle: str) -> None:
    with pytest.raises(InvalidValue, match="isn't one of a shared snapshot"), store.open_shared(handle):
        pass


@pytest.mark.parametrize(
    ("snapshot", "error"),
    [("00000099-0000001B-1", SnapshotExpired), ("0'; DROP TABLE x; --", InvalidValue)],
)
def test_a_snapshot_of_elsewhere_is_refused(store: PostgresStore, snapshot: str, error: type[Exception]) -> None:
    handle = json.dumps({"type": "Handle", "snapshot": snapshot, "channel": "tenure_view_x", "at": 0, "seconds": 1})
    with pytest.raises(error), store.open_shared(handle):
        pass
