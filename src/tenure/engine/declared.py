"""Keeping the schedules that this code declares, as each worker does every two minutes. The rule: `periodic.py`."""

import hashlib
import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tenure.domain.calls import Document
from tenure.domain.errors import InvalidValue, Refused, VersionConflict
from tenure.domain.job import NewJob
from tenure.domain.names import Ms
from tenure.domain.store import Store
from tenure.engine.definition import Definition
from tenure.engine.periodic import DECLARATION, UNDECLARED, Declaration, Periodic, declaration_of
from tenure.engine.schedules import (
    Schedules,
    declared_schedule,
    named_document,
    readable,
    store_now,
    stored_schedule,
)

if TYPE_CHECKING:
    from tenure.engine.app import Tenure

log = logging.getLogger("tenure.schedule")


class Declared(NamedTuple):
    """A schedule as this code declares it."""

    times: Periodic
    job: NewJob
    digest: str


class Declarations:
    """What an app's jobs declare; schedules belong to the app's own tenant, and have the names of their jobs."""

    def __init__(self, app: "Tenure") -> None:
        self._app = app
        self._tenant = app.tenant_name
        self._schedules = Schedules(app)
        self._kept: set[str] = set()
        """Schedules that this worker has written down once: others look only whether they are the same."""
        self._told: dict[str, str] = {}

    async def look(self) -> None:
        """Says what is declared, and sees to it that schedules follow. Raises `StoreError`."""
        store = await self._app.opened()
        there = {one.name for one in await store.list_documents(self._tenant, DECLARATION)}
        mine = {
            name: declared
            for name, definition in self._app.definitions.items()
            if (declared := self._declared(definition)) is not None
        }
        try:
            for name in sorted(there | mine.keys()):
                await self._look_at(store, name, mine.get(name))
        except Refused as error:
            log.debug("schedules aren't declared now: %s", error)  # frozen

    def _declared(self, definition: Definition[..., object]) -> Declared | None:
        times = definition.periodic
        if times is None:
            return None
        try:
            job = self._schedules.job(definition.build())
        except InvalidValue as error:
            self._tell(definition.name, f"its job can't be made: {error}")
            return None
        return Declared(times, job, hashlib.sha256(msgspec.json.encode((times, job))).hexdigest()[:32])

    async def _look_at(self, store: Store, name: str, mine: Declared | None) -> None:
        now = await store_now(store)
        declaration = await self._said(store, name, now, None if mine is None else mine.digest)
        if mine is not None and declaration.holds(now) == mine.digest:
            await self._keep(store, name, mine, now)
        elif declaration.missing >= UNDECLARED:
            await self._drop(store, name)

    async def _said(self, store: Store, name: str, now: Ms, digest: str | None) -> Declaration:
        """Writes down that this worker declares it so, or doesn't; never over what another worker said meanwhile."""
        while True:
            document = await named_document(store, self._tenant, DECLARATION, name)
            old = Declaration() if document is None else declaration_of(document.body)
            if old.fresh(now, digest):
                return old
            new = old.looked(now, digest)
            changed = Document(tenant=self._tenant, kind=DECLARATION, name=name, body=msgspec.json.encode(new))
            reply = await store.put_document(changed, expect=0 if document is None else document.version)
            if isinstance(reply, VersionConflict):
                continue
            if isinstance(reply, Refused):
                raise reply
            return new

    async def _keep(self, store: Store, name: str, mine: Declared, now: Ms) -> None:
        try:
            if name in self._kept and await self._stands(store, name, mine, now):
                return
            old = await self._schedules.keep(name, mine.times, mine.job)
        except InvalidValue as error:
            self._tell(name, str(error))
            return
        self._kept.add(name)
        if old.undeclared:
            log.info("schedule %s of %s goes on: a worker declares it again", name, self._tenant)
        self._told.pop(name, None)

    async def _stands(self, store: Store, name: str, mine: Declared, now: Ms) -> bool:
        """Whether the schedule is as it is declared here."""
        old = readable(await stored_schedule(store, self._tenant, name))
        return old is not None and declared_schedule(mine.times, mine.job, old, now) == old

    async def _drop(self, store: Store, name: str) -> None:
        dropped = await self._schedules.drop(name)
        if dropped:
            hours = UNDECLARED / 3_600_000
            log.warning(
                "schedule %s of %s is paused: no worker has declared it for %g hours; it goes on when one does, "
                "and can be removed: tenure schedules remove %s",
                *(name, self._tenant, hours, name),
            )
        elif dropped is None:
            await store.put_document(Document(tenant=self._tenant, kind=DECLARATION, name=name, body=None))

    def _tell(self, name: str, message: str) -> None:
        if self._told.get(name) != message:
            self._told[name] = message
            log.warning("schedule %s of %s isn't declared: %s", name, self._tenant, message)
