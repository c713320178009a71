"""A server that is killed, restarted, away or full: calls find their way again, or say what is the matter."""

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tenure import Tenure
from tenure.domain.calls import Claim, Cursor, Enqueued, JobFilter, Settle, Settled, Succeed
from tenure.domain.errors import OutcomeUnknown, StoreUnavailable
from tenure.domain.job import NewJob
from tenure.domain.states import State
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres import store as module
from tenure.testing.postgres import PostgresServer

PATIENCE = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of these tests' own: they kill it."""
    made = PostgresServer()
    yield made
    made.remove()


@pytest.fixture
def store(server: PostgresServer) -> Iterator[PostgresStore]:
    made = PostgresStore(server.url)
    asyncio.run(made.migrate())
    yield made
    asyncio.run(made.close())
    with psycopg.connect(server.url) as connection:
        connection.execute("DROP SCHEMA tenure CASCADE")


def job(number: int, **fields: Any) -> NewJob:
    id = f"01900000-0000-7000-8000-{number:012x}"
    return NewJob(tenant="acme", id=id, queue="mail", job_type="send", payload=b"{}", **fields)


def claim(number: int, n: int = 10) -> Claim:
    queues = (("mail", None),)
    return Claim(claim_id=number.to_bytes(16), worker="w", queues=queues, n=n, ttl=60_000, grace=5_000, cursor=Cursor())


async def waiting(server: PostgresServer) -> None:
    """Until a call of the store waits for a lock."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'tenure'"
    async with asyncio.timeout(PATIENCE):
        with psycopg.connect(server.url, autocommit=True) as connection:
            while connection.execute(asked).fetchone() == (0,):
                await asyncio.sleep(0.01)


def crash(server: PostgresServer) -> None:
    server.stop(signal.SIGQUIT)
    server.start()


def test_calls_after_a_crash_of_the_server_find_it_again(server: PostgresServer, store: PostgresStore) -> None:
    async def main() -> None:
        await store.enqueue([job(1)])
        await asyncio.gather(*(store.get([("acme", job(1).id)]) for _ in range(8)))  # several connections
        crash(server)
        assert await store.enqueue([job(2)]) == [Enqueued(job(2).id)]
        claimed: Any = await store.claim(claim(1))
        assert [one.token.job_id for one in claimed.jobs] == [job(1).id, job(2).id]
        crash(server)
        settled = await store.settle([Settle(one.token, Succeed()) for one in claimed.jobs])
        assert settled == [Settled(State.SUCCEEDED)] * 2
        crash(server)
        assert (await store.query(JobFilter())).cursor is None
        assert await store.verify() == []

    asyncio.run(main())


@pytest.mark.parametrize("fields", [{}, {"expires": 99_000, "key": "k"}, {"labels": {"a": "b"}}], ids=str)
def test_an_enqueue_on_its_way_when_the_server_dies_happens_once(
    server: PostgresServer, store: PostgresStore, fields: dict[str, Any]
) -> None:
    async def main() -> None:
        await store.enqueue([job(1)])
        holding = psycopg.connect(server.url)
        holding.execute("LOCK TABLE tenure.job IN SHARE MODE")
        sent = asyncio.ensure_future(store.enqueue([job(2, **fields)]))
        await waiting(server)
        await asyncio.to_thread(crash, server)
        assert await sent == [Enqueued(job(2).id)]
        page: Any = await store.events()
        assert [event.job_id for event in page.events] == [job(1).id, job(2).id]
        assert await store.verify() == []
        holding.close()

    asyncio.run(main())


def test_a_claim_and_a_settle_on_their_way_when_the_server_dies_happen_once(
    server: PostgresServer, store: PostgresStore
) -> None:
    async def main() -> None:
        await store.enqueue([job(number) for number in range(1, 6)])
        holding = psycopg.connect(server.url)
        holding.execute("LOCK TABLE tenure.running IN SHARE MODE")
        sent = asyncio.ensure_future(store.claim(claim(1, 3)))
        await waiting(server)
        await asyncio.to_thread(crash, server)
        claimed: Any = await sent
        assert len(claimed.jobs) == 3
        assert {one.job.attempt for one in claimed.jobs} == {1}
        holding.close()
        holding = psycopg.connect(server.url)
        holding.execute("LOCK TABLE tenure.finished IN SHARE MODE")
        settling = asyncio.ensure_future(store.settle([Settle(one.token, Succeed()) for one in claimed.jobs]))
        await waiting(server)
        await asyncio.to_thread(crash, server)
        assert await settling == [Settled(State.SUCCEEDED)] * 3
        assert await store.verify() == []
        holding.close()

    asyncio.run(main())


def test_a_worker_goes_on_after_a_crash_of_the_server(server: PostgresServer, store: PostgresStore) -> None:
    app = Tenure(server.url)

    @app.job
    async def double(number: int) -> int:
        return 2 * number

    async def main() -> None:
        async with app, app.worker():
            assert await (await double.enqueue(1)).result(PATIENCE) == 2
            await asyncio.to_thread(crash, server)
            assert await (await double.enqueue(2)).result(PATIENCE) == 4

    asyncio.run(main())


def test_a_server_that_is_away(server: PostgresServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRY_SECONDS", 0.5)

    async def main() -> None:
        await store.enqueue([job(1)])
        server.stop()
        try:
            with pytest.raises(OutcomeUnknown):  # it was sent, and nobody answered
                await store.enqueue([job(2)])
            with pytest.raises(StoreUnavailable, match="Connection refused"):
                await PostgresStore(server.url).get([("acme", job(1).id)])
        finally:
            server.start()
        assert await store.enqueue([job(2)]) == [Enqueued(job(2).id)]

    asyncio.run(main())


def test_no_connection_left(server: PostgresServer, store: PostgresStore) -> None:
    taken = []
    with pytest.raises(psycopg.OperationalError):
        while True:
            taken.append(psycopg.connect(server.url))

    async def main() -> None:
        with pytest.raises(StoreUnavailable, match="connection"):
            await PostgresStore(server.url).get([("acme", job(1).id)])

    asyncio.run(main())
    for connection in taken:
        connection.close()


def test_a_role_that_may_not(server: PostgresServer, store: PostgresStore) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
    url = server.url.replace("tenure@", "guest@")

    async def main() -> None:
        guest = PostgresStore(url)
        with pytest.raises(StoreUnavailable, match="the role may not do this"):
            await guest.enqueue([job(1)])
        with pytest.raises(StoreUnavailable, match="the role may not do this"):
            await PostgresStore(f"{url}?schema=other").migrate()
        await guest.close()

    asyncio.run(main())
    with psycopg.connect(server.url) as connection:
        connection.execute("DROP ROLE guest")


def test_a_server_that_only_reads(server: PostgresServer, store: PostgresStore) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute(
            "CREATE ROLE reader LOGIN SUPERUSER; ALTER ROLE reader SET default_transaction_read_only = on"
        )

    async def main() -> None:
        reader = PostgresStore(server.url.replace("tenure@", "reader@"))
        with pytest.raises(StoreUnavailable, match="is in recovery or read-only: connect to the primary"):
            await reader.enqueue([job(1)])
        await reader.close()

    asyncio.run(main())
    with psycopg.connect(server.url) as connection:
        connection.execute("DROP ROLE reader")


def test_a_schema_that_isnt_there(server: PostgresServer) -> None:
    async def main() -> None:
        empty = PostgresStore(f"{server.url}?schema=nothing")
        with pytest.raises(
            StoreUnavailable, match=r"schema nothing\) has no schema yet, or an older one: call migrate"
        ):
            await empty.enqueue([job(1)])
        await empty.close()

    asyncio.run(main())
