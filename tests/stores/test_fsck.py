"""fsck finds what it is there to find."""

import asyncio
import os
import sqlite3
from pathlib import Path

import msgspec
import pytest

from tenure.domain.calls import Cancel, Claim, Claimed, Document, Fail, Settle, Succeed
from tenure.domain.config import QueueConfig
from tenure.domain.job import Failure, NewJob, Parent, Traceback
from tenure.domain.states import Mode, Unique
from tenure.domain.store import Store
from tenure.stores.memory import MemoryStore
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.clock import ManualClock
from tenure.testing.fsck import fsck


def ident(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


def job(number: int, queue: str = "mail", **fields: object) -> NewJob:
    base = {"tenant": "acme", "id": ident(number), "queue": queue, "job_type": "send", "payload": b"1"}
    return msgspec.convert(base | fields, NewJob)


def claim(n: int) -> Claim:
    return Claim(claim_id=os.urandom(16), worker="w", queues=(("mail", None), ("lanes", None)), n=n)


async def populate(store: Store) -> None:
    """A job in every state and every structure."""
    await store.migrate()
    config = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1))
    await store.put_document(Document(tenant="*", kind="queue", name="lanes", body=config))
    first = [job(number) for number in range(1, 5)]
    await store.enqueue(first)
    claimed = await store.claim(claim(4))
    assert isinstance(claimed, Claimed)
    done, failed, cancelled, _ = (one.token for one in claimed.jobs)
    failure = Fail(Failure("ValueError", "no"), traceback=Traceback("ValueError", "no"))
    await store.settle([Settle(done, Succeed(b"1")), Settle(failed, failure)])
    await store.command([Cancel(tenant="acme", id=cancelled.job_id)])
    await store.enqueue(
        [
            job(10, key="k", unique=Unique.RETAINED, labels={"team": "crm"}),
            job(11, delay=60_000, expires=90_000),
            job(12, parents=(Parent(ident(10)),)),
            job(13, queue="lanes", group="g"),
            job(14, queue="lanes", group="g"),
        ]
    )


MANY = list(range(20))

TAMPERING = {
    "DELETE FROM ready": "missing from ready",
    "DELETE FROM scheduled": "missing from scheduled",
    "DELETE FROM blocked": "missing from blocked",
    "DELETE FROM running": "missing from ready",
    "DELETE FROM in_order": "missing from in_order",
    "DELETE FROM expiring": "missing from expiring",
    "DELETE FROM finished": "missing from ready",
    "UPDATE running SET deadline = deadline + 1": "its record says",
    "UPDATE finished SET day = day + 1": "its record says",
    "INSERT INTO finished SELECT seq, 20000, 'failed', live FROM running": "its record says",
    "INSERT INTO ready SELECT * FROM scheduled": "row of no record",
    "DELETE FROM label": "label",
    "DELETE FROM body WHERE seq = 1": "job without a body",
    "DELETE FROM job WHERE seq = 5": "body without a job",
    "UPDATE job SET queue = 'other' WHERE seq = 1": "its record says",
    "UPDATE job SET live = (SELECT live FROM running) WHERE seq = 5": "with lease",
    "DELETE FROM edge": "waits for nobody",
    "UPDATE edge SET parent = '" + ident(1) + "'": "nobody will tell",
    "UPDATE binding SET job_id = 'gone'": "key bound to a job that is gone",
    "UPDATE binding SET job_id = '" + ident(1) + "', uniqueness = 'active'": "key outlived its job",
    "DELETE FROM dead_letter": "dead letter missing",
    "UPDATE slot SET job_id = '" + ident(10) + "'": "slot of a job that wasn't cancelled",
    "UPDATE result SET seq = 2": "result without a success",
    "DELETE FROM feed WHERE position = 2": "feed with a gap",
    "UPDATE attached SET seq = 99": "row beside no job",
    "UPDATE attached SET body = x'c1'": "can't be read",
    "UPDATE attached SET family = 'someday'": "can't be read",
    f"INSERT INTO attached SELECT seq, family, value, body FROM attached, json_each('{MANY}')": "more than 20",
}


@pytest.mark.parametrize("statement", TAMPERING)
def test_sqlite_tampering_is_found(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "jobs.db"

    async def main() -> tuple[list[str], list[str]]:
        store = SqliteStore(path, clock=ManualClock())
        await populate(store)
        sound = await fsck(store)
        with sqlite3.connect(path) as connection:
            assert connection.execute(statement).rowcount > 0
        connection.close()
        tampered = await fsck(store)
        await store.close()
        return sound, tampered

    sound, tampered = asyncio.run(main())
    assert sound == []
    assert any(TAMPERING[statement] in problem for problem in tampered), tampered


def test_memory_tampering_is_found() -> None:
    async def main() -> tuple[list[str], list[str]]:
        store = MemoryStore(clock=ManualClock())
        await populate(store)
        sound = await fsck(store)
        store._tables._index.running.clear()
        return sound, await fsck(store)

    assert asyncio.run(main()) == ([], ["index running differs from its records"])
