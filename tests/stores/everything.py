"""A store with a little of everything that a job can be, and the time of it."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from tenure.domain.calls import (
    Cancel,
    Claim,
    Claimed,
    ClaimedJob,
    Discard,
    Document,
    Fail,
    Outcome,
    Release,
    Renewal,
    Replay,
    RequestCancel,
    Retry,
    Settle,
    Succeed,
)
from tenure.domain.config import QueueConfig
from tenure.domain.errors import Refused
from tenure.domain.job import Failure, NewJob, Parent, Progress
from tenure.domain.names import HOUR, MINUTE
from tenure.domain.states import Mode
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.snapshot import SqlSnapshot
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.clock import ManualClock


def id_of(name: str) -> str:
    """The id of a job that is spoken of by a name."""
    return str(uuid5(NAMESPACE_URL, name))


def job(name: str, **fields: Any) -> NewJob:
    made = {"tenant": "acme", "queue": "mail", "job_type": "send", "payload": b'{"n":1}', **fields}
    return NewJob(id=id_of(name), **made)


class Everything:
    """Fills a store."""

    def __init__(self, place: Path | str) -> None:
        """Of a file, or of a server's URL."""
        self.clock = ManualClock()
        self.store = SqliteStore(place, self.clock) if isinstance(place, Path) else PostgresStore(place, self.clock)
        self._claims = 0

    async def fill(self) -> None:
        await self.store.migrate()
        keyed = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=5))
        await self.store.put_document(Document(tenant="*", kind="queue", name="lanes", body=keyed))
        await self._end(["ok", "other"], Succeed(b"1"), labels={"team": "crm", "region": "eu"})
        await self._end(["brief"], Succeed(b"2"), result_ttl=1)
        await self._enqueue(
            job("parent", queue="first", result_ttl=1), job("child", parents=(Parent(id_of("parent")),))
        )
        await self.store.settle([Settle(one.token, Succeed(b"3", "msgpack")) for one in await self._claim("first")])
        await self._end(["silent"], Succeed(), tenant="zoo")
        await self._end(["open", "replayed", "discarded"], Fail(Failure("ValueError", "no"), "permanent"), key=None)
        await self._end(["again"], Retry(Failure("OSError", "later"), 60_000), max_attempts=5)
        await self._end(["spent"], Retry(Failure("OSError"), 0), max_attempts=1)
        await self._end(["snoozed"], Release(60_000, "snooze"))
        await self.store.command([Replay(tenant="acme", id=id_of("replayed"), new_id=id_of("replay"))])
        await self.store.command([Discard(tenant="acme", id=id_of("discarded"))])
        await self._enqueue(job("grouped", queue="lanes", group="g1", key="k1", priority=7), job("root"))
        await self._enqueue(job("blocked", parents=(Parent(id_of("root")), Parent(id_of("grouped")))))
        await self._enqueue(job("later", delay=HOUR), job("stale", expires=1), job("cancelled"), job("fresh"))
        await self._enqueue(job("elsewhere", tenant="zoo", codec="msgpack", job_type="other", queue="b"))
        await self.store.command([Cancel(tenant="acme", id=id_of("cancelled"))])
        self.clock.advance(MINUTE // 2)
        await self._run("b", Progress(0.5, "half"))
        await self._run("lanes", None)
        await self.store.command([RequestCancel(tenant="acme", id=id_of("grouped"))])

    async def _enqueue(self, *jobs: NewJob) -> None:
        replies = await self.store.enqueue(jobs)
        assert not [reply for reply in replies if isinstance(reply, Refused)]

    async def _end(self, called: Sequence[str], outcome: Outcome, **fields: Any) -> None:
        """Jobs that were claimed and ended so."""
        queue = f"of-{called[0]}"
        await self._enqueue(*(job(name, **{"queue": queue, **fields}) for name in called))
        self.clock.advance(1_000)
        await self.store.settle([Settle(one.token, outcome) for one in await self._claim(queue)])
        self.clock.advance(1_000)

    async def _run(self, queue: str, progress: Progress | None) -> None:
        await self.store.renew([Renewal(one.token, progress) for one in await self._claim(queue)])

    async def _claim(self, queue: str) -> Sequence[ClaimedJob]:
        self._claims += 1
        claim_id = self._claims.to_bytes(16, "big")
        reply = await self.store.claim(Claim(claim_id=claim_id, worker="w1", queues=((queue, None),), n=10))
        assert isinstance(reply, Claimed)
        assert reply.jobs
        return reply.jobs


@contextmanager
def everything_read(place: Path | str) -> Iterator[SqlSnapshot]:
    """A view of a store with a little of everything."""
    made = Everything(place)

    async def fill() -> None:
        await made.fill()
        await made.store.close()

    asyncio.run(fill())
    with made.store.snapshot() as opened:
        yield opened
