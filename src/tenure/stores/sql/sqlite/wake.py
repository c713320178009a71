"""Waking other processes on the same file: one datagram socket per process in `<file>-wake/`, a byte per commit.

Where sockets can't be had, and for whoever writes without telling, `PRAGMA data_version` is polled.
"""

import os
import select
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tenure.stores.sql.sqlite.file import StoreFile

POLL_SECONDS = (0.05, 1.0)
"""How often the file is looked at while nothing happens: first, and at most."""


class Wake:
    """Tells other processes of commits, and tells `heard` of theirs."""

    def __init__(self, file: StoreFile, heard: Callable[[], None]) -> None:
        self._file = file
        self._heard = heard
        self._folder = Path(f"{file.path}-wake")
        self._name = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._receiver: socket.socket | None = None
        self._stop, self._stopped = os.pipe2(os.O_CLOEXEC)

    def tell(self) -> None:
        """A byte to every other process that listens; the ones that died are swept up."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            if name != self._name:
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
        shortest, longest = POLL_SECONDS
        wait, version = shortest, None
        connection = self._connect()
        while True:
            ready, _, _ = select.select(watched, [], [], wait)
            if self._stop in ready:
                break
            seen = _data_version(connection)
            changed = seen != version
            version = seen
            if self._receiver in ready:
                _drain(self._receiver)
            if ready or changed:
                self._heard()
            wait = shortest if changed else min(2 * wait, longest)
        if connection is not None:
            connection.close()

    def _connect(self) -> sqlite3.Connection | None:
        try:
            return sqlite3.connect(f"{self._file.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        except sqlite3.Error:
            return None

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


def _data_version(connection: sqlite3.Connection | None) -> int | None:
    if connection is None:
        return None
    try:
        return int(connection.execute("PRAGMA data_version").fetchone()[0])
    except sqlite3.Error:
        return None


def _drain(receiver: socket.socket | None) -> None:
    with suppress(BlockingIOError):
        while receiver is not None:
            receiver.recv(64)
