"""Following what happens."""

from collections.abc import AsyncIterator, Awaitable, Callable

from tenure.domain.calls import EventPage
from tenure.domain.errors import InvalidValue, Refused
from tenure.domain.event import Event
from tenure.domain.store import FEED_TOPIC, Store

WAIT_SECONDS = 1.0
"""How long to wait for a hint before looking again."""


WITHIN = "~"
"""Between a store's cursor and how many events after it were given: a store's own stand only where a page ends."""


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
            start, given = _split(cursor)
            page = await store.events(tenant=self._tenant, after=start)
            if isinstance(page, Refused):
                raise page
            cursor = page.cursor
            if page.events:
                yield _with_cursors(page, start, given)
                continue
            self.cursor = cursor
            if not self._follow:
                return
            await store.wait([FEED_TOPIC], WAIT_SECONDS)


def _with_cursors(page: EventPage, start: str | None, given: int) -> list[tuple[Event, str]]:
    """The events of a page but for those already given. Only at its end does a page have a cursor of the store's."""
    last = len(page.events)
    return [
        (event, page.cursor if place == last else f"{start or ''}{WITHIN}{place}")
        for place, event in enumerate(page.events[given:], start=given + 1)
    ]


def _split(cursor: str | None) -> tuple[str | None, int]:
    """A store's cursor, and how many of the events after it are to be passed over."""
    if cursor is None:
        return None, 0
    start, within, given = cursor.rpartition(WITHIN)
    if not within:
        return cursor, 0
    if not (given.isascii() and given.isdigit()):
        raise InvalidValue(f"cursor {cursor!r:.80}: it isn't one of a feed")
    return start or None, int(given)
