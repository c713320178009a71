"""Hints: waking those who wait, in this process. A hint says "look again"; the truth is in the store."""

import asyncio
import contextlib
import threading
from collections.abc import Collection, Iterable

from tenure.domain.job import Job, Ref
from tenure.domain.model import Unit
from tenure.domain.store import CANCELS, EVERYTHING, job_of, job_topic


class Changed:
    """What calls changed, for those who wait. Whose jobs are told is decided after the commit: a caller that began to
    wait before it may have read the job as it was.
    """

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self.topics = set(topics)
        """All but those of single jobs."""
        self.ended: list[Job] = []
        """Their references are read only where somebody waits: most ends are waited for by nobody."""

    def add(self, unit: Unit) -> None:
        self.topics |= unit.topics(jobs=False)
        self.ended += unit.ended_jobs

    def __bool__(self) -> bool:
        return bool(self.topics or self.ended)

    def clear(self) -> None:
        self.topics.clear()
        self.ended.clear()


class Hints:
    """Waiters by topic. Any thread may tell; each waiter is woken on its own loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    async def wait(self, topics: Collection[str], timeout_seconds: float) -> bool:
        """Whether one of the topics was told about before the time was up."""
        hint: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            for topic in topics:
                self._waiting.setdefault(topic, set()).add(hint)
        try:
            async with asyncio.timeout(timeout_seconds):  # `wait_for` loses a cancel that comes with a hint (3.11)
                await hint
        except TimeoutError:
            return False
        finally:
            self._forget(topics, hint)
        return True

    @property
    def jobs_awaited(self) -> bool:
        """Whether the end of a single job is waited for."""
        with self._lock:
            return any(job_of(topic) is not None for topic in self._waiting)

    def awaited_jobs(self) -> list[Ref]:
        """The jobs whose end is waited for."""
        with self._lock:
            return [ref for topic in self._waiting if (ref := job_of(topic)) is not None]

    def _forget(self, topics: Collection[str], hint: asyncio.Future[None]) -> None:
        with self._lock:
            for topic in topics:
                waiting = self._waiting.get(topic, set())
                waiting.discard(hint)
                if not waiting:
                    self._waiting.pop(topic, None)

    def tell_changed(self, changed: Changed) -> None:
        """The same of what a call changed, which is committed."""
        ended = changed.ended if changed.ended and self.jobs_awaited else ()
        self.tell([*changed.topics, *(job_topic(job.ref) for job in ended)])

    def tell(self, topics: Iterable[str]) -> None:
        """Wakes whoever waits for one of the topics."""
        with self._lock:
            told = set(topics)
            if EVERYTHING in told:
                told = (set(self._waiting) - {CANCELS}) | (told & {CANCELS})
            hints = [hint for topic in told for hint in self._waiting.get(topic, ())]
        here = _running_loop() if hints else None
        for hint in hints:
            if hint.get_loop() is here:
                _wake(hint)  # the way around takes another turn of the loop
                continue
            # A loop that was closed has nobody left to wake.
            with contextlib.suppress(RuntimeError):
                hint.get_loop().call_soon_threadsafe(_wake, hint)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _wake(hint: asyncio.Future[None]) -> None:
    if not hint.done():
        hint.set_result(None)
