"""Renewal from a thread with a loop of its own: a handler that blocks the worker's loop doesn't cost the leases.

A handler that holds the GIL for longer than a lease stops this thread too: run such work under `tenure worker`, whose
supervisor is another process, or in a process executor.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from tenure.domain.calls import Renewal, Renewed
from tenure.domain.errors import JobCancelled, Refused, StoreError
from tenure.domain.store import Store
from tenure.engine.worker.away import Away
from tenure.engine.worker.cancels import hear
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Ending, Hand

PROGRESS_SECONDS = 0.5
"""How often a job's progress is sent at most."""
IDLE_SECONDS = 5.0
BATCH = 500

log = logging.getLogger("tenure.worker")


class Leases(Protocol):
    """Whoever keeps the leases of a worker's jobs alive, from their claim until their outcome is settled."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def added(self, hands: Sequence[Hand]) -> None: ...

    def removed(self, hand: Hand) -> None: ...

    def reported(self, hand: Hand) -> None:
        """Its handler said how far it is."""


class Renewer:
    """Keeps the leases of all jobs in hand, and carries their progress."""

    def __init__(self, store: Store, away: Away | None = None) -> None:
        self._store = store
        self._away = away or Away()
        self._held: dict[Hand, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._home = asyncio.get_running_loop()
        self._wake: asyncio.Event | None = None
        self._next = float("inf")
        self._cancelled_at = float("-inf")
        """When some job, of whatever worker, was last heard to be cancelled."""
        self._stopping = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="tenure-renewer", daemon=True)

    async def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    async def stop(self) -> None:
        self._stopping = True
        self._look()
        await asyncio.to_thread(self._thread.join)

    def added(self, hands: Sequence[Hand]) -> None:
        self._held.update(dict.fromkeys(hands))
        if any(hand.renew_at < self._next or hand.asked_at <= self._cancelled_at for hand in hands):
            self._look()

    def removed(self, hand: Hand) -> None:
        self._held.pop(hand, None)

    def reported(self, hand: Hand) -> None:
        if hand.progress_at < self._next:
            self._look()

    def _look(self) -> None:
        """Something is to be renewed sooner; callable from any thread."""
        if self._loop is not None and self._wake is not None:
            with suppress(RuntimeError):  # the loop has ended: nothing is left to renew
                self._loop.call_soon_threadsafe(self._wake.set)

    async def _run(self) -> None:
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        hearing = asyncio.create_task(hear(self._store, self._heard))
        try:
            await self._keep(self._wake)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    def _heard(self) -> None:
        self._cancelled_at = boottime()
        self._look()

    async def _keep(self, wake: asyncio.Event) -> None:
        while not self._stopping:
            wake.clear()
            due = self._due()
            if due:
                await self._renew(due)
                continue
            now = boottime()
            self._next = min((self._when(hand, now) for hand in self._all()), default=float("inf"))
            delay = min(IDLE_SECONDS, max(0.0, self._next - now))
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), delay)
            self._next = float("inf")  # while awake, whoever comes wakes it again: it may have been looked past

    def _all(self) -> list[Hand]:
        return list(self._held)  # at once, as far as other threads can tell

    def _when(self, hand: Hand, now: float) -> float:
        """When a job is next to be renewed. A handler past its time is let go: its lease must end."""
        if hand.ending is Ending.LOST or now >= hand.timeout_at:
            return float("inf")
        if hand.asked_at <= self._cancelled_at and hand.ending is not Ending.CANCELLED:
            return 0.0
        return hand.renew_at if hand.progress is None else min(hand.renew_at, hand.progress_at)

    def _due(self) -> list[Hand]:
        now = boottime()
        return [hand for hand in self._all() if self._when(hand, now) <= now][:BATCH]

    async def _renew(self, due: list[Hand]) -> None:
        renewals = [Renewal(hand.token, hand.take_progress()) for hand in due]
        sent = boottime()
        for hand in due:
            hand.asked_at = sent
        try:
            replies = await self._store.renew(renewals)
        except Exception as error:  # whatever it is, a thread that ends would cost every lease
            if isinstance(error, StoreError):
                self._away.failed("renewals", error)
            else:
                log.warning("%d leases couldn't be renewed: %s", len(due), error)
            for hand, renewal in zip(due, renewals, strict=True):
                hand.renew_at = hand.progress_at = sent + min(1.0, hand.ttl_seconds / 10)
                if isinstance(error, StoreError):  # else it may be the progress that breaks it
                    hand.progress = hand.progress or renewal.progress
            return
        for hand, reply in zip(due, replies, strict=True):
            self._note(hand, reply, sent)

    def _note(self, hand: Hand, reply: Renewed | Refused, sent: float) -> None:
        if isinstance(reply, Renewed):
            hand.renewed(sent)
            hand.progress_at = sent + PROGRESS_SECONDS
            if reply.cancel_requested and hand.ending is None:
                self._tell(hand, Ending.REQUESTED, cancel=False)
            return
        hand.renew_at = hand.progress_at = float("inf")
        self._tell(hand, Ending.CANCELLED if isinstance(reply, JobCancelled) else Ending.LOST, cancel=True)

    def _tell(self, hand: Hand, why: Ending, *, cancel: bool) -> None:
        with suppress(RuntimeError):  # the worker's loop has ended
            self._home.call_soon_threadsafe(lambda: hand.end(why, cancel=cancel))
