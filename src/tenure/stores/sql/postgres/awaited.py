"""Which jobs other processes wait for: a process that waits announces them by name, and is told of their end by name.

Announcements make it fast, and no more: one may come late, or not at all. What is exact is the feed: every change is
told there within a tenth of a second, and a process that waits looks then which of its jobs have ended (`watch.py`).
That finds the job that ended before its announcement was heard, in a process that listens to nothing, or in one that
was started later.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from tenure.domain.job import Job, Ref
from tenure.domain.store import job_topic

T = TypeVar("T")

AWAITED = "awaited/"
"""How a topic begins that announces that a process waits for the rest of it."""
ANNOUNCE_SECONDS = 0.005
"""How long one waits before it is announced: most waits begin with a job that has ended, or ends at once."""
AGAIN_SECONDS = 20.0
"""After how long, up to twice that, a wait that goes on is announced again: workers start, connections break."""
KNOWN_SECONDS = 60.0
"""How long, up to twice that, an announcement holds."""
LATELY_SECONDS = 0.25
"""How long, up to twice that, a process remembers which jobs it ended: longer than the feed takes to say so."""
MOST = 10_000


class Recent(Generic[T]):
    """What was added in the last so many seconds, or up to twice as many; of more than `MOST`, the newer ones."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._newer: set[T] = set()
        self._older: set[T] = set()
        self._turned = time.monotonic()

    def add(self, items: Iterable[T]) -> None:
        self._turn()
        self._newer.update(items)

    def among(self, items: Iterable[T]) -> set[T]:
        """Those that were added."""
        self._turn()
        if not self._newer and not self._older:
            return set()
        return {item for item in items if item in self._newer or item in self._older}

    def _turn(self) -> None:
        now = time.monotonic()
        if now >= self._turned + self._seconds or len(self._newer) > MOST:
            stale = now >= self._turned + 2 * self._seconds
            self._older, self._newer = set() if stale else self._newer, set()
            self._turned = now


class Lately:
    """The jobs that ended here in the last while. Adding is for every job, and asking for few: references are read, and
    put into sets, when somebody asks.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._added: deque[tuple[float, list[Job]]] = deque()
        self._refs = Recent[Ref](seconds)
        self._count = 0

    def add(self, jobs: list[Job]) -> None:
        self._added.append((time.monotonic(), jobs))
        self._count += len(jobs)
        self._drop(2 * MOST)

    def among(self, refs: Iterable[Ref]) -> set[Ref]:
        """Those that ended here."""
        self._drop(2 * MOST)
        for _, jobs in self._added:
            self._refs.add([job.ref for job in jobs])
        self._drop(0)
        return self._refs.among(refs)

    def _drop(self, most: int) -> None:
        """Leaves so many at most, and none that is too old."""
        oldest = time.monotonic() - 2 * self._seconds
        while self._added and (self._count > most or self._added[0][0] < oldest):
            self._count -= len(self._added.popleft()[1])


class Awaited:
    """What one process knows of the jobs that others wait for, and what it has announced itself. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._elsewhere = Recent[Ref](KNOWN_SECONDS)
        self._announced = Recent[Ref](AGAIN_SECONDS)
        self._lately = Lately(LATELY_SECONDS)
        """Jobs that ended here, told by the feed only: nobody was known to wait for them."""

    def announce(self, refs: Iterable[Ref]) -> set[str]:
        """Topics that say that this process waits for these jobs; none for those that it said it of already."""
        refs = set(refs)
        with self._lock:
            new = refs - self._announced.among(refs)
            self._announced.add(new)
        return {AWAITED + job_topic(ref) for ref in new}

    def heard(self, refs: Iterable[Ref]) -> set[str]:
        """Another process waits for these: the topics of those that ended here just before."""
        refs = set(refs)
        with self._lock:
            self._elsewhere.add(refs)
            return set(map(job_topic, self._lately.among(refs)))

    def ended(self, jobs: list[Job]) -> set[str]:
        """The topics of those of these jobs that are waited for elsewhere."""
        with self._lock:
            known = self._elsewhere.among(job.ref for job in jobs)
            self._lately.add(jobs)
        return set(map(job_topic, known))
