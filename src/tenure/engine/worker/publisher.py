"""What a worker's code knows, as others may need it: its job types and what they take."""

import asyncio
import random
from typing import TYPE_CHECKING

from tenure.domain.errors import StoreError
from tenure.domain.store import Store
from tenure.engine.job_types import HANDLED_TTL, handled_by, publish
from tenure.engine.worker.away import Away

if TYPE_CHECKING:
    from tenure.engine.app import Tenure

LOOK_SECONDS = 120.0


class Publisher:
    """Publishes once before the first claim, and every two minutes again what would be forgotten."""

    def __init__(self, app: "Tenure", store: Store, away: Away) -> None:
        self._store = store
        self._away = away
        self._definitions = [one for one in app.definitions.values() if one.handled]
        self._handled = handled_by(self._definitions)

    @property
    def handled(self) -> tuple[str, ...]:
        """Names of the documents that say what is handled here."""
        return tuple(one.name for one in self._handled)

    async def start(self) -> None:
        await publish(self._store, self._definitions)
        await self._keep()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS * random.uniform(0.8, 1))
            try:
                await self._keep()
            except StoreError as error:
                self._away.failed("what this worker handles", error)

    async def _keep(self) -> None:
        for document in self._handled:
            await self._store.put_document(document, ttl=HANDLED_TTL)
