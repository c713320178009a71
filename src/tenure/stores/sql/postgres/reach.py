"""Saying once that hints of other processes are missing, and once that they come again."""

import logging
import threading

RECONNECT_SECONDS = 1.0

log = logging.getLogger("tenure.postgres")


class Reach:
    """Which of a process's listening connections are lost. They are usually lost together, and tried every second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost: set[int] = set()

    def lost(self, listener: object, error: Exception) -> None:
        with self._lock:
            first = not self._lost
            self._lost.add(id(listener))
        log.log(
            logging.INFO if first else logging.DEBUG,
            "hints of other processes are missing, their connection is tried every %g s: %s",
            RECONNECT_SECONDS,
            error,
        )

    def back(self, listener: object) -> None:
        if self._gone(listener):
            log.info("hints of other processes come again")

    def forget(self, listener: object) -> None:
        """It listens no more, and nothing is to be said of it."""
        self._gone(listener)

    def _gone(self, listener: object) -> bool:
        """Whether it was the last that was lost."""
        with self._lock:
            known = id(listener) in self._lost
            self._lost.discard(id(listener))
            return known and not self._lost
