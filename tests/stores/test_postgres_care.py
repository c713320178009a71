"""What the server is told about tables whose rows come and go."""

import asyncio
from typing import Any

import psycopg
import pytest

from tenure.domain.calls import Cancel, Claim, Cursor, Purged, Renewal
from tenure.domain.job import NewJob
from tenure.domain.names import DAY
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres.health import HOT
from tenure.stores.sql.postgres.lending import OwnConnections
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory

COUNT = 500
TIMEOUTS = """
CREATE TABLE {schema}.seen (timeout text);
CREATE FUNCTION {schema}.look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.seen VALUES (current_setting('statement_timeout'));
    RETURN NULL;
END $$;
CREATE TRIGGER look AFTER DELETE ON {schema}.finished EXECUTE FUNCTION {schema}.look();
"""


@pytest.fixture(scope="module")
def postgres_url(quiet_postgres_url: str) -> str:
    return quiet_postgres_url


def uuid(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


def test_hot_tables_are_vacuumed_early_and_at_the_servers_own_pace(postgres_url: str) -> None:
    async def main() -> None:
        factory = PostgresFactory(postgres_url)
        store = await factory.create(ManualClock())
        with psycopg.connect(postgres_url) as db:
            found = db.execute(
                "SELECT relname, reloptions FROM pg_class WHERE relnamespace = %s::regnamespace AND relname = ANY (%s)",
                (factory.schema_of(store), list(HOT)),
            ).fetchall()
        assert {name for name, _ in found} == set(HOT)
        for _, options in found:
            assert {"autovacuum_vacuum_scale_factor=0.05", "vacuum_truncate=off"} <= set(options)
            assert not any("cost" in option for option in options)
        await factory.destroy(store)

    asyncio.run(main())


def updates(store: PostgresStore, url: str, schema: str) -> tuple[int, int]:
    """How many there were of `running`, and how many of them without an index entry; of all who used the schema."""
    lender = store._opened().connections
    assert isinstance(lender, OwnConnections)
    for tables in lender.idle:
        tables.connection.execute("SELECT pg_stat_force_next_flush()")
        tables.connection.execute("SELECT 1")
    with psycopg.connect(url) as db:
        found = db.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables WHERE schemaname = %s AND relname = 'running'",
            (schema,),
        ).fetchone()
    assert found is not None
    return found[0], found[1]


def test_renewals_touch_hardly_any_index(postgres_url: str) -> None:
    async def main() -> None:
        factory = PostgresFactory(postgres_url)
        clock = ManualClock()
        store = await factory.create(clock)
        assert isinstance(store, PostgresStore)
        schema = factory.schema_of(store)
        ids = [uuid(number) for number in range(COUNT)]
        await store.enqueue([NewJob(tenant="acme", id=id, queue="q", job_type="t", payload=b"{}") for id in ids])
        queues = (("q", None),)
        claim = Claim(claim_id=b"c" * 16, worker="w", queues=queues, n=COUNT, ttl=60_000, cursor=Cursor())
        claimed: Any = await store.claim(claim)
        before = updates(store, postgres_url, schema)
        for _ in range(3):
            clock.advance(20_000)
            await store.renew([Renewal(job.token) for job in claimed.jobs])
        after = updates(store, postgres_url, schema)
        assert after[0] - before[0] == 3 * COUNT
        assert after[1] - before[1] > 0.9 * 3 * COUNT
        await factory.destroy(store)

    asyncio.run(main())


def test_a_purge_may_take_as_long_as_it_takes(postgres_url: str) -> None:
    """A day of many jobs takes longer than any other statement may."""

    async def main() -> None:
        factory = PostgresFactory(postgres_url)
        clock = ManualClock()
        store = await factory.create(clock)
        schema = factory.schema_of(store)
        with psycopg.connect(postgres_url) as db:
            db.execute(TIMEOUTS.format(schema=schema).encode())
        await store.enqueue([NewJob(tenant="acme", id=uuid(1), queue="q", job_type="t", payload=b"{}")])
        await store.command([Cancel(tenant="acme", id=uuid(1))])
        clock.advance(100 * DAY)
        assert isinstance(await store.purge(), Purged)
        with psycopg.connect(postgres_url) as db:
            assert db.execute(f"SELECT timeout FROM {schema}.seen".encode()).fetchall() == [("0",)]
            db.execute(f"DROP FUNCTION {schema}.look CASCADE; DROP TABLE {schema}.seen".encode())
        await factory.destroy(store)

    asyncio.run(main())
