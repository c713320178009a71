"""Waking other processes on the same file: one datagram socket per process in `<file>-wake/`, a byte per commit.

Where sockets can't be had, and for whoever writes without telling, `PRAGMA data_version` is polled. Who waits for
cancels has a socket for them alone, which other commits pass by, and polls only without one.
"""

import os
import select
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tenure.domain.errors import StoreError
from tenure.stores.sql.sqlite.file import StoreFile
from tenure.stores.sql.sqlite.forks import Connection, Held, check_inherited

POLL_SECONDS = (0.05, 1.0)
"""How often the file is looked at while nothing happens: first, and at most."""


OF_CANCELS = "-cancels"
"""How the name of a socket ends that hears of cancels only."""


class Wake:
    """Tells other processes of commits, and tells `heard` of theirs: of all, or of cancels only."""

    def __init__(self, file: StoreFile, heard: Callable[[], None], own: str, *, of_cancels: bool = False) -> None:
        self._file = file
        self._heard = heard
        self._folder = Path(f"{file.path}-wake")
        self._own = own
        self._name = own + (OF_CANCELS if of_cancels else "")
        self._of_cancels = of_cancels
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._looking = Held(self._connect, sqlite3.Connection.close)
        self._version: int | None = None
        self._receiver: socket.socket | None = None
        self._stop, self._stopped = os.pipe2(os.O_CLOEXEC)

    def tell(self, cancels: bool = False) -> None:
        """A byte to every other process that listens for it; the ones that died are swept up."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            if not name.startswith(self._own) and (cancels or not name.endswith(OF_CANCELS)):
                self._send(name)

    def _send(self, name: str) -> None:
        with _address(self._folder, name) as address:
            try:
                self._sender.sendto(b"!", address)
            except ConnectionRefusedError:
                with suppress(OSError):
                    os.unlink(self._folder / name)
            except OSError:
                pass  # a full buffer is already a hint; anything else is what polling is for

    def listen(self) -> None:
        """Starts listening, once; idle stores never do."""
        with self._lock:
            if self._thread is None:
                self._receiver = self._bind()
                self._thread = threading.Thread(target=self._run, name="tenure-sqlite-wake", daemon=True)
                self._thread.start()

    def _bind(self) -> socket.socket | None:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with _address(self._folder, self._name) as address:
                receiver.bind(address)
        except OSError:
            receiver.close()
            return None
        return receiver

    def _run(self) -> None:
        watched: list[int | socket.socket] = [self._stop]
        if self._receiver is not None:
            watched.append(self._receiver)
        polls = not self._of_cancels or self._receiver is None
        shortest, longest = POLL_SECONDS
        wait = shortest
        while True:
            ready, _, _ = select.select(watched, [], [], wait if polls else None)
            if self._stop in ready:
                break
            changed = polls and self._changed()
            if self._receiver in ready:
                _drain(self._receiver)
            if ready or changed:
                self._heard()
            wait = shortest if changed else min(2 * wait, longest)
        self._looking.close()

    def _changed(self) -> bool:
        """Whether others may have committed since it was asked last."""
        try:
            with self._looking.used() as connection:
                seen = int(connection.execute("PRAGMA data_version").fetchone()[0])
        except (sqlite3.Error, StoreError):
            return False
        changed, self._version = seen != self._version, seen
        return changed

    def _connect(self) -> sqlite3.Connection:
        """Versions of another connection mean nothing to this one."""
        self._version = None
        check_inherited(self._file.path)
        return sqlite3.connect(
            f"{self._file.path.as_uri()}?mode=ro", uri=True, check_same_thread=False, factory=Connection
        )

    def close(self) -> None:
        """Stops listening and takes its socket away."""
        os.close(self._stopped)
        if self._thread is not None:
            self._thread.join()
        if self._receiver is not None:
            self._receiver.close()
            with suppress(OSError):
                os.unlink(self._folder / self._name)
        self._sender.close()
        os.close(self._stop)


class _address:
    """A socket's address by way of its open folder: a path of any length fits into a socket name then."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = name

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._folder}/{self._name}"

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)


def _drain(receiver: socket.socket | None) -> None:
    with suppress(BlockingIOError):
        while receiver is not None:
            receiver.recv(64)
