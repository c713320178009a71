"""One process works on a lake at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.domain.errors import NotReady


@contextmanager
def locked(lake: Path) -> Iterator[None]:
    """One sync, vacuum or erasure at a time, on this machine; on others the logs refuse the second."""
    lake.mkdir(parents=True, exist_ok=True)
    lock = os.open(lake / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotReady(f"{lake} is being worked on by another process: wait for it, or stop it") from None
        yield
    finally:
        os.close(lock)
