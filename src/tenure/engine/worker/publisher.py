"""What a worker's code knows, as others may need it: its job types, what they take, and the schedules they declare."""

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenure.domain.errors import StoreError
from tenure.domain.store import Store
from tenure.engine.declared import Declarations
from tenure.engine.job_types import HANDLED_TTL, handled_by, publish
from tenure.engine.periodic import LOOK
from tenure.engine.worker.away import Away

if TYPE_CHECKING:
    from tenure.engine.app import Tenure


class Publisher:
    """Publishes once before the first claim, and every two minutes again what would be forgotten.

    A worker of certain tenants declares schedules only if the app's own tenant is among them.
    """

    def __init__(self, app: "Tenure", store: Store, tenants: Sequence[str] | None, away: Away) -> None:
        self._store = store
        self._away = away
        self._definitions = [one for one in app.definitions.values() if one.handled]
        self._handled = handled_by(self._definitions)
        self._declarations = Declarations(app) if tenants is None or app.tenant_name in tenants else None

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
            await asyncio.sleep(LOOK / 1_000 * random.uniform(0.8, 1))
            try:
                await self._keep()
            except StoreError as error:
                self._away.failed("what this worker handles", error)

    async def _keep(self) -> None:
        for document in self._handled:
            await self._store.put_document(document, ttl=HANDLED_TTL)
        if self._declarations is not None:
            await self._declarations.look()
