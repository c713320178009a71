"""The process that keeps a copy of a store: `python -m tenure.stores.sql.sqlite.keeper ORDER`.

It ends, and the copy with it, when nobody has read for the agreed time, when its owner's process has ended, or when it
is told to (SIGTERM).
"""

import os
import shutil
import socket
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from tenure.domain.errors import StoreFull, TenureError
from tenure.stores.sql.keepers import Refusal, detach, ended_within, say
from tenure.stores.sql.sqlite.file import StoreFile, translated
from tenure.stores.sql.sqlite.shared import COPY, KEEPER, PREFIX, READERS, Handle, Order, kept, lock_alone

AGAIN_SECONDS = 1.0
"""How long to wait for readers that go on past the time."""
YOUNG_SECONDS = 60.0
"""A folder this new may have a keeper that hasn't locked it yet."""


def main(text: str) -> None:
    """Makes the copy, says where it is, and stays."""
    detach()
    order = msgspec.json.decode(text, type=Order)
    sweep(Path(tempfile.gettempdir()))
    try:
        file = StoreFile(order.path)
        with folder_for(file) as folder, locked_folder(folder) as readers:
            copy(file, folder / COPY)
            say(Handle(str(folder), socket.gethostname(), order.at, order.seconds))
            keep(readers, order)
    except TenureError as error:
        say(Refusal(type(error).__name__, str(error)))


@contextmanager
def folder_for(file: StoreFile) -> Iterator[Path]:
    """A folder with room for a copy, gone afterwards."""
    with translated(file.path), closing(file.connect()) as connection:
        needed = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
    place = tempfile.gettempdir()
    check_room(file, needed[0], place, shutil.disk_usage(place).free)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def check_room(file: StoreFile, needed: int, place: str, free: int) -> None:
    if needed > free:
        raise StoreFull(
            f"a copy of {file.path} takes {needed / 2**20:,.1f} MiB and {place} has {free / 2**20:,.1f} MiB left: "
            "let TMPDIR name a larger disk, or read in one partition, or with consistent=false"
        )


@contextmanager
def locked_folder(folder: Path) -> Iterator[int]:
    """Marks the folder as kept by this process; gives what readers lock."""
    keeper = os.open(folder / KEEPER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    readers = os.open(folder / READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not lock_alone(keeper):
        raise AssertionError(f"{folder} has another keeper")
    os.write(keeper, str(os.getpid()).encode())
    yield readers  # both locks end with the process, after the folder is gone


def copy(file: StoreFile, to: Path) -> None:
    """The file as one reading transaction sees it, log and all; writers aren't held up."""
    with translated(to), closing(sqlite3.connect(to, isolation_level=None)) as target:
        target.execute("PRAGMA journal_mode = OFF")  # a copy that is cut short goes with its folder
        target.execute("PRAGMA synchronous = OFF")
        with closing(file.connect()) as source:
            source.backup(target, pages=-1)


def keep(readers: int, order: Order) -> None:
    """Returns when the copy is to go. Readers that come after that find it locked, then gone."""
    wait = order.seconds
    while not ended_within(order.owner, wait):
        wait = os.fstat(readers).st_mtime + order.seconds - time.time()
        if wait <= 0:
            if lock_alone(readers):
                return
            wait = AGAIN_SECONDS


def sweep(place: Path) -> None:
    """Deletes what keepers left that were killed."""
    for folder in place.glob(f"{PREFIX}*"):
        try:
            if time.time() - folder.stat().st_mtime > YOUNG_SECONDS and not kept(folder):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # gone meanwhile, or someone else's
            continue


if __name__ == "__main__":
    main(sys.argv[1])
