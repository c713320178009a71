"""Firing schedules. Every worker does; the store sees to it that a tick fires once.

A look goes: which tenants have schedules, the store's time, the schedules that changed since the last look. Whatever is
due is read once more, enqueued, and then marked as done by compare-and-set. Two schedulers may enqueue the same tick,
which is one job; one that loses the mark has nothing left to do. A crash in between leaves the tick to the next look.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from tenure.domain.calls import Document, Enqueued, Stored
from tenure.domain.errors import IdConflict, IdempotencyMismatch, InvalidValue, Refused, StoreError
from tenure.domain.names import SYSTEM, Ms
from tenure.domain.store import Store, document_topic
from tenure.engine.schedules import (
    MOST_MISSED,
    SCHEDULE,
    SCHEDULED,
    StoredSchedule,
    schedule_of,
    store_now,
    stored_schedule,
    tick_job,
)
from tenure.engine.worker.away import Away
from tenure.engine.worker.clock import boottime

LOOK_SECONDS = 5.0
"""How long a new or changed schedule may go unseen where no hint comes."""
HINT_SECONDS = 0.5
FRESH_SECONDS = 30.0
"""A schedule that was read longer ago is read again before it fires: its ticks may be done, and even purged."""
RETRY_SECONDS = (1.0, 30.0)
BATCH = 100
BATCH_BYTES = 4 * 1024 * 1024

log = logging.getLogger("tenure.schedule")


class Scheduler:
    """Looks every few seconds, and at the moment a tick is due."""

    def __init__(
        self,
        store: Store,
        tenants: Sequence[str] | None = None,
        clock: Callable[[], float] = boottime,
        away: Away | None = None,
    ) -> None:
        self._store = store
        self._away = away or Away()
        self._tenants = tenants
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._seen: dict[str, int] = {}
        """The marks at the last look."""
        self._told: dict[tuple[str, str], str] = {}
        """What was last logged about a schedule, so that it is said once."""

    async def run(self) -> None:
        """Until cancelled."""
        wait, longest = RETRY_SECONDS
        while True:
            try:
                delay = await self.step()
                wait = RETRY_SECONDS[0]
            except StoreError as error:
                self._away.failed("schedules", error)
                log.debug("schedules wait %.0f s for the store: %s", wait, error)
                delay, wait = wait * random.uniform(0.5, 1), min(2 * wait, longest)
            await self._rest(delay)

    async def _rest(self, seconds: float) -> None:
        """Until the time is up, or schedules were written."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed()

    async def _changed(self) -> None:
        """Returns when the marks are others than those of the last look. A hint may mean anything, and come with every
        commit of another process: it is worth a read, and not more often than every `HINT_SECONDS`. One that comes
        meanwhile is for the next.
        """
        seen = self._seen
        waiting = asyncio.create_task(self._hinted())
        try:
            while True:
                hinted = await waiting
                waiting = asyncio.create_task(self._hinted())
                with suppress(StoreError):
                    if hinted and await self._listed() != seen:
                        return
                await asyncio.sleep(HINT_SECONDS)
        finally:
            waiting.cancel()

    async def _hinted(self) -> bool:
        try:
            return await self._store.wait([document_topic(SYSTEM, SCHEDULED)], LOOK_SECONDS)
        except StoreError as error:
            log.debug("no hints: %s", error)
            return False

    async def step(self) -> float:
        """One look: fires what is due. How many seconds to wait until the next one."""
        marks = await self._marks()
        if not marks:
            return LOOK_SECONDS
        try:
            now = await store_now(self._store)
        except Refused:
            return LOOK_SECONDS  # frozen
        asked_at, following = self._clock(), now + round(LOOK_SECONDS * 1_000)
        for tenant, version in marks.items():
            known = await self._read(tenant, version)
            for name, tick in list(known.next_ticks.items()):
                if tick <= now:
                    await self._fire_safely(tenant, name, now)
            following = min((following, *known.next_ticks.values()))
        return max(0.0, (following - now) / 1_000 - (self._clock() - asked_at))

    async def _marks(self) -> dict[str, int]:
        """Tenants with schedules, each with a number that changes with them."""
        found = self._seen = await self._listed()
        self._known = {tenant: known for tenant, known in self._known.items() if tenant in found}
        return found

    async def _listed(self) -> dict[str, int]:
        found = {one.name: one.version for one in await self._store.list_documents(SYSTEM, SCHEDULED)}
        if self._tenants is None:
            return found
        return {tenant: version for tenant, version in found.items() if tenant in self._tenants}

    async def _read(self, tenant: str, version: int) -> "_Known":
        """A tenant's schedules, as they were at this version."""
        known = self._known.get(tenant)
        if known is None or known.version != version:
            known = _Known(version)
            for document in await self._store.list_documents(tenant, SCHEDULE):
                self._note(known, document.name, self._schedule(document))
            self._known[tenant] = known
        return known

    def _note(self, known: "_Known", name: str, schedule: StoredSchedule | None) -> None:
        tick = None if schedule is None else schedule.next_tick()
        if tick is None:
            known.next_ticks.pop(name, None)
        else:
            known.next_ticks[name] = tick

    def _schedule(self, document: Document) -> StoredSchedule | None:
        """What a document says; None for one that was removed or makes no sense."""
        try:
            return schedule_of(document)
        except InvalidValue as error:
            self._tell(document.tenant, document.name, f"it is left out until it is declared again: {error}")
            return None

    # Firing

    async def _fire_safely(self, tenant: str, name: str, now: Ms) -> None:
        """Whatever is wrong with one schedule is logged, and stops no other."""
        known = self._known[tenant]
        try:
            self._note(known, name, await self._fire(tenant, name, now))
        except StoreError:
            raise
        except Exception as error:
            self._tell(tenant, name, f"it can't fire now: {type(error).__name__}: {error}")
            known.next_ticks[name] = now + round(LOOK_SECONDS * 1_000)

    async def _fire(self, tenant: str, name: str, now: Ms) -> StoredSchedule | None:
        """Fires what a schedule owes; the schedule after that. Raises what keeps its jobs out of the queue."""
        read_at, document = self._clock(), await stored_schedule(self._store, tenant, name)
        schedule = None if document is None else self._schedule(document)
        due = None if schedule is None else schedule.due(now)
        if document is None or schedule is None or due is None:
            return schedule
        self._tell_skipped(tenant, name, schedule, due.ticks)
        version: int | None = document.version
        for ticks in _batches(due.ticks, len(schedule.job.payload)):
            if version is None or self._clock() - read_at > FRESH_SECONDS:
                return schedule  # someone else goes on with it, or it must be read again
            fired, refused = await self._enqueue(tenant, name, schedule, ticks)
            if fired:
                schedule = replace(schedule, done_until=fired[-1], last_fired=fired[-1])
                version = await self._mark(document, schedule, version)
            if refused is not None:
                raise refused
        if schedule.done_until < due.until:
            schedule = replace(schedule, done_until=due.until)
            await self._mark(document, schedule, document.version)
        self._told.pop((tenant, name), None)
        return schedule

    async def _enqueue(
        self, tenant: str, name: str, schedule: StoredSchedule, ticks: list[Ms]
    ) -> tuple[list[Ms], Refused | None]:
        """The ticks that are in the queue now, up to the first that was refused, and why it was."""
        replies = await self._store.enqueue([tick_job(tenant, name, schedule, tick) for tick in ticks])
        for number, reply in enumerate(replies):
            # Another body under this tick's id or key: it fired before the schedule was changed.
            if not isinstance(reply, Enqueued | IdConflict | IdempotencyMismatch):
                return ticks[:number], reply
        return ticks, None

    async def _mark(self, document: Document, schedule: StoredSchedule, version: int) -> int | None:
        """Says how far the schedule has come; None when somebody else changed it meanwhile."""
        changed = replace(document, body=msgspec.json.encode(schedule))
        reply = await self._store.put_document(changed, expect=version)
        return reply.version if isinstance(reply, Stored) else None

    # Telling

    def _tell(self, tenant: str, name: str, message: str) -> None:
        if self._told.get((tenant, name)) != message:
            self._told[tenant, name] = message
            log.warning("schedule %s of %s: %s", name, tenant, message)

    def _tell_skipped(self, tenant: str, name: str, schedule: StoredSchedule, ticks: list[Ms]) -> None:
        if len(ticks) == MOST_MISSED and schedule.next_tick() != ticks[0]:
            log.warning("schedule %s of %s missed more than %d ticks: the oldest are gone", name, tenant, MOST_MISSED)


class _Known:
    """A tenant's schedules as last seen: the next tick of each."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.next_ticks: dict[str, Ms] = {}


def _batches(ticks: list[Ms], payload_size: int) -> Iterator[list[Ms]]:
    """Ticks that are enqueued in one call."""
    most = max(1, min(BATCH, BATCH_BYTES // max(1, payload_size)))
    for start in range(0, len(ticks), most):
        yield ticks[start : start + most]
