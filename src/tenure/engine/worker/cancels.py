"""Hearing of cancels: a handler that was called off is told at once, not when its lease is renewed next."""

import asyncio
import logging
from collections.abc import Callable

from tenure.domain.errors import StoreError
from tenure.domain.store import CANCELS, Store

WAIT_SECONDS = 3_600.0
PAUSE_SECONDS = 0.1
"""Between two looks: of many cancels in a row a worker asks about together."""

log = logging.getLogger("tenure.worker")


async def hear(store: Store, look: Callable[[], None]) -> None:
    """Calls `look` once it hears, and after every cancel of a running job of whatever worker, until cancelled.

    Where hints of other processes can't arrive, the store says every now and then to look all the same.
    """
    waiting, hinted = asyncio.create_task(_hinted(store)), True
    try:
        while True:
            await asyncio.sleep(0)  # from here on it hears: what was told before is in the store for who looks now
            if hinted:
                look()
            await asyncio.sleep(PAUSE_SECONDS)
            hinted = await waiting
            waiting = asyncio.create_task(_hinted(store))
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _hinted(store: Store) -> bool:
    try:
        return await store.wait([CANCELS], WAIT_SECONDS)
    except StoreError as error:
        log.debug("no hints: %s", error)
        await asyncio.sleep(1.0)
        return False
