"""What a fork must not carry over: the store's lock, and connections.

SQLite's locks are the process's, and it notes them in memory: a child that was forked while a connection was open
believes in locks that only its parent has. When the parent closed its last connection, the log was deleted under the
child, and what the child committed after that was gone (SQLite 3.40). A child that was forked inside a transaction
waits for it for ever. So connections that wait for the next call are closed before a fork, and opened again after it. A
child that has one of its parent's all the same, in a transaction or the program's own, is refused. And none of the
parent's is closed in a child, not even at its end.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

import msgspec

from tenure.domain.errors import StoreUnavailable

T = TypeVar("T")

File = tuple[int, int]
"""A file by device and inode."""

_forking = threading.RLock()
"""Held by a fork; before the locks of connections, never after one."""
_locks: set[int] = set()
"""Descriptors of the store's lock that are open: a lock by `flock` is let go when the last copy of one is closed."""
_held: "WeakSet[Held[Any]]" = WeakSet()
_told: "WeakSet[Forked]" = WeakSet()
_stopped: "list[Held[Any]]" = []
"""Those that a fork keeps from being used."""
_open: "WeakSet[Connection]" = WeakSet()
_forked = False
_inherited: dict[File, list[str]] = {}
"""The descriptors that this child has of its parent's, by file."""
_checked: set[File] = set()
"""Files that this child has opened itself."""


class Forked(Protocol):
    """What has to begin anew in a child."""

    def forked(self) -> None:
        """The child is this process now: threads are gone, and locks that they had are never let go."""


def tell_children(one: Forked) -> None:
    """Lets it know when it is in a child."""
    with _forking:
        _told.add(one)


class Connection(sqlite3.Connection):
    """One of Tenure's own."""

    opened_on: File | None = None
    """The file that had the store's name when this was opened."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _open.add(self)


class Held(Generic[T]):
    """What is kept open between calls, but not over a fork, which waits until it isn't used."""

    def __init__(self, opened: Callable[[], T], closed: Callable[[T], None]) -> None:
        self.lock = threading.RLock()
        self._opened = opened
        self._closed = closed
        self._value: T | None = None
        with _forking:
            _held.add(self)

    @contextmanager
    def used(self) -> Iterator[T]:
        """Opens it if need be. Not for waiting: a fork in another thread waits too."""
        with _forking:
            pass  # one that is waiting goes first
        with self.lock:
            if self._value is None:
                self._value = self._opened()
            yield self._value

    def close(self) -> None:
        with self.lock:
            value, self._value = self._value, None
            if value is not None:
                self._closed(value)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """The file's lock, taken by one at a time. A child that is forked meanwhile doesn't have it."""
    owner = os.getpid()
    with _forking:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _locks.add(lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        if os.getpid() == owner:  # a child that comes back here must not let go of its parent's
            with _forking:
                fcntl.flock(lock, fcntl.LOCK_UN)  # also where another than Python forked
                _locks.discard(lock)
                os.close(lock)


def check_inherited(path: Path) -> None:
    """Raises `StoreUnavailable` in a forked child that has a connection of its parent's to this file.

    By what Linux says: a descriptor that was there at the fork leads to the file still, and this process, which would
    have a lock on it if it had opened it again, has none.
    """
    if not _forked:
        return
    with suppress(OSError):
        file = identity(path)
        if file not in _checked and (of_parent := _still_open(file)) and not any(map(_locks_something, of_parent)):
            raise StoreUnavailable(
                f"{path}: a connection to it was open when this process was forked, and SQLite can't be used in such a "
                "child: fork outside of transactions and with connections to it closed, or start processes by "
                "multiprocessing's 'spawn' or 'forkserver'"
            )
        _checked.add(file)


def identity(path: Path) -> File:
    """The file that has this name now."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def descriptors() -> Iterator[tuple[str, File]]:
    """What this process has open."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one by which the folder is read
            one = os.stat(f"/proc/self/fd/{name}")
            yield name, (one.st_dev, one.st_ino)


def _still_open(file: File) -> list[str]:
    inherited = _inherited.get(file, ())
    return [name for name, opened in descriptors() if name in inherited and opened == file] if inherited else []


def _locks_something(descriptor: str) -> bool:
    return "\nlock:" in Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")


class _Kept(msgspec.Struct, gc=False):
    things: list[Any]


def _keep_for_ever(things: list[Any]) -> None:
    """A ring that the collector doesn't see isn't freed at the interpreter's end either."""
    kept = _Kept(things)
    things.append(kept)


def _before() -> None:
    _forking.acquire()
    for held in list(_held):
        held.lock.acquire()
        _stopped.append(held)
        with suppress(sqlite3.Error):
            held.close()


def _after() -> None:
    while _stopped:
        _stopped.pop().lock.release()
    _forking.release()


def _in_child() -> None:
    global _forked
    _forked = True
    for lock in _locks:
        os.close(lock)
    _locks.clear()
    _checked.clear()
    _inherited.clear()
    with suppress(OSError):  # not Linux: nothing to tell by
        for name, file in descriptors():
            _inherited.setdefault(file, []).append(name)
    _keep_for_ever(list(_open))
    _open.clear()
    for one in list(_told):
        one.forked()
    _after()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
