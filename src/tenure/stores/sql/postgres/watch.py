"""Looking which of the jobs awaited in this process have ended, when another process says that something happened."""

import logging
import threading
from collections.abc import Callable, Sequence

from tenure.domain.job import Ref
from tenure.domain.names import MAX_BATCH
from tenure.domain.store import job_topic
from tenure.stores.hints import Hints
from tenure.stores.sql.postgres.reach import RECONNECT_SECONDS

PAUSE_SECONDS = 0.05
"""Between two looks: the feed tells more often, of many processes."""

log = logging.getLogger("tenure.postgres")


class Watch:
    """One thread, which starts when it is first needed. A waiter that subscribes and then reads its job is told of
    every later end: whatever is told after that read is followed by a look.
    """

    def __init__(self, hints: Hints, still_open: Callable[[Sequence[Ref]], set[Ref]]) -> None:
        self._hints = hints
        self._still_open = still_open
        """Of these jobs those that haven't ended."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._roused = threading.Event()
        self._closed = threading.Event()

    def rouse(self) -> None:
        """Something happened in another process."""
        if not self._hints.jobs_awaited:
            return
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="tenure-postgres-watch", daemon=True)
                self._thread.start()
        self._roused.set()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
        self._roused.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._closed.wait(pause):
            self._roused.wait()
            self._roused.clear()
            pause = PAUSE_SECONDS
            if not self._closed.is_set():
                try:
                    self._look()
                except Exception as error:  # callers look by themselves meanwhile; a thread that ends would be missed
                    log.debug("jobs that are waited for couldn't be looked at: %s", error)
                    self._roused.set()
                    pause = RECONNECT_SECONDS

    def _look(self) -> None:
        refs = self._hints.awaited_jobs()
        for start in range(0, len(refs), MAX_BATCH):
            asked = refs[start : start + MAX_BATCH]
            still_open = self._still_open(asked)
            self._hints.tell(job_topic(ref) for ref in asked if ref not in still_open)
