"""Behind a transaction pooler: nothing of the store's stays on a connection, and everything works all the same."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure import Context, Jobs, Tenure
from tenure.domain.calls import Cancel
from tenure.domain.errors import InvalidValue
from tenure.domain.job import NewJob
from tenure.domain.store import job_topic, queue_topic
from tenure.stores.opening import open_store
from tenure.stores.sql.postgres import PostgresStore
from tenure.testing.clock import ManualClock
from tenure.testing.conformance import TestBugs, TestExchange, world  # noqa: F401 a share of the suite
from tenure.testing.factories import PostgresFactory
from tenure.testing.factory import StoreFactory
from tests.stores.pooler import Pooler, pooled
from tests.stores.test_postgres_upgrade import INDEXED, Tree

SIZE = 2
PATIENCE = 60.0
ID = "01900000-0000-7000-8000-000000000001"

LEFT = """
SELECT 'setting', name FROM pg_settings WHERE source = 'session'
UNION ALL SELECT 'statement', name FROM pg_prepared_statements
UNION ALL SELECT 'channel', pg_listening_channels()
UNION ALL SELECT 'lock', objid::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
"""


@pytest.fixture(scope="module")
def pooler(postgres_url: str) -> Iterator[tuple[Pooler, str]]:
    with pooled(postgres_url, SIZE) as made:
        yield made


def left(url: str) -> set[tuple[str, str]]:
    """What is left on the server's connections; one is asked after the other."""
    found: set[tuple[str, str]] = set()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for _ in range(SIZE):
            found |= set(connection.execute(LEFT.encode()).fetchall())
    return found


def test_the_pooler_itself_shows_what_is_left(pooler: tuple[Pooler, str]) -> None:
    _, url = pooler
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET jit = off")
        connection.execute("PREPARE one AS SELECT 1")
        connection.execute("LISTEN shop")
        connection.execute("SELECT pg_advisory_lock(7)")
    assert {kind for kind, _ in left(url)} == {"setting", "statement", "channel", "lock"}
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(SIZE):
            connection.execute("DISCARD ALL")
    assert left(url) == set()


def test_a_migration_builds_indexes_and_nothing_is_left(pooler: tuple[Pooler, str], tmp_path: Path) -> None:
    _, url = pooler
    place = f"{url}?pooler=transaction&schema=built"
    asyncio.run(PostgresStore(place).migrate())
    Tree(tmp_path, INDEXED).run("-m", "tenure", "migrate", "--url", place)
    assert left(url) == set()
    with psycopg.connect(url, prepare_threshold=None) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid IN "
            "(to_regclass('built.job_kind'), to_regclass('built.job_age'))"
        )
        assert found.fetchone() == (2,)
        connection.execute("DROP SCHEMA built CASCADE")


def test_jobs_run_and_nothing_is_left(pooler: tuple[Pooler, str]) -> None:
    """Two workers and a producer, with ten connections and more, on two of the server's."""
    made, url = pooler
    before = made.moves
    with psycopg.connect(url, prepare_threshold=None) as connection:
        connection.execute("CREATE TABLE saved (number int)")
    jobs = Jobs()

    @jobs.job
    async def double(number: int) -> int:
        return 2 * number

    @jobs.job
    async def save(ctx: Context, number: int) -> None:
        async with ctx.transaction() as tx:
            for _ in range(7):  # more often than psycopg lets pass before it prepares
                await tx.connection.execute("INSERT INTO saved VALUES (%s)", (number,))

    async def main() -> None:
        apps = [Tenure(f"{url}?schema=pooled&pooler=transaction&connections=3") for _ in range(2)]
        for app in apps:
            app.include(jobs)
        async with apps[0], apps[1], apps[0].worker(), apps[1].worker():
            handles = await apps[0].enqueue_many([double.build(number) for number in range(40)])
            saved = await apps[0].enqueue_many([save.build(number) for number in range(4)])
            assert [await one.result(timeout=PATIENCE) for one in handles] == [2 * number for number in range(40)]
            for one in saved:
                await one.result(timeout=PATIENCE)
        store = PostgresStore(f"{url}?schema=pooled&pooler=transaction")
        assert await store.verify() == []
        await store.close()

    try:
        asyncio.run(main())
        assert left(url) == set()
        assert made.moves - before > 10  # the fewer, the more jobs went with one transaction
    finally:
        with psycopg.connect(url, prepare_threshold=None) as connection:
            assert connection.execute("SELECT count(*) FROM saved").fetchone() == (28,)
            connection.execute("DROP TABLE saved; DROP SCHEMA pooled CASCADE")


@pytest.fixture
def factory(pooler: tuple[Pooler, str]) -> StoreFactory:
    return PostgresFactory(pooler[1], "pooler=transaction")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("pooler=session", "pooler 'session': give transaction, or leave it out"),
        ("pooler=", "pooler '': give transaction"),
        ("connections=0", "connections '0': give a whole number from 1 to 1000"),
        ("connections=many", "connections 'many': give a whole number"),
        ("connections=1001", "connections '1001': give a whole number"),
    ],
)
def test_options_that_mean_nothing(option: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        open_store(f"postgresql://host/db?{option}")


def test_the_end_of_a_job_there_is_heard_by_callers_that_arent_behind_it(
    pooler: tuple[Pooler, str], postgres_url: str
) -> None:
    """Its worker hears of no announcement, and tells the feed."""
    _, url = pooler

    async def main() -> None:
        factory = PostgresFactory(postgres_url)
        caller = await factory.create(ManualClock())
        worker = open_store(f"{url}?schema={factory.schema_of(caller)}&pooler=transaction")
        assert await caller.wait([queue_topic("nobodys")], PATIENCE)  # it listens
        await worker.enqueue([NewJob(tenant="acme", id=ID, queue="mail", job_type="send", payload=b"{}")])
        waiting = asyncio.create_task(caller.wait([job_topic(("acme", ID))], PATIENCE))
        await asyncio.sleep(0)
        await worker.command([Cancel(tenant="acme", id=ID)])
        assert await waiting
        await worker.close()
        await factory.destroy(caller)

    asyncio.run(main())
