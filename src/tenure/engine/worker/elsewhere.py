"""What handlers of other workers take: during a rolling deploy, a payload that the handler here refuses (§6)."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from tenure.domain.names import SECOND, Ms
from tenure.engine.job_types import Handled, handled_now
from tenure.engine.json_schema import accepts
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Hand

if TYPE_CHECKING:
    from tenure.engine.app import Tenure

ELSEWHERE_MS: Ms = 30 * SECOND
"""How long a job waits that only another worker can run."""


class Elsewhere:
    """Asks the store for what workers of the last ten minutes handle, once for all jobs of a claim."""

    def __init__(self, app: "Tenure") -> None:
        self._app = app
        self._lock = asyncio.Lock()
        self._handled: Mapping[str, Handled] = {}
        self._asked_at = float("-inf")

    async def takes(self, hand: Hand) -> bool:
        """Whether a handler of other code takes the job's payload. Raises `StoreError`."""
        name = hand.definition.name
        handled = await self._since(hand.started_at)
        schemas = [schema for one in handled.values() if (schema := one.job_types.get(name)) is not None]
        try:
            own = msgspec.json.encode(hand.definition.signature.schema()["parameters"])
            payload = self._app.codecs.get(hand.claimed.job.spec.codec).decode(hand.claimed.payload)
        except Exception:  # a codec of one's own may raise anything
            return False
        # A schema like the one here says nothing new: it is less exact than the handler, which refused.
        return any(accepts(schema, payload) for schema in schemas if schema != msgspec.json.decode(own))

    async def _since(self, instant: float) -> Mapping[str, Handled]:
        """What was published by an instant, and maybe later."""
        async with self._lock:
            if self._asked_at < instant:
                asked_at = boottime()
                self._handled = await handled_now(await self._app.opened())
                self._asked_at = asked_at
            return self._handled
