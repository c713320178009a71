"""What `tenure doctor` looks at around an embedded store: SQLite, the folder, the file and what lies beside it."""

import fcntl
import os
import pwd
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from tenure.domain.errors import StoreError
from tenure.service.cli.checks import Check, ok, problem, warning
from tenure.stores.sql.sqlite.file import OLDEST_SQLITE, SCHEMA, StoreFile, filesystem_of
from tenure.stores.sql.sqlite.store import LARGE_WAL

MOUNTS = Path("/proc/self/mountinfo")

PASSING = frozenset(["tmpfs", "ramfs", "overlay", "overlayfs"])
"""Filesystems that end with the machine's run, or with the container."""
LITTLE_ROOM = 256 * 1024 * 1024
LOCK_SECONDS = 5.0
"""How long the lock may be held before it is a problem: a write takes milliseconds."""
BESIDE = ("-wal", "-shm", "-lock")


def file_checks(path: Path) -> Iterator[Check]:
    """In order; what makes no sense any more after a problem is left out."""
    yield sqlite_check()
    for checks in (folder_checks, existing_checks):
        found = list(checks(path))
        yield from found
        if any(check.level == "problem" for check in found):
            return
    yield beside_check(path)
    yield room_check(path)
    yield wal_check(path)
    yield lock_check(path)
    yield schema_check(path)


def sqlite_check(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> Check:
    shown = ".".join(map(str, version))
    if version < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        return problem("sqlite", f"SQLite {shown} is too old", f"use a Python that is built with {oldest} or newer")
    return ok("sqlite", f"SQLite {shown}")


# The folder


def folder_checks(path: Path) -> Iterator[Check]:
    folder = path.parent
    if not folder.is_dir():
        yield problem("folder", f"{folder} doesn't exist", f"create it: mkdir -p {folder}")
        return
    yield folder_check(folder)
    yield filesystem_check(path)


def folder_check(folder: Path) -> Check:
    """SQLite makes files beside the store's, so whoever uses the store must be able to write there."""
    found = folder.stat()
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return problem("folder", f"{_whose(folder)}: {_me()} may not write there", "let that user write there")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        return warning("folder", f"{_whose(folder)}: anyone may replace files there", f"chmod o-w {folder}")
    return ok("folder", _whose(folder))


def filesystem_check(path: Path) -> Check:
    kind = filesystem_of(str(path.parent.resolve()), _mounts())
    try:
        if not path.is_dir():
            StoreFile(path).check_place()
    except StoreError as error:
        return problem("filesystem", str(error), "move the file to a local disk")
    if kind in PASSING:
        return warning("filesystem", f"{kind}: it may be gone after a restart", "move the file to a disk that stays")
    return ok("filesystem", kind or "of a kind that this system doesn't tell")


def _mounts() -> str:
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""  # not Linux: nothing to tell by


# The file


def existing_checks(path: Path) -> Iterator[Check]:
    if not path.exists():
        yield problem("file", f"{path} doesn't exist", "check the URL, or create the store with: tenure migrate")
    elif not path.is_file():
        yield problem("file", f"{path} is no file", "give the path of a file")
    else:
        yield file_check(path)


def file_check(path: Path) -> Check:
    """Payloads are private, so the file is its owner's alone."""
    found = path.stat()
    if not os.access(path, os.R_OK | os.W_OK):
        return problem("file", f"{_whose(path)}: {_me()} may not read and write it", "run as its owner")
    if found.st_uid != os.geteuid():
        advice = "run as its owner: files that are made beside it would belong to someone else"
        return warning("file", f"{_whose(path)}, this is {_me()}", advice)
    if found.st_mode & 0o077:
        return warning("file", f"{_whose(path)}: others may read or write it", f"chmod 600 {path}")
    return ok("file", f"{_whose(path)}, {found.st_size:,} bytes")


def beside_check(path: Path) -> Check:
    """A log or lock of another owner comes from a command that once ran as someone else."""
    owner = path.stat().st_uid
    there = [other for end in BESIDE if (other := Path(f"{path}{end}")).exists()]
    for other in there:
        if not os.access(other, os.R_OK | os.W_OK):
            return problem("beside", f"{_whose(other)}: {_me()} may not use it", f"chown {_user(owner)} {other}")
        if other.stat().st_uid != owner:
            return warning("beside", f"{_whose(other)}, the store is {_user(owner)}'s", f"chown {_user(owner)} {other}")
    return ok("beside", ", ".join(other.name for other in there) or "nothing")


def room_check(path: Path) -> Check:
    free = shutil.disk_usage(path.parent).free
    if free < LITTLE_ROOM:
        return warning("room", f"{free >> 20} MiB left on the device", "make room: a full device refuses jobs")
    return ok("room", f"{free >> 20:,} MiB left on the device")


def wal_check(path: Path) -> Check:
    size = StoreFile(path).wal_size
    if size > LARGE_WAL:
        advice = "find the program that reads the file for long (fuser lists who has it open) and end its transaction"
        return warning("log", f"the write-ahead log has {size >> 20:,} MiB: a long reader keeps it", advice)
    return ok("log", f"the write-ahead log has {size:,} bytes")


def lock_check(path: Path) -> Check:
    """The lock's file stays for good and means nothing; a lock that isn't let go does."""
    try:
        lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return ok("lock", "nobody has written yet")
    try:
        if not _locked_soon(lock):
            advice = f"fuser {path}-lock names the process: end it, or wait"
            return problem("lock", f"another process holds the lock for more than {LOCK_SECONDS:g} s", advice)
    finally:
        os.close(lock)
    return ok("lock", "free; the lock file stays between uses")


def _locked_soon(lock: int) -> bool:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        time.sleep(0.02)


def schema_check(path: Path) -> Check:
    """Which schema the file has; nothing is changed."""
    if not path.stat().st_size:
        return problem("schema", "the file is empty", "run: tenure migrate")
    file = StoreFile(path)
    try:
        connection = file.connect()
        try:
            version = file.version(connection)
        finally:
            connection.close()
    except StoreError as error:
        return problem("schema", str(error), "give Tenure a file of its own, or the version that wrote this one")
    if version < SCHEMA:
        return problem("schema", f"schema {version}, this Tenure's is {SCHEMA}", "run: tenure migrate")
    return ok("schema", f"schema {version}")


# Words


def _whose(path: Path) -> str:
    found = path.stat()
    return f"{path} belongs to {_user(found.st_uid)} (mode {stat.S_IMODE(found.st_mode):o})"


def _me() -> str:
    return _user(os.geteuid())


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
