"""Enqueues that wait for a key: an open transaction holds it, and only those who want that key wait for its end.

A batch that meets such a key comes back whole (`KeyWaits`). Whose jobs have no key leave again at once; the others are
halved until those who want the key are alone. These are tried from time to time, one after the other, while everybody
else goes on.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, Protocol, TypeVar

from tenure.domain.errors import KeyWaits
from tenure.domain.job import Alike, NewJob

HELD_SECONDS = 60.0
"""How long one waits for a key before its caller is told."""
PAUSE_SECONDS = (0.01, 0.4)

Key = tuple[str, str, str, str]


class Keyed(Protocol):
    """Jobs of one caller that want keys."""

    keys: frozenset[Key]

    def fail(self, error: BaseException) -> None:
        """Tells the caller."""


S = TypeVar("S", bound=Keyed)


class HeldKeys(Generic[S]):
    """Those who wait for keys, of one event loop."""

    def __init__(self, send: Callable[[list[S]], Awaitable[None]]) -> None:
        self._send = send
        """Sends a batch and tells its callers; raises what it couldn't tell them."""
        self._waiting: list[tuple[float, S]] = []
        """Until when each waits; first come, first."""
        self._trying: asyncio.Task[None] | None = None
        self._parting: set[asyncio.Task[None]] = set()

    def want(self, keys: frozenset[Key]) -> bool:
        """Whether somebody waits for one of these keys and for nothing else."""
        return bool(keys) and any(len(other.keys) == 1 and other.keys <= keys for _, other in self._waiting)

    def wait(self, sending: S) -> None:
        """It goes as soon as its keys are free."""
        self._waiting.append((time.monotonic() + HELD_SECONDS, sending))
        if self._trying is None or self._trying.done():
            self._trying = asyncio.create_task(self._try(), name="tenure-held-keys", context=Context())

    def part(self, batch: list[S]) -> None:
        """Sends a batch that met a key which is held again, in parts, beside everything else."""
        task = asyncio.create_task(self._part(batch), name="tenure-held-batch", context=Context())
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    async def close(self) -> None:
        """Waits until nobody waits."""
        while self._parting or (self._trying is not None and not self._trying.done()):
            await asyncio.wait([*self._parting, *([self._trying] if self._trying is not None else [])])

    async def _part(self, batch: list[S]) -> None:
        keyed = [sending for sending in batch if sending.keys]
        if len(keyed) == 1:
            self.wait(keyed[0])
        middle = len(keyed) // 2
        halves = [keyed[:middle], keyed[middle:]] if middle else []
        for part in ([sending for sending in batch if not sending.keys], *halves):
            try:
                if part:
                    await self._send(part)
            except KeyWaits:
                await self._part(part)
            except BaseException as error:
                for sending in part:
                    sending.fail(error)
                if not isinstance(error, Exception):
                    raise

    async def _try(self) -> None:
        """Tries all of them until none is left. Of those who want one and the same key the first goes before."""
        pause, longest = PAUSE_SECONDS
        while self._waiting:
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, longest)
            held: set[Key] = set()
            for until, sending in list(self._waiting):
                if not (held & sending.keys and time.monotonic() < until):
                    await self._try_one(until, sending, held)

    async def _try_one(self, until: float, sending: S, held: set[Key]) -> None:
        """`held` gets the key that it waits for, if it wants no other."""
        try:
            await self._send([sending])
        except KeyWaits as error:
            if time.monotonic() < until:
                held.update(sending.keys if len(sending.keys) == 1 else ())
                return
            sending.fail(error)
        except BaseException as error:
            sending.fail(error)
            if not isinstance(error, Exception):
                raise
        self._waiting.remove((until, sending))


def keys_of(jobs: Sequence[NewJob]) -> frozenset[Key]:
    """What their enqueue may have to wait for."""
    of = [jobs.kind] if type(jobs) is Alike else jobs
    return frozenset([(job.tenant, job.queue, job.job_type, job.key) for job in of if job.key is not None])
