"""Notifications of other processes are heard at once, whatever this one tells meanwhile."""

import asyncio
import queue
import threading

import psycopg
import pytest

from tenure.domain.store import EVERYTHING, queue_topic
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.store import PostgresStore
from tenure.stores.sql.postgres.wake import Wake, channel
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory

ROUNDS = 200
PATIENCE = 30.0


def test_what_others_tell_while_this_process_tells_is_heard(postgres_url: str) -> None:
    """The two cross: what comes with the answer to a NOTIFY of one's own must not wait for the next."""
    server = Server(f"{postgres_url}?schema=woken")
    heard: queue.Queue[set[str]] = queue.Queue()
    wake = Wake(server, lambda topics: heard.put(set(topics)))
    wake.listen()
    assert heard.get(timeout=30) == {EVERYTHING}  # it listens
    with psycopg.connect(postgres_url, autocommit=True) as other:
        for number in range(ROUNDS):
            telling = threading.Thread(target=wake.tell, args=([f"own/{number}"],))
            telling.start()
            other.execute("SELECT pg_notify(%s, %s)", (channel(server), f"queue/{number}"))
            assert heard.get(timeout=30) == {f"queue/{number}"}
            telling.join()
    wake.close()


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
