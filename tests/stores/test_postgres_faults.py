"""A server that is killed, restarted, away or full: calls find their way again, or say what is the matter."""

import asyncio
import re
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tenure import Tenure
from tenure.domain.calls import Claim, Cursor, Enqueued, JobFilter, Settle, Settled, Succeed
from tenure.domain.errors import StoreUnavailable
from tenure.domain.job import NewJob
from tenure.domain.states import State
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres import store as module
from tenure.stores.sql.postgres.connection import CONNECTIONS, NotNow, Server, store_error
from tenure.testing.clock import ManualClock
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


async def waiting(server: PostgresServer, count: int = 1) -> None:
    """Until so many calls of the store wait for a lock."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'tenure'"
    async with asyncio.timeout(PATIENCE):
        with psycopg.connect(server.url, autocommit=True) as connection:
            while connection.execute(asked).fetchone() != (count,):
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


@pytest.mark.parametrize("verb", ["enqueue", "claim", "settle"])
def test_a_connection_that_an_administrator_ends_is_replaced(
    server: PostgresServer, store: PostgresStore, verb: str
) -> None:
    """The server says that it is going: an answer, and yet none."""
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND application_name = 'tenure'"
    )

    async def main() -> None:
        await store.enqueue([job(1), job(2)])
        claimed: Any = await store.claim(claim(1, 1))
        with psycopg.connect(server.url) as holding, psycopg.connect(server.url, autocommit=True) as admin:
            holding.execute("LOCK TABLE tenure.job, tenure.running, tenure.finished IN SHARE MODE")
            call: Any = {
                "enqueue": lambda: store.enqueue([job(3)]),
                "claim": lambda: store.claim(claim(2)),
                "settle": lambda: store.settle([Settle(claimed.jobs[0].token, Succeed())]),
            }[verb]
            sent = asyncio.ensure_future(call())
            await waiting(server)
            admin.execute(ended)
            await waiting(server)  # again
        await sent
        page: Any = await store.events()
        kinds = {"enqueue": "enqueued", "claim": "claimed", "settle": "succeeded"}
        assert [event.kind.value for event in page.events] == ["enqueued"] * 2 + ["claimed", kinds[verb]]
        assert await store.verify() == []

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
            with pytest.raises(StoreUnavailable, match="Connection refused"):  # nothing was sent to one that has gone
                await store.enqueue([job(2)])
            with pytest.raises(StoreUnavailable, match="Connection refused"):
                await PostgresStore(server.url).get([("acme", job(1).id)])
        finally:
            server.start()
        assert await store.enqueue([job(2)]) == [Enqueued(job(2).id)]

    asyncio.run(main())


def test_a_sweep_on_its_way_when_the_server_dies_takes_a_lease_once(server: PostgresServer) -> None:
    clock = ManualClock()
    store = PostgresStore(f"{server.url}?schema=swept", clock)

    async def main() -> None:
        await store.migrate()
        await store.enqueue([job(number) for number in range(1, 4)])
        await store.claim(claim(1))
        clock.advance(65_001)
        holding = psycopg.connect(server.url)
        holding.execute("LOCK TABLE swept.ready IN SHARE MODE")
        sent = asyncio.ensure_future(store.sweep(0))
        await waiting(server)
        await asyncio.to_thread(crash, server)
        swept: Any = await sent
        assert swept.counts.lost == 3
        page: Any = await store.events()
        assert [event.kind.value for event in page.events] == ["enqueued"] * 3 + ["claimed"] * 3 + ["lease_lost"] * 3
        assert await store.verify() == []
        holding.close()
        await store.close()

    asyncio.run(main())


def filled(server: PostgresServer) -> "list[psycopg.Connection[Any]]":
    """Takes every connection that there is."""
    taken: list[psycopg.Connection[Any]] = []
    with pytest.raises(psycopg.OperationalError):
        while True:
            taken.append(psycopg.connect(server.url))
    return taken


def refused(server: PostgresServer) -> int:
    """How often the server said that it has no connection left."""
    return (server.folder / "log").read_text().count("too many clients")


def test_no_connection_left(server: PostgresServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRY_SECONDS", 0.2)
    taken = filled(server)
    before = refused(server)

    async def main() -> None:
        stranger = PostgresStore(server.url)
        with pytest.raises(StoreUnavailable, match=r"has no connection left .*: raise max_connections"):
            await stranger.get([("acme", job(1).id)])
        await stranger.close()

    asyncio.run(main())
    assert refused(server) > before + 1  # it was tried again
    for connection in taken:
        connection.close()


def test_a_call_that_finds_no_connection_waits_for_one(server: PostgresServer, store: PostgresStore) -> None:
    taken = filled(server)
    before = refused(server)

    async def main() -> None:
        sent = asyncio.ensure_future(store.enqueue([job(1)]))
        async with asyncio.timeout(PATIENCE):
            while refused(server) == before:
                await asyncio.sleep(0.01)
        assert not sent.done()
        for connection in taken:
            connection.close()
        assert await sent == [Enqueued(job(1).id)]

    asyncio.run(main())


def test_more_calls_than_connections_wait_for_each_other(server: PostgresServer, store: PostgresStore) -> None:
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure'"

    async def main() -> None:
        await store.enqueue([job(0)])
        with psycopg.connect(server.url) as holding:
            holding.execute("LOCK TABLE tenure.job IN SHARE MODE")
            calls = [asyncio.ensure_future(store.enqueue([job(number)])) for number in range(1, 101)]
            await waiting(server, CONNECTIONS)
            with psycopg.connect(server.url) as other:
                assert other.execute(ours).fetchone() == (CONNECTIONS,)
            assert not any(call.done() for call in calls)
        assert await asyncio.gather(*calls) == [[Enqueued(job(number).id)] for number in range(1, 101)]
        page: Any = await store.query(JobFilter(), limit=1_000)
        assert len(page.jobs) == 101
        assert await store.verify() == []

    asyncio.run(main())


def test_a_role_that_may_not_is_told_what_to_grant(server: PostgresServer, store: PostgresStore) -> None:
    """And with that, and nothing more, it may."""
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
    url = server.url.replace("tenure@", "guest@")

    async def main() -> None:
        guest = PostgresStore(url)
        await store.enqueue([job(9)])
        with pytest.raises(StoreUnavailable, match=r"the role may not do this .*permission denied") as told:
            await guest.enqueue([job(1)])
        granted = re.findall(r"GRANT [^;]+ TO \"guest\"", str(told.value))
        with psycopg.connect(server.url) as connection:
            connection.execute("; ".join(granted).encode())
        assert await guest.enqueue([job(1), job(2, labels={"a": "b"}, key="k")]) == [
            Enqueued(job(1).id),
            Enqueued(job(2).id),
        ]
        claimed: Any = await guest.claim(claim(1))
        settles = [Settle(one.token, Succeed(b"1")) for one in claimed.jobs]
        assert await guest.settle(settles) == [Settled(State.SUCCEEDED)] * 3
        await guest.migrate()  # there is nothing to do
        await guest.sweep(0)
        await guest.freeze()
        await guest.thaw()
        assert await guest.verify() == []
        with pytest.raises(StoreUnavailable, match=r"the role may not do this .*GRANT CREATE ON DATABASE"):
            await PostgresStore(f"{url}?schema=other").migrate()
        await guest.close()

    asyncio.run(main())
    with psycopg.connect(server.url) as connection:
        connection.execute("DROP OWNED BY guest; DROP ROLE guest")


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
            StoreUnavailable, match=r"schema nothing\) has no schema yet, or one of another version: call migrate"
        ):
            await empty.enqueue([job(1)])
        await empty.close()

    asyncio.run(main())


@pytest.mark.parametrize("said", ["the database system is starting up", "sorry, too many clients already"])
def test_a_server_that_lets_nobody_in_for_now_is_waited_for(said: str) -> None:
    """A connection that is refused has no SQLSTATE."""
    failed = psycopg.OperationalError(f'connection failed: connection to server at "db" failed: FATAL:  {said}')
    assert isinstance(store_error(Server("postgresql://db/app"), None, failed), NotNow)
    assert not isinstance(store_error(Server("postgresql://db/app"), None, psycopg.OperationalError("gone")), NotNow)


def test_a_vanished_host_is_noticed_and_the_url_has_the_last_word(server: PostgresServer) -> None:
    with Server(f"{server.url}?keepalives_idle=77").connect() as connection:
        found = connection.info.get_parameters()
    assert (found["keepalives_idle"], found["tcp_user_timeout"], found["connect_timeout"]) == ("77", "25000", "5")
