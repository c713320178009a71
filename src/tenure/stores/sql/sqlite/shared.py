"""One view of the file for several processes: a copy in a folder of its own, with a process that keeps it.

    tenure-snapshot-…/
        jobs.db     the copy; never written, so readers need no lock of SQLite's
        keeper      locked by the keeping process while it lives; holds its id
        readers     locked, shared, by everyone who reads; its time is that of the last use

The keeper (keeper.py) deletes the folder once nobody has read for the agreed time, or the owner's process has ended. A
copy without its keeper counts as gone, and the next keeper sweeps it away.
"""

import fcntl
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tenure.domain.errors import InvalidValue, SnapshotExpired, StoreUnavailable
from tenure.domain.names import Ms
from tenure.domain.store import Clock
from tenure.stores.sql.keepers import start
from tenure.stores.sql.snapshot import SqlSnapshot
from tenure.stores.sql.sqlite.file import StoreFile, quoted, translated
from tenure.stores.sql.sqlite.snapshot import opened

PREFIX = "tenure-snapshot-"
COPY, KEEPER, READERS = "jobs.db", "keeper", "readers"
_KEEPER_MODULE = "tenure.stores.sql.sqlite.keeper"
_CACHE = "PRAGMA cache_size = -65536"


class Order(msgspec.Struct, frozen=True):
    """What a keeper is started with."""

    path: str
    at: Ms
    """The time of the view: what depends on time is the same for all its readers."""
    seconds: float
    owner: int


class Handle(msgspec.Struct, frozen=True, tag=True):
    """Where a copy lies, and of when it is."""

    folder: str
    host: str
    at: Ms
    seconds: float


def share(file: StoreFile, clock: Clock, seconds: float, owner: int) -> str:
    """Starts a keeper and waits for its copy. What keeps it from making one is raised here."""
    return start(_KEEPER_MODULE, Order(str(file.path), clock(), seconds, owner), Handle, str(file.path))


@contextmanager
def open_shared(text: str) -> Iterator[SqlSnapshot]:
    """The copy behind a handle. While it is open, it isn't deleted."""
    try:
        handle = msgspec.json.decode(text, type=Handle)
    except msgspec.MsgspecError as error:
        raise InvalidValue(f"handle {text!r:.80}: it isn't one of a shared snapshot ({error})") from None
    folder = Path(handle.folder)
    with _in_use(folder, handle):
        file = StoreFile(folder / COPY)
        with translated(file.path):
            connection = sqlite3.connect(
                f"file:{quoted(file.path)}?mode=ro&immutable=1", uri=True, isolation_level=None, cached_statements=256
            )
            connection.execute(_CACHE)
        with opened(file, lambda: handle.at, connection) as made:
            yield made


@contextmanager
def _in_use(folder: Path, handle: Handle) -> Iterator[None]:
    try:
        readers = os.open(folder / READERS, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _gone(handle) from None
    try:
        if not (_locked(readers, fcntl.LOCK_SH) and os.fstat(readers).st_nlink and kept(folder)):
            raise _gone(handle)
        yield
        os.utime(readers)
    finally:
        os.close(readers)


def _gone(handle: Handle) -> Exception:
    here = socket.gethostname()
    if handle.host != here:
        return StoreUnavailable(
            f"the copy of the store is on {handle.host}, not on {here}: "
            "a SQLite store is read on the machine where it is, so run tasks there"
        )
    return SnapshotExpired(
        f"the view of the store is gone: it was kept until nobody had read it for {handle.seconds:g} s. "
        "In Spark, load() again, with a larger option snapshotSeconds if tasks wait for longer"
    )


def kept(folder: Path) -> bool:
    """Whether a keeper watches over a copy."""
    try:
        keeper = os.open(folder / KEEPER, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(keeper, fcntl.LOCK_SH)
    finally:
        os.close(keeper)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_alone(descriptor: int) -> bool:
    """Whether nobody else has it locked, who then has to wait."""
    return _locked(descriptor, fcntl.LOCK_EX)
