"""Notifications of other processes are heard at once, whatever this one tells meanwhile."""

import asyncio
import logging
import queue
import threading
import time
from urllib.parse import urlsplit

import psycopg
import pytest

from tenure.domain.store import queue_topic
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.store import PostgresStore
from tenure.stores.sql.postgres.wake import MISSED, UNHEARD, Wake, channel
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory
from tenure.testing.proxy import FaultProxy

ROUNDS = 200
PATIENCE = 30.0


def test_what_others_tell_while_this_process_tells_is_heard(postgres_url: str) -> None:
    """The two cross: what comes with the answer to a NOTIFY of one's own must not wait for the next."""
    server = Server(f"{postgres_url}?schema=woken")
    heard: queue.Queue[set[str]] = queue.Queue()
    wake = Wake(server, lambda topics: heard.put(set(topics)))
    wake.listen()
    assert heard.get(timeout=30) == set(MISSED)  # it listens
    with psycopg.connect(postgres_url, autocommit=True) as other:
        for number in range(ROUNDS):
            telling = threading.Thread(target=wake.tell, args=([f"own/{number}"],))
            telling.start()
            other.execute("SELECT pg_notify(%s, %s)", (channel(server), f"queue/{number}"))
            assert heard.get(timeout=30) == {f"queue/{number}"}
            telling.join()
    wake.close()


def test_missing_hints_are_said_once_and_so_is_their_return(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever waits for a server that is away for hours has one line of it, however many connections listen."""
    monkeypatch.setattr("tenure.stores.sql.postgres.wake.RECONNECT_SECONDS", 0.01)
    caplog.set_level(logging.DEBUG, "tenure.postgres")
    parts = urlsplit(postgres_url)
    with FaultProxy(parts.port or 5432) as proxy:
        server = Server(parts._replace(netloc=parts.netloc.replace(str(parts.port), str(proxy.port))).geturl())
        heard: queue.Queue[set[str]] = queue.Queue()
        wakes = [Wake(server, lambda topics: heard.put(set(topics))) for _ in range(2)]
        for wake in wakes:
            wake.listen()
            assert heard.get(timeout=PATIENCE) == set(MISSED)
        with proxy.away():
            deadline = time.monotonic() + PATIENCE
            while caplog.text.count("are missing") < 20 and time.monotonic() < deadline:
                time.sleep(0.01)
        for _ in wakes:
            while (one := heard.get(timeout=PATIENCE)) == set(UNHEARD):
                pass
            assert one == set(MISSED)
        for wake in wakes:
            wake.close()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert said[0].startswith("hints of other processes are missing, their connection is tried every 1 s: ")
    assert said[1:] == ["hints of other processes come again"]


def test_a_loop_hears_others_without_a_thread_and_again_after_its_connection_broke(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.stores.sql.postgres.ears.RECONNECT_SECONDS", 0.01)
    topic = queue_topic("mail")

    async def main() -> None:
        factory = PostgresFactory(postgres_url)
        store = await factory.create(ManualClock())
        assert isinstance(store, PostgresStore)
        try:
            with psycopg.connect(postgres_url, autocommit=True) as other:
                name = f"tenure_{factory.schema_of(store)}"
                told = "SELECT pg_notify(%s, %s)"
                assert await store.wait([topic], PATIENCE)  # it listens: whatever was told before may be new
                for _ in range(2):
                    waiting = asyncio.create_task(store.wait([topic], PATIENCE))
                    await asyncio.sleep(0)
                    other.execute(told, (name, "queue/other"))
                    other.execute(told, (name, topic))
                    assert await waiting
                    (ears,) = store._opened()._ears.values()
                    assert ears._connection is not None
                    waiting = asyncio.create_task(store.wait([topic], PATIENCE))
                    other.execute("SELECT pg_terminate_backend(%s)", (ears._connection.info.backend_pid,))
                    assert await waiting  # another listens
            assert store._opened().wake._thread is None
        finally:
            await factory.destroy(store)

    asyncio.run(main())
