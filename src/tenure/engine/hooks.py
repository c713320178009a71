"""Hooks: what the engine tells whoever asked, and what may stand around a handler."""

import inspect
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

import msgspec

from tenure.domain.calls import Outcome
from tenure.domain.errors import InvalidValue, Refused
from tenure.engine.context import Context

log = logging.getLogger("tenure.hooks")


class Hook(StrEnum):
    """What can be listened to with `@app.on(…)`."""

    WORKER_STARTED = "worker_started"
    WORKER_STOPPED = "worker_stopped"
    JOB_STARTED = "job_started"
    JOB_ENDED = "job_ended"
    """The handler ended; what came of it is `outcome`, not settled yet."""
    JOB_SETTLED = "job_settled"
    JOB_REFUSED = "job_refused"
    """The store refused the outcome: the lease was lost or the job cancelled. `refused` says which."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook is given. Which fields are set goes with the hook."""

    hook: Hook
    worker: str
    tenant: str | None = None
    job_id: str | None = None
    job_type: str | None = None
    queue: str | None = None
    attempt: int | None = None
    outcome: Outcome | None = None
    refused: Refused | None = None
    run_seconds: float | None = None


Listener = Callable[[Told], Awaitable[None] | None]
Next = Callable[[], Awaitable[Any]]
Middleware = Callable[[Context, Next], Awaitable[Any]]


class Hooks:
    """Listeners by hook. One that raises is logged and harms nobody else."""

    def __init__(self) -> None:
        self._listeners: dict[Hook, list[Listener]] = defaultdict(list)
        self.any = False
        """Whether anybody listens to anything: mostly nobody does."""

    def add(self, hook: str, listener: Listener) -> None:
        try:
            self._listeners[Hook(hook)].append(listener)
            self.any = True
        except ValueError:
            raise InvalidValue(f"hook {hook!r:.80}: give one of {', '.join(Hook)}") from None

    def heard(self, hook: Hook) -> bool:
        """Whether anybody listens to it. Ask for `any` first where it matters: that needs no hash of an enum."""
        return hook in self._listeners

    async def tell(self, told: Told) -> None:
        for listener in self._listeners.get(told.hook, ()):
            try:
                reply = listener(told)
                if inspect.isawaitable(reply):
                    await reply
            except Exception:
                log.exception("a listener of %s failed", told.hook)
