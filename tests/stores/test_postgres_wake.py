"""Notifications of other processes are heard at once, whatever this one tells meanwhile."""

import queue
import threading

import psycopg

from tenure.domain.store import EVERYTHING
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.wake import Wake, channel

ROUNDS = 200


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
