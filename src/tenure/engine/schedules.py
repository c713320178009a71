"""Schedules: jobs that come again and again, made at run time or declared by code (`periodic.py`).

A schedule is a document of its tenant. Nobody leads: every worker's scheduler fires what is due, and a tick fires once
because everyone gives its job the same id and the same retained key. `done_until` says how far a schedule has come, and
nothing up to it fires any more, also when the record of a tick is long purged.
"""

import hashlib
import logging
import os
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

import msgspec
from msgspec.structs import replace

from tenure.domain import names
from tenure.domain.calls import Document, Stored
from tenure.domain.errors import InvalidValue, Refused, VersionConflict
from tenure.domain.job import NewJob
from tenure.domain.names import MAX_DURATION, MINUTE, SECOND, SYSTEM, Ms
from tenure.domain.states import Unique
from tenure.domain.store import Store
from tenure.engine.cron import cron, zone
from tenure.engine.definition import Call, checked
from tenure.engine.durations import Seconds, milliseconds
from tenure.engine.handle import time_of
from tenure.engine.periodic import DECLARATION, Periodic, declaration_of
from tenure.engine.transactions import refuse_connection

if TYPE_CHECKING:
    from tenure.engine.surface import Surface

SCHEDULE = "schedule"
"""Document kind of a schedule; its name is the schedule's."""
SCHEDULED = "scheduled"
"""Document kind, in the store's own tenant, that names a tenant with schedules; each change gives it a new version."""

MOST_MISSED = 1_000
"""Missed ticks that `catch_up="all"` fires at most, the newest."""
LATE: Ms = MINUTE
"""A tick that is later than this was missed."""

REMOVED = b"null"
"""What stands for a removed schedule, so that its versions go on and a slow scheduler can't write it back."""
REMOVED_TTL: Ms = names.DAY
NO_ID = str(uuid.UUID(int=0))
"""The id of a stored job: each tick has its own."""

When = str | Seconds
"""A cron expression, or an interval."""
CatchUp = Literal["latest", "all", "none"]
"""What becomes of ticks that nobody fired in time: the last one fires once, each one fires, or none does."""

log = logging.getLogger("tenure.schedule")


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stood when it was read."""

    name: str
    tenant: str
    when: str | timedelta
    tz: str
    catch_up: CatchUp
    job_type: str
    queue: str
    next_at: datetime | None
    """The next tick to fire; in the past when no worker has fired it yet. None while paused."""
    last_at: datetime | None
    """The last tick that fired."""
    paused: bool
    declared: bool
    """Whether code declares it (`@app.job(cron=…)`), and no `app.schedule` made it."""
    undeclared: bool
    """Paused because no worker has declared it for 24 hours; it goes on when one does."""


class Times(Protocol):
    """When a schedule fires."""

    def following(self, instant: Ms) -> Ms | None:
        """The first tick after an instant."""

    def newest(self, after: Ms, until: Ms, most: int) -> list[Ms]:
        """The last ticks, `most` at most, after `after` and up to `until`; oldest first."""


class Every(NamedTuple):
    """A tick every so often, counted from when the schedule was declared."""

    anchor: Ms
    interval: Ms

    def following(self, instant: Ms) -> Ms:
        return self.anchor + self._number(instant) * self.interval

    def newest(self, after: Ms, until: Ms, most: int) -> list[Ms]:
        end = self._number(until)
        return [self.anchor + number * self.interval for number in range(max(self._number(after), end - most), end)]

    def _number(self, instant: Ms) -> int:
        """Of the first tick after it."""
        return max(1, (instant - self.anchor) // self.interval + 1)


class Due(NamedTuple):
    """What a schedule owes: the ticks to fire, oldest first, and how far it has come with them."""

    ticks: list[Ms]
    until: Ms


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored. Times in milliseconds."""

    job: NewJob
    """What each tick enqueues, under its own id and key."""
    cron: str | None = None
    every_ms: Ms | None = None
    tz: str = "UTC"
    catch_up: CatchUp = "latest"
    created_at: Ms
    anchor: Ms
    """Intervals are counted from here."""
    done_until: Ms
    """Ticks up to here fired, or never will."""
    last_fired: Ms | None = None
    paused: bool = False
    """By a person."""
    declared: bool = False
    undeclared: bool = False
    """No worker has declared it for a day."""

    def times(self) -> Times:
        """When it fires. Raises `InvalidValue`."""
        if (self.cron is None) == (self.every_ms is None):
            raise InvalidValue("a schedule has a cron expression or an interval, one of them")
        if self.cron is not None:
            return cron(names.text("cron", self.cron), names.text("tz", self.tz))
        zone(self.tz)
        return Every(self.anchor, names.duration("every_ms", self.every_ms or 0, SECOND))

    def next_tick(self) -> Ms | None:
        """The first tick that is still to fire, due or not."""
        return None if self.held else self.times().following(self.done_until)

    def due(self, now: Ms) -> Due | None:
        """What is due by `now`; missed ticks as the schedule says."""
        if self.held:
            return None
        ticks = self.times().newest(self.done_until, now, MOST_MISSED if self.catch_up == "all" else 1)
        if not ticks:
            return None
        on_time = ticks if self.catch_up != "none" else [tick for tick in ticks if now - tick <= LATE]
        return Due(on_time, ticks[-1])

    @property
    def held(self) -> bool:
        """Whether it fires nothing."""
        return self.paused or self.undeclared

    def same_times(self, other: "StoredSchedule") -> bool:
        return (self.cron, self.every_ms, self.tz) == (other.cron, other.every_ms, other.tz)

    def goes_on_from(self, old: "StoredSchedule | None") -> "StoredSchedule":
        """The same, as far as the old one had come; with other times it starts anew, now. A pause holds;
        ticks of a time in which nobody declared it are gone.
        """
        if old is None:
            return self
        kept = replace(self, created_at=old.created_at, last_fired=old.last_fired, paused=old.paused)
        if not self.same_times(old):
            return kept
        return replace(kept, anchor=old.anchor, done_until=self.done_until if old.undeclared else old.done_until)


def tick_job(tenant: str, name: str, schedule: StoredSchedule, tick: Ms) -> NewJob:
    """The job of one tick: whoever makes it, it is the same."""
    return replace(
        schedule.job,
        tenant=tenant,
        id=tick_id(tenant, name, tick),
        key=f"schedule:{name}:{tick}",
        unique=Unique.RETAINED,
        unique_for=None,
    )


def tick_id(tenant: str, name: str, tick: Ms) -> str:
    """A UUID of version 7 whose random part is taken from the names. A key alone would let a tick fire twice when the
    schedule moves to another queue in between."""
    digest = int.from_bytes(hashlib.sha256(f"{tenant}/{name}/{tick}".encode()).digest()[:10], "big")
    count, rest = digest >> 68, digest & ((1 << 62) - 1)
    return str(uuid.UUID(int=tick << 80 | 7 << 76 | count << 64 | 2 << 62 | rest))


def schedule_of(document: Document) -> StoredSchedule | None:
    """A stored schedule, None for a removed one. Raises `InvalidValue` for a body that makes no sense."""
    try:
        found = msgspec.json.decode(document.body or REMOVED, type=StoredSchedule | None)
        if found is not None:
            found.times()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidValue) as error:
        raise InvalidValue(f"schedule {document.name}: {error}") from error
    return found


async def store_now(store: Store) -> Ms:
    """The store's time. Raises `StoreFrozen`."""
    reply = await store.sweep(MAX_DURATION)
    if isinstance(reply, Refused):
        raise reply
    return reply.now


async def stored_schedule(store: Store, tenant: str, name: str) -> Document | None:
    """A schedule's document as it stands."""
    return await named_document(store, tenant, SCHEDULE, name)


async def named_document(store: Store, tenant: str, kind: str, name: str) -> Document | None:
    documents = await store.list_documents(tenant, kind, prefix=name)
    return next((one for one in documents if one.name == name), None)


class Schedules:
    """The schedules of one tenant."""

    def __init__(self, home: "Surface") -> None:
        self._home = home
        self._tenant = home.tenant_name

    async def declare(self, name: str, when: When, call: Call[Any], tz: str, catch_up: CatchUp) -> Schedule:
        """Writes a schedule down; the same again changes nothing."""
        names.name("schedule", name)
        job = self.job(call)

        def declared(old: StoredSchedule | None, now: Ms) -> StoredSchedule:
            if old is not None and old.declared:
                raise InvalidValue(
                    f"schedule {name!r}: job {old.job.job_type} declares one of this name in code (cron= or every=); "
                    "give this one another name, or remove that one"
                )
            return _new(when, tz, catch_up, job, now).goes_on_from(old)

        return self._shown(name, await self._change(name, declared))

    async def keep(self, name: str, times: Periodic, job: NewJob) -> StoredSchedule:
        """Writes down what code declares; answers with what stood there before, or with what stands there now.

        Raises `InvalidValue` when `app.schedule` made one of this name.
        """
        before: list[StoredSchedule | None] = []

        def kept(old: StoredSchedule | None, now: Ms) -> StoredSchedule:
            before.append(old)
            return declared_schedule(times, job, old, now)

        made = await self._change(name, kept)
        return before[-1] or made

    async def drop(self, name: str) -> bool | None:
        """Pauses what no worker declares any more; whether it wasn't paused for that before, None if it is gone."""
        store = await self._home.store()
        while True:
            document = await stored_schedule(store, self._tenant, name)
            old = readable(document)
            if document is None or old is None or not old.declared:
                return None
            if old.undeclared:
                return False
            body = msgspec.json.encode(replace(old, undeclared=True))
            if await self._put(store, name, body, document.version):
                return True

    def job(self, call: Call[Any]) -> NewJob:
        """What each tick enqueues. Raises `InvalidValue` for options that no schedule can have."""
        tenant = checked(call).options.get("tenant", self._tenant)
        if tenant != self._tenant:
            raise InvalidValue(f"tenant {tenant!r:.80}: declare its schedules with app.tenant(…).schedule(…)")
        refuse_connection(call.options, "a schedule")
        if "run_at" in call.options:
            raise InvalidValue("run_at: the schedule says when its jobs run; leave it out, or give delay")
        if "id" in call.options:
            raise InvalidValue("id: each tick's job has an id of its own; leave it out")
        return replace(
            call.new_job(self._home.app, self._tenant, id=NO_ID), key=None, unique=Unique.ACTIVE, unique_for=None
        )

    async def all(self) -> list[Schedule]:
        """By name. One that can't be read is logged and left out."""
        found = []
        for document in await (await self._home.store()).list_documents(self._tenant, SCHEDULE):
            try:
                schedule = schedule_of(document)
            except InvalidValue as error:
                log.warning("%s; declare it again, or remove it", error)
                continue
            if schedule is not None:
                found.append(self._shown(document.name, schedule))
        return found

    async def remove(self, name: str) -> bool:
        """Whether there was one."""
        names.name("schedule", name)
        store = await self._home.store()
        while True:
            document = await stored_schedule(store, self._tenant, name)
            if document is None or document.body == REMOVED:
                return False
            old = readable(document)
            if old is not None and old.declared:
                await self._check_undeclared(store, name, old)
            if await self._put(store, name, REMOVED, document.version):
                return True

    async def _check_undeclared(self, store: Store, name: str, old: StoredSchedule) -> None:
        """Refuses to remove what workers would write down again at their next look."""
        now = await store_now(store)
        document = await named_document(store, self._tenant, DECLARATION, name)
        if document is not None and declaration_of(document.body).holds(now):
            raise InvalidValue(
                f"schedule {name!r}: workers declare it; take cron= or every= off job {old.job.job_type} and deploy "
                "that, or pause it (one that was taken off can be removed ten minutes after the last worker with it)"
            )

    async def pause(self, name: str) -> Schedule:
        return await self._set(name, lambda old, now: replace(old, paused=True))

    async def resume(self, name: str) -> Schedule:
        """Goes on from now: ticks of the pause are gone. One that isn't paused stays as it is."""

        def resumed(old: StoredSchedule, now: Ms) -> StoredSchedule:
            if old.undeclared:
                raise InvalidValue(
                    f"schedule {name!r}: no worker declares it any more; it goes on when one does, else remove it"
                )
            return replace(old, paused=False, done_until=now) if old.paused else old

        return await self._set(name, resumed)

    async def _set(self, name: str, change: Callable[[StoredSchedule, Ms], StoredSchedule]) -> Schedule:
        names.name("schedule", name)

        def changed(old: StoredSchedule | None, now: Ms) -> StoredSchedule:
            if old is None:
                raise InvalidValue(f"schedule {name!r}: tenant {self._tenant} has none of this name")
            return change(old, now)

        return self._shown(name, await self._change(name, changed))

    async def _change(self, name: str, change: Callable[[StoredSchedule | None, Ms], StoredSchedule]) -> StoredSchedule:
        """Never over someone else's change."""
        store = await self._home.store()
        while True:
            now = await store_now(store)
            document = await stored_schedule(store, self._tenant, name)
            schedule = change(readable(document), now)
            body = msgspec.json.encode(schedule)
            if len(body) > names.MAX_DOCUMENT:
                raise InvalidValue(f"schedule {name}: its arguments are too large to be kept; pass a reference to them")
            if await self._put(store, name, body, 0 if document is None else document.version):
                return schedule

    async def _put(self, store: Store, name: str, body: bytes, version: int) -> bool:
        """Whether it was written; schedulers are told after it was."""
        document = Document(tenant=self._tenant, kind=SCHEDULE, name=name, body=body)
        reply = await store.put_document(document, expect=version, ttl=REMOVED_TTL if body == REMOVED else None)
        if isinstance(reply, VersionConflict):
            return False
        _accepted(reply)
        mark = msgspec.json.encode({"changed": os.urandom(8).hex()})
        _accepted(await store.put_document(Document(tenant=SYSTEM, kind=SCHEDULED, name=self._tenant, body=mark)))
        return True

    def _shown(self, name: str, schedule: StoredSchedule) -> Schedule:
        next_tick, every = schedule.next_tick(), schedule.every_ms
        return Schedule(
            name=name,
            tenant=self._tenant,
            when=timedelta(milliseconds=every) if every is not None else schedule.cron or "",
            tz=schedule.tz,
            catch_up=schedule.catch_up,
            job_type=schedule.job.job_type,
            queue=schedule.job.queue,
            next_at=None if next_tick is None else time_of(next_tick),
            last_at=None if schedule.last_fired is None else time_of(schedule.last_fired),
            paused=schedule.held,
            declared=schedule.declared,
            undeclared=schedule.undeclared,
        )


def _new(when: When, tz: str, catch_up: CatchUp, job: NewJob, now: Ms) -> StoredSchedule:
    """A schedule that starts now. Raises `InvalidValue` that says what to give."""
    if catch_up not in get_args(CatchUp):
        raise InvalidValue(f"catch_up {catch_up!r:.80}: give one of {', '.join(get_args(CatchUp))}")
    every = None if isinstance(when, str) else milliseconds("when", when)
    if every is not None and every < SECOND:
        raise InvalidValue(f"when {when!r:.80}: give an interval of 1 second or more")
    schedule = StoredSchedule(
        job=job,
        cron=when if isinstance(when, str) else None,
        every_ms=every,
        tz=tz,
        catch_up=catch_up,
        created_at=now,
        anchor=now,
        done_until=now,
    )
    schedule.times()
    return schedule


def declared_schedule(times: Periodic, job: NewJob, old: StoredSchedule | None, now: Ms) -> StoredSchedule:
    """What code declares, in place of what stands there. Raises `InvalidValue` for one that was made at run time."""
    if old is not None and not old.declared:
        raise InvalidValue(
            f"app.schedule made a schedule of the name of job {job.job_type} at run time, which goes on instead of the "
            f"one that the code declares; remove it: tenure schedules remove {job.job_type}"
        )
    when = times.cron if times.cron is not None else timedelta(milliseconds=times.every_ms or 0)
    return replace(_new(when, times.tz, "latest", job, now), declared=True).goes_on_from(old)


def readable(document: Document | None) -> StoredSchedule | None:
    """What a document says; one that can't be read counts as none and is written over."""
    try:
        return None if document is None else schedule_of(document)
    except InvalidValue:
        return None


def _accepted(reply: Stored | Refused) -> None:
    if isinstance(reply, Refused):
        raise reply
