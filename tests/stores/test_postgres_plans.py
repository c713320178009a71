"""What a call reads doesn't grow with the store, whatever the planner believed when it made its plans.

Rows that the server read are counted, not time: by its own statistics, sent at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from tenure.domain.calls import Cancel, Claim, Cursor, JobFilter, Retry, Settle, Succeed
from tenure.domain.job import Failure, NewJob, Token
from tenure.stores.sql.postgres import PostgresStore
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory

FEW, MANY = 10, 12_000
MOST = 60
"""Rows that a call may read for each of its jobs, fixed costs included. One wrong index reads them all."""

READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = %(schema)s)
     + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = %(schema)s)
"""


def uuid(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


class Counted:
    """A store with one connection, and what its calls read."""

    def __init__(self, store: PostgresStore, url: str, schema: str) -> None:
        self.store = store
        self.url = url
        self.schema = schema
        self.made = 0
        self.claims = 0

    def connection(self) -> "psycopg.Connection[Any]":
        (tables,) = self.store._opened()._idle
        return tables.connection

    async def reads(self, call: Awaitable[Any]) -> int:
        self.connection().execute("SELECT pg_stat_force_next_flush()")
        before = self._read()
        await call
        self.connection().execute("SELECT pg_stat_force_next_flush()")
        self.connection().execute("SELECT 1")
        return self._read() - before

    def _read(self) -> int:
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(READ, {"schema": self.schema}).fetchone()
        assert row is not None
        return int(row[0])

    def vacuum(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"SET search_path = {self.schema}".encode())
            tables = connection.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace", (self.schema,)
            ).fetchall()
            for (table,) in tables:
                connection.execute(f"VACUUM (ANALYZE) {table}".encode())

    def jobs(self, count: int, **fields: Any) -> list[NewJob]:
        numbers = range(self.made, self.made + count)
        self.made += count
        return [
            NewJob(tenant=f"t{n % 3}", id=uuid(n), queue="mail", job_type="send", payload=b"{}", **fields)
            for n in numbers
        ]

    def claim(self, n: int = FEW) -> Claim:
        self.claims += 1
        return Claim(
            claim_id=self.claims.to_bytes(16),
            worker="w",
            queues=(("mail", None),),
            n=n,
            ttl=60_000,
            grace=5_000,
            cursor=Cursor(),
        )

    async def tokens(self, n: int = FEW) -> list[Token]:
        claimed: Any = await self.store.claim(self.claim(n))
        return [job.token for job in claimed.jobs]


Story = Callable[[Counted], Awaitable[None]]


def told(url: str, story: Story) -> None:
    async def main() -> None:
        factory, clock = PostgresFactory(url), ManualClock()
        store = await factory.create(clock)
        assert isinstance(store, PostgresStore)
        try:
            await story(Counted(store, url, factory.schema_of(store)))
        finally:
            await factory.destroy(store)

    asyncio.run(main())


async def everything(counted: Counted) -> dict[str, int]:
    """Each call once, for a few jobs: what it read."""
    store, found = counted.store, {}
    new = counted.jobs(FEW)
    found["enqueue"] = await counted.reads(store.enqueue(new))
    found["enqueue again"] = await counted.reads(store.enqueue(new))
    found["enqueue keys"] = await counted.reads(store.enqueue(keyed := counted.jobs(FEW, key="k", expires=99_000)[:1]))
    found["enqueue later"] = await counted.reads(store.enqueue(counted.jobs(FEW, delay=86_400_000)))
    found["claim"] = await counted.reads(store.claim(counted.claim()))
    tokens = await counted.tokens()
    found["settle"] = await counted.reads(store.settle([Settle(token, Succeed(b"1", "json")) for token in tokens]))
    tokens = await counted.tokens()
    failed = Retry(Failure("E", "e"), 0)
    found["retry"] = await counted.reads(store.settle([Settle(token, failed) for token in tokens]))
    tokens = await counted.tokens()
    found["exchange"] = await counted.reads(
        store.exchange([Settle(token, Succeed()) for token in tokens], counted.claim())
    )
    found["cancel"] = await counted.reads(store.command([Cancel(tenant=job.tenant, id=job.id) for job in keyed]))
    found["get"] = await counted.reads(store.get([(job.tenant, job.id) for job in new], explain=True))
    found["query"] = await counted.reads(store.query(JobFilter(tenant="t1"), limit=FEW))
    found["sweep"] = await counted.reads(store.sweep(0))
    return found


@pytest.mark.parametrize("stale", [True, False], ids=["planned on empty tables", "planned anew"])
def test_what_a_call_reads_doesnt_grow(postgres_url: str, stale: bool) -> None:
    async def story(counted: Counted) -> None:
        await counted.store.get([("t0", uuid(0))])  # connects
        counted.vacuum()  # statistics say that every table is empty
        before = await everything(counted)
        jobs = counted.jobs(MANY)
        for start in range(0, MANY, 500):
            await counted.store.enqueue(jobs[start : start + 500])
        await counted.store.enqueue(counted.jobs(500, delay=3_600_000))
        tokens = await counted.tokens(500)
        await counted.store.settle([Settle(token, Succeed()) for token in tokens])
        if not stale:
            counted.vacuum()
        await everything(counted)  # whoever comes first marks dead rows as such
        after = await everything(counted)
        grown = {name: (before[name], reads) for name, reads in after.items() if reads > before[name] + FEW * MOST}
        assert grown == {}
        assert all(after[name] > 0 for name in ("claim", "settle", "get"))

    told(postgres_url, story)
