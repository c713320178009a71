"""Rows that can't be: set aside by whoever meets them, seen by doctor and fsck, and nobody's queue stops."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from tenure.domain.calls import Claim, Cursor, Enqueued, JobFilter, Settle, Settled, Succeed
from tenure.domain.errors import JobNotFound, StoreCorrupt
from tenure.domain.job import NewJob
from tenure.domain.states import State
from tenure.service.cli.checks import Level
from tenure.service.cli.server import aside_check
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres.health import examine
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory


def ident(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


def job(number: int, **fields: Any) -> NewJob:
    return NewJob(tenant="acme", id=ident(number), queue="mail", job_type="send", payload=b"{}", **fields)


class Bench:
    """A store with a few jobs, and hands that reach into its tables."""

    def __init__(self, store: PostgresStore, url: str, schema: str) -> None:
        self.store = store
        self.url = url
        self.schema = schema
        self._claims = 0

    def sql(self, text: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as db:
            cursor = db.execute(text.replace("tenure.", f"{self.schema}.").encode())
            return cursor.fetchall() if cursor.description else []

    async def claim(self, n: int = 10) -> list[Any]:
        self._claims += 1
        claimed: Any = await self.store.claim(
            Claim(
                claim_id=self._claims.to_bytes(16),
                worker="w",
                queues=(("mail", None),),
                n=n,
                ttl=60_000,
                cursor=Cursor(),
            )
        )
        return [one.token for one in claimed.jobs]

    async def settle(self, tokens: list[Any]) -> list[Any]:
        return await self.store.settle([Settle(token, Succeed()) for token in tokens])

    def aside(self) -> list[Any]:
        return self.sql("SELECT seq, ARRAY(SELECT jsonb_object_keys(held) ORDER BY 1) FROM tenure.quarantine")


def story(url: str, told: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        factory = PostgresFactory(url)
        store = await factory.create(ManualClock())
        assert isinstance(store, PostgresStore)
        try:
            await told(Bench(store, url, factory.schema_of(store)))
        finally:
            await factory.destroy(store)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("damage", "held"),
    [
        (r"UPDATE tenure.job SET spec = '\xc1' WHERE seq = 1", ["job", "ready"]),
        (r"UPDATE tenure.job SET live = '\x93' WHERE seq = 1", ["job", "ready"]),
        ("DELETE FROM tenure.job WHERE seq = 1", ["ready"]),
    ],
    ids=["spec", "live", "no record"],
)
def test_a_record_that_cant_be_read_stops_no_claim(postgres_url: str, damage: str, held: list[str]) -> None:
    async def told(bench: Bench) -> None:
        await bench.store.enqueue([job(1), job(2), job(3)])
        bench.sql(damage)
        bench.store._opened().place.specs.clear()
        assert [token.job_id for token in await bench.claim(1)] == [ident(2)]
        assert [token.job_id for token in await bench.claim(5)] == [ident(3)]
        assert bench.aside() == [(1, held)]
        assert await bench.store.get([("acme", ident(1))]) == [JobNotFound()]
        assert any("rows set aside: (1," in fault for fault in await bench.store.verify())
        health = examine(f"{bench.url}?schema={bench.schema}")
        check = aside_check(health.aside)
        assert (check.level, "seq 1 from" in check.found) == (Level.WARNING, True)
        with pytest.raises(StoreCorrupt, match="rows set aside"):
            await bench.store.dump()
        bench.sql("DELETE FROM tenure.quarantine")
        assert await bench.store.verify() == []

    story(postgres_url, told)


def test_what_reads_a_bad_record_goes_on_too(postgres_url: str) -> None:
    """A sweep, a list, a settle: whoever comes first."""

    async def told(bench: Bench) -> None:
        await bench.store.enqueue([job(1), job(2), job(3)])
        tokens = await bench.claim(2)
        bench.sql(r"UPDATE tenure.running SET live = '\x93' WHERE seq = 1")
        bench.sql(r"UPDATE tenure.job SET spec = '\xc1' WHERE seq = 3")
        opened = bench.store._opened()
        opened.place.specs.clear()
        opened.place.running.clear()
        assert any("record 3 of ('acme'" in fault for fault in await bench.store.verify())
        page = await bench.store.query(JobFilter())
        assert [view.job.spec.id for view in page.jobs] == [ident(2)]
        assert bench.aside() == [(3, ["job", "ready"]), (1, ["job", "running"])]
        assert await bench.settle(tokens) == [JobNotFound(), Settled(State.SUCCEEDED)]

    story(postgres_url, told)


def test_a_job_in_two_places_stops_no_claim(postgres_url: str) -> None:
    """One that runs and waits goes on running; one that ended and runs has ended."""

    async def told(bench: Bench) -> None:
        await bench.store.enqueue([job(1), job(2)])
        bench.sql("CREATE TABLE tenure.copy AS SELECT * FROM tenure.ready WHERE seq = 1")
        (token,) = await bench.claim(1)
        bench.sql("INSERT INTO tenure.ready SELECT * FROM tenure.copy; DROP TABLE tenure.copy")
        assert [one.job_id for one in await bench.claim(5)] == [ident(2)]
        assert bench.aside() == [(1, ["ready"])]
        assert await bench.settle([token]) == [Settled(State.SUCCEEDED)]

    story(postgres_url, told)


def test_whoever_was_merely_overtaken_sets_nothing_aside(postgres_url: str) -> None:
    async def told(bench: Bench) -> None:
        replies = await asyncio.gather(*(bench.store.enqueue([job(1)]) for _ in range(8)))
        assert replies == [[Enqueued(ident(1))]] * 8
        assert bench.aside() == []
        assert await bench.store.verify() == []

    story(postgres_url, told)


def test_a_record_of_a_newer_tenure_isnt_bad(postgres_url: str) -> None:
    async def told(bench: Bench) -> None:
        await bench.store.enqueue([job(1)])
        bench.sql("INSERT INTO tenure.migration (number, needs) VALUES (99, 1)")
        bench.sql(r"UPDATE tenure.job SET spec = '\xc1' WHERE seq = 1")
        bench.store._opened().place.specs.clear()
        with pytest.raises(StoreCorrupt, match="seq 1 can't be read"):
            await bench.claim()
        assert bench.aside() == []
        bench.sql("DELETE FROM tenure.migration WHERE number = 99")

    story(postgres_url, told)
