"""The primary dies and its standby takes over: workers wait while it only reads, and go on when it is promoted."""

import asyncio
import logging
import signal
from collections.abc import Iterator

import psycopg
import pytest

from tenure import Tenure
from tenure.domain.errors import StoreUnavailable
from tenure.domain.states import State
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres import store as module
from tenure.testing.postgres import PostgresServer
from tenure.testing.proxy import FaultProxy

PATIENCE = 30.0


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary and its standby."""
    primary = PostgresServer()
    standby = PostgresServer(primary=primary)
    yield primary, standby
    standby.remove()
    primary.remove()


async def caught_up(primary: PostgresServer, standby: PostgresServer) -> None:
    """Until the standby has all that the primary has written."""
    with psycopg.connect(primary.url) as there, psycopg.connect(standby.url, autocommit=True) as here:
        written = there.execute("SELECT pg_current_wal_lsn()").fetchone()
        async with asyncio.timeout(PATIENCE):
            while here.execute("SELECT pg_last_wal_replay_lsn() >= %s", written).fetchone() != (True,):
                await asyncio.sleep(0.01)


def test_a_worker_goes_on_when_the_standby_is_promoted(
    servers: tuple[PostgresServer, PostgresServer], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRY_SECONDS", 0.5)
    primary, standby = servers
    proxy = FaultProxy(primary.port)
    app = Tenure(primary.url.replace(str(primary.port), str(proxy.port)))

    @app.job
    async def double(number: int) -> int:
        return 2 * number

    async def main() -> None:
        async with app, app.worker():
            first = await double.enqueue(1)
            assert await first.result(PATIENCE) == 2
            await caught_up(primary, standby)
            primary.stop(signal.SIGQUIT)
            proxy.target = ("127.0.0.1", standby.port)
            with pytest.raises(StoreUnavailable, match="is in recovery or read-only: connect to the primary"):
                await double.enqueue(2)
            assert (await first.get()).state is State.SUCCEEDED  # for reading it will do
            async with asyncio.timeout(PATIENCE):
                while "is in recovery or read-only" not in caplog.text:
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(standby.promote)
            assert await (await double.enqueue(2)).result(PATIENCE) == 4
        store = PostgresStore(standby.url)
        assert await store.verify() == []
        await store.close()

    with caplog.at_level(logging.WARNING, "tenure.worker"), proxy:
        asyncio.run(main())
