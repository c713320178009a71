"""Who works here: each worker writes a document about itself, and about the job types it knows."""

import asyncio
import os
import platform
import time

import msgspec

from tenure.domain.calls import Document
from tenure.domain.errors import StoreError
from tenure.domain.names import SYSTEM
from tenure.domain.store import Store
from tenure.engine.worker.away import Away
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Hands

WORKER = "worker"
BEAT_SECONDS = 10.0
LISTED = 100
"""Jobs that a worker names at most in its document."""


class RunningJob(msgspec.Struct, frozen=True):
    """A job that a worker has in hand."""

    tenant: str
    id: str
    job_type: str
    seconds: float


class WorkerCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself. Gone by itself when the worker is."""

    name: str
    host: str
    pid: int
    started_at: float
    queues: tuple[str, ...]
    concurrency: int
    running: int
    jobs: tuple[RunningJob, ...]
    handled: tuple[str, ...] | None = None
    """Names of the documents that say which job types it handles (`HANDLED`); None: it doesn't say."""


class Presence:
    """Keeps a worker's document alive, and takes it away at the end."""

    def __init__(
        self,
        store: Store,
        name: str,
        queues: tuple[str, ...],
        concurrency: int,
        hands: Hands,
        away: Away | None = None,
        handled: tuple[str, ...] | None = None,
    ) -> None:
        self._store = store
        self._name = name
        self._queues = queues
        self._concurrency = concurrency
        self._hands = hands
        self._away = away or Away()
        self._handled = handled
        self._started_at = time.time()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._write(self._card())
            await asyncio.sleep(BEAT_SECONDS)

    async def leave(self) -> None:
        await self._write(None)

    async def _write(self, card: WorkerCard | None) -> None:
        body = None if card is None else msgspec.json.encode(card)
        document = Document(tenant=SYSTEM, kind=WORKER, name=self._name, body=body)
        try:
            await self._store.put_document(document, ttl=None if body is None else round(3 * BEAT_SECONDS * 1_000))
        except StoreError as error:
            self._away.failed("the worker's card", error)

    def _card(self) -> WorkerCard:
        now, hands = boottime(), list(self._hands)
        jobs = tuple(
            RunningJob(hand.token.tenant, hand.token.job_id, hand.definition.name, round(now - hand.started_at, 1))
            for hand in hands[:LISTED]
        )
        return WorkerCard(
            name=self._name,
            host=platform.node(),
            pid=os.getpid(),
            started_at=self._started_at,
            queues=self._queues,
            concurrency=self._concurrency,
            running=len(hands),
            jobs=jobs,
            handled=self._handled,
        )
