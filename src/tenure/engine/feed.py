"""Following what happens."""

from collections.abc import AsyncIterator, Awaitable, Callable

from tenure.domain.errors import Refused
from tenure.domain.event import Event
from tenure.domain.store import FEED_TOPIC, Store

WAIT_SECONDS = 1.0
"""How long to wait for a hint before looking again."""


class Events:
    """The events of one tenant, or of all: `async for event in app.events()`.

    `cursor` says where to go on after the last event that was given; keep it to resume. Raises `CursorExpired` when
    retention has taken events that were still to come.
    """

    def __init__(
        self, store: Callable[[], Awaitable[Store]], tenant: str | None, after: str | None, follow: bool
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._follow = follow
        self.cursor = after

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for batch in self.batches():
            for event, self.cursor in batch:
                yield event

    async def batches(self) -> AsyncIterator[list[tuple[Event, str]]]:
        """Events as they are read, many at once, each with the cursor after it."""
        store, cursor = await self._store(), self.cursor
        while True:
            page = await store.events(tenant=self._tenant, after=cursor)
            if isinstance(page, Refused):
                raise page
            cursor = page.cursor
            if page.events:
                yield list(zip(page.events, page.cursors, strict=True))
                continue
            self.cursor = cursor
            if not self._follow:
                return
            await store.wait([FEED_TOPIC], WAIT_SECONDS)
