"""Claims while somebody holds a transaction: `python -m bench.held`.

Stores side by side on one private server: one whose claims always begin at the beginning, one that always goes from
frontiers, and one as it ships. Dead rows are made at the beginnings of the lines, in bulk, under a transaction that was
opened before. Time on a processor of the server's backends is counted, and the caller's wall clock; the stores take
turns, so that whatever else the machine does meets all of them.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import psycopg

from bench.ids import uuid7
from bench.table import lines
from tenure.domain.calls import Claim, Claimed, Cursor, Settle, Succeed
from tenure.domain.job import NewJob
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres.frontier import PATIENCE
from tenure.stores.sql.postgres.lending import OwnConnections
from tenure.testing.postgres import PostgresServer

STORES = {"plain": None, "frontier": 0, "shipped": PATIENCE}
TENANTS = 200
DEAD = (0, 100_000, 400_000)

MAKE_DEAD = """
INSERT INTO {schema}.ready (queue, tenant, grp, prio_neg, run_at, seq, version)
SELECT 'mail', 't' || lpad(floor({tenants} * power(random(), 2))::text, 3, '0'), '', -(g % 5), g, {base} + g, 1
FROM generate_series(1, {count}) AS g;
INSERT INTO {schema}.scheduled (queue, tenant, grp, prio_neg, run_at, seq, version)
SELECT 'mail', 't001', '', 0, g, {base} + g, 1 FROM generate_series(1, {count} / 10) AS g;
INSERT INTO {schema}.running (seq, queue, tenant, grp, token, deadline, live, version, limited)
SELECT {base} + g, 'mail', 't001', '', '', 0, '', 1, false FROM generate_series(1, {count}) AS g;
DELETE FROM {schema}.ready WHERE seq > {base};
DELETE FROM {schema}.scheduled WHERE seq > {base};
DELETE FROM {schema}.running WHERE seq > {base};
ANALYZE {schema}.ready, {schema}.scheduled, {schema}.running;
"""
"""The lines get dead beginnings."""


class Cost(msgspec.Struct, frozen=True):
    """Milliseconds of one call."""

    wall: float
    server: float


class Subject:
    """A store in a schema of its own, and what its calls cost."""

    def __init__(self, name: str, url: str, patience: int | None) -> None:
        self.schema = f"held_{name}"
        self.store = PostgresStore(f"{url}?schema={self.schema}", patience=patience)
        self._cursor = Cursor()
        self._claims = 0
        self._made = 0

    async def fill(self, count: int, priorities: int = 5) -> None:
        for start in range(0, count, 500):
            await self.store.enqueue(self.jobs(min(500, count - start), priorities))

    def jobs(self, count: int, priorities: int = 5) -> list[NewJob]:
        numbers = range(self._made, self._made + count)
        self._made += count
        return [
            NewJob(
                tenant=f"t{n * 7 % TENANTS:03}",
                id=uuid7(),
                queue="mail",
                job_type="send",
                payload=b'{"n":1}',
                priority=n % priorities,
            )
            for n in numbers
        ]

    async def claim(self, n: int) -> tuple[Cost, list[Settle]]:
        self._claims += 1
        request = Claim(
            claim_id=self._claims.to_bytes(16), worker="w", queues=(("mail", None),), n=n, cursor=self._cursor
        )
        cost, claimed = await self.cost(self.store.claim(request))
        assert isinstance(claimed, Claimed)
        assert len(claimed.jobs) == n
        self._cursor = claimed.cursor
        return cost, [Settle(job.token, Succeed()) for job in claimed.jobs]

    async def cost(self, call: Awaitable[Any]) -> tuple[Cost, Any]:
        lender = self.store._opened().connections
        assert isinstance(lender, OwnConnections)
        backends = [tables.connection.info.backend_pid for tables in lender.idle]
        before, began = _on_processor(backends), time.perf_counter()
        answer = await call
        wall = time.perf_counter() - began
        return Cost(wall * 1e3, (_on_processor(backends) - before) / 1e6), answer


def _on_processor(backends: list[int]) -> int:
    """Nanoseconds that these processes have been running."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in backends)


def made_dead(url: str, schema: str, count: int, base: int) -> None:
    if count:
        script = MAKE_DEAD.format(schema=schema, tenants=TENANTS, count=count, base=base)
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement.encode())


async def held(url: str, calls: int) -> list[tuple[Any, ...]]:
    """What a claim of 100, and the settle after it, cost each store beside more and more dead rows."""
    subjects = {name: Subject(name, url, patience) for name, patience in STORES.items()}
    rows: list[tuple[Any, ...]] = []
    for subject in subjects.values():
        await subject.store.migrate()
        await subject.fill((calls + 3) * 100 * len(DEAD))
    holder: psycopg.Connection[Any] | None = None
    so_far = 0
    for dead in DEAD:
        if dead and holder is None:
            holder = psycopg.connect(url)
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT count(*) FROM pg_class")
        for subject in subjects.values():
            made_dead(url, subject.schema, dead - so_far, 10**12 + so_far)
        so_far = dead
        rows += await _phase(f"{dead:,}", subjects, calls)
    if holder is not None:
        holder.close()
    for subject in subjects.values():
        await subject.store.close()
    return rows


async def _phase(name: str, subjects: dict[str, Subject], calls: int) -> list[tuple[Any, ...]]:
    claims: dict[str, list[Cost]] = {name: [] for name in subjects}
    settles: dict[str, list[Cost]] = {name: [] for name in subjects}
    for turn in range(calls + 3):
        for store, subject in _in_turn(subjects, turn):
            cost, done = await subject.claim(100)
            settled, _ = await subject.cost(subject.store.settle(done))
            if turn >= 3:  # the first ones plan, walk what is new, and find out
                claims[store].append(cost)
                settles[store].append(settled)
    return [(name, store, *_shown(claims[store]), *_shown(settles[store])) for store in subjects]


def _in_turn(subjects: dict[str, Subject], turn: int) -> list[tuple[str, Subject]]:
    """Each of them goes first as often."""
    listed = list(subjects.items())
    return listed[turn % len(listed) :] + listed[: turn % len(listed)]


def _shown(costs: list[Cost]) -> tuple[str, str]:
    return f"{median(cost.server for cost in costs):.2f}", f"{median(cost.wall for cost in costs):.2f}"


async def unheld(url: str, calls: int) -> list[tuple[Any, ...]]:
    """What frontiers cost when nobody holds anything: claims of 100 and 500 in turns with enqueues of as many."""
    rows: list[tuple[Any, ...]] = []
    for n, tenants in ((100, TENANTS), (500, TENANTS), (500, 1)):
        subjects = {name: Subject(f"free_{name}_{n}_{tenants}", url, patience) for name, patience in STORES.items()}
        claims: dict[str, list[Cost]] = {name: [] for name in subjects}
        for subject in subjects.values():
            await subject.store.migrate()
            await subject.fill(4_000)
        for turn in range(calls + 3):
            for name, subject in _in_turn(subjects, turn):
                jobs = subject.jobs(n)
                await subject.store.enqueue(
                    jobs if tenants > 1 else [msgspec.structs.replace(job, tenant="t000") for job in jobs]
                )
                cost, done = await subject.claim(n)
                await subject.store.settle(done)
                if turn >= 3:
                    claims[name].append(cost)
        rows += [(n, tenants, name, *_shown(costs)) for name, costs in claims.items()]
        for subject in subjects.values():
            await subject.store.close()
    return rows


async def enqueues(url: str, calls: int) -> list[tuple[Any, ...]]:
    """What the additional index entries cost an enqueue."""
    subjects = {name: Subject(f"new_{name}", url, None) for name in ("with", "without")}
    for subject in subjects.values():
        await subject.store.migrate()
    with psycopg.connect(url, autocommit=True) as connection:
        for index in ("ready_xid", "inbox_xid"):
            connection.execute(f"DROP INDEX {subjects['without'].schema}.{index}".encode())
    costs: dict[tuple[int, str], list[Cost]] = {(n, name): [] for n in (1, 500) for name in subjects}
    for n in (1, 500):
        for turn in range(calls + 3):
            for name, subject in _in_turn(subjects, turn):
                cost, _ = await subject.cost(subject.store.enqueue(subject.jobs(n)))
                if turn >= 3:
                    costs[n, name].append(cost)
    for subject in subjects.values():
        await subject.store.close()
    return [(n, name, *_shown(found)) for (n, name), found in costs.items()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.held", description=__doc__)
    parser.add_argument("--calls", type=int, default=40, help="calls of each kind that are timed")
    parser.add_argument("parts", nargs="*", default=["held", "free", "new"], help="held, free, new: which to measure")
    given = parser.parse_args()
    server = PostgresServer()
    print("milliseconds: on the server's processor, and at the caller; medians\n")
    try:
        for part in given.parts:
            head, measure = PARTS[part]
            print(lines(head, asyncio.run(measure(server.url, given.calls))), flush=True)
    finally:
        server.remove()


PARTS = {
    "held": (("dead rows", "store", "claim of 100", "caller", "settle", "caller"), held),
    "free": (("claim of", "tenants", "store", "server", "caller"), unheld),
    "new": (("enqueue of", "indexes on xid", "server", "caller"), enqueues),
}


if __name__ == "__main__":
    main()
