"""Sweeping: whoever's turn it is takes lost leases, expires and cleans up, so that no job waits for a dead worker."""

import asyncio
import logging
import random

from tenure.blobs import BlobStore, sweep_blobs
from tenure.domain.calls import Swept
from tenure.domain.errors import StoreError, TenureError
from tenure.domain.names import MAX_DURATION, Ms
from tenure.domain.store import Store
from tenure.engine.worker.away import Away
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.logged import log_swept

LONGEST_SECONDS = 10.0
JUMP_SECONDS = 5.0
PURGE_SECONDS = 60.0
LIMIT = 500

log = logging.getLogger("tenure.worker")


class Sweeper:
    """Sweeps every min(10 s, a third of a lease), with jitter; a clock that jumped ahead takes no lease from anyone."""

    def __init__(
        self, store: Store, lease_seconds: float, blobs: BlobStore | None = None, away: Away | None = None
    ) -> None:
        self._store = store
        self._away = away or Away()
        self._blobs = blobs
        self._blob_cursor: str | None = None
        self._lease_seconds = lease_seconds
        self._interval = min(LONGEST_SECONDS, lease_seconds / 3)
        self._seen: tuple[Ms, float] | None = None
        self._answered_at = boottime()
        self._purge_at = boottime() + PURGE_SECONDS

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                more = await self._sweep()
            except StoreError as error:
                self._away.failed("sweeps", error)
                more = False
            if not more:
                await asyncio.sleep(self._interval * random.uniform(0.8, 1.2))

    async def _sweep(self) -> bool:
        """One turn; whether there is more to do at once. The clock is looked at before a lease may be taken."""
        silent = boottime() - self._answered_at > self._interval * 1.2 + JUMP_SECONDS
        asked = await self._store.sweep(MAX_DURATION)
        now = boottime()
        if not isinstance(asked, Swept):
            return False  # frozen: nothing to sweep
        log_swept(asked.failed)  # the first sweep of a store has the turn, whatever the interval
        jumped = self._jumped(asked.now, now)
        self._seen, self._answered_at = (asked.now, now), now
        hold = round(self._lease_seconds * 1_000) if jumped or silent else None
        reply = await self._store.sweep(0 if hold else round(self._interval * 1_000), LIMIT, hold)
        if not isinstance(reply, Swept):
            return False
        log_swept(reply.failed)
        if reply.turn and now >= self._purge_at:
            await self._store.purge()
            await self._sweep_blobs()
            self._purge_at = now + PURGE_SECONDS
        counts = reply.counts
        return LIMIT in (counts.lost, counts.expired, counts.cascaded, counts.drained)

    async def _sweep_blobs(self) -> None:
        """One step; the next goes on where it ended."""
        if self._blobs is None:
            return
        try:
            swept = await sweep_blobs(self._blobs, self._store, limit=LIMIT, after=self._blob_cursor)
        except TenureError as error:  # of the blob store, which may not even be there
            log.warning("blobs couldn't be swept: %s", error)
        else:
            self._blob_cursor = swept.cursor

    def _jumped(self, store_now: Ms, own_now: float) -> bool:
        """Whether the store's clock ran ahead of ours since the last answer."""
        if self._seen is None:
            return False
        ahead = (store_now - self._seen[0]) / 1_000 - (own_now - self._seen[1])
        if ahead <= max(JUMP_SECONDS, self._lease_seconds / 4):
            return False
        log.warning("the store's clock jumped ahead by %.1f s: no lease is taken for a while", ahead)
        return True
