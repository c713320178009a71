"""Opening the file: who made it, which schema it has, whether it may stand where it stands."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path
from tempfile import TemporaryFile

from tenure.domain.errors import (
    SchemaTooNew,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unsupported,
)
from tenure.stores.sql.sqlite.forks import Connection, File, check_inherited, descriptors, identity, locked

SCHEMA = 3
APPLICATION_ID = 0x54_4E_55_52
"""`TNUR`, in the file's header: how a Tenure store is told from any other SQLite file."""
OLDEST_SQLITE = (3, 38, 0)

BUSY_MS = 10_000
"""How long to wait for a program that doesn't take our lock, such as the sqlite3 shell."""

GONE = "it was deleted or moved while it was in use: nothing of this call was kept"

_NETWORK = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "smb3",
        "smbfs",
    ]
)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PERHAPS_FULL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""What SQLite says where it lacks room for anything but a page: of a quota, of a limit, of its index of the log."""
ROOM = 65_536
"""Bytes: the index of a small log, and some pages."""
PAGE = 4_096
"""SQLite makes its index of the log longer by a byte in each page of so many. Where blocks are smaller, as on a small
ext4, that leaves holes, and a hole that is written through its mapping on a full device ends the process (SIGBUS)."""
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class StoreFile:
    """One store's file and what lies beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    @property
    def place(self) -> str:
        """The file itself, whatever links led to it."""
        return os.path.realpath(self.path)

    def check_place(self) -> None:
        """Refuses a place that can't hold a store safely, with what to do about it."""
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            wanted = ".".join(map(str, OLDEST_SQLITE))
            raise Unsupported(f"SQLite {sqlite3.sqlite_version} is too old: Tenure needs {wanted} or newer")
        folder = self.path.parent
        if not folder.is_dir():
            raise StoreUnavailable(f"{self.path}: its folder doesn't exist; create {folder}")
        if self.path.is_dir():
            raise StoreUnavailable(f"{self.path} is a folder: give the path of a file")
        kind = filesystem_of(str(folder.resolve()), _mounts())
        if kind in _NETWORK:
            raise StoreUnavailable(
                f"{self.path} is on a network filesystem ({kind}), where SQLite's locks don't hold: "
                "use a local disk, or a server store"
            )

    def create(self) -> None:
        """Makes the file if absent, readable by its owner only."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise os_error(self.path, str(self.path), error) from error

    def connect(self) -> sqlite3.Connection:
        """A connection set up for durable, explicit transactions. The file must exist."""
        check_inherited(self.path)
        named, small = self._named(), os.statvfs(self.path).f_bsize < PAGE
        if small and no_room(self.path):
            raise _full(self.path)
        with translated(self.path):
            connection = sqlite3.connect(
                f"file:{quoted(self.path)}?mode=rw",
                uri=True,
                timeout=BUSY_MS / 1_000,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
                factory=Connection,
            )
            connection.opened_on = named
            try:
                self._set_up(connection)
                if small:
                    self._fill_index()
            except BaseException:
                connection.close()
                raise
            return connection

    def _named(self) -> File:
        try:
            return identity(self.path)
        except OSError as error:
            raise StoreUnavailable(f"{self.path}: {error.strerror}; {GONE}") from error

    def check_still_there(self, connection: sqlite3.Connection) -> None:
        """Raises `StoreUnavailable` where the file that a connection is open on has lost its name.

        SQLite goes on with such a file, and what is committed to it is gone with its last connection.
        """
        if isinstance(connection, Connection) and self._named() != connection.opened_on:
            raise StoreUnavailable(f"{self.path}: another file has taken its place; {GONE}")

    def _set_up(self, connection: sqlite3.Connection) -> None:
        self.version(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute("PRAGMA journal_size_limit = 67108864")

    def _fill_index(self) -> None:
        """Leaves the index of the log no holes. By SQLite's own descriptor: to close another would end its locks."""
        path = Path(f"{self.path}-shm")
        try:
            if not path.exists():
                return  # of a file that is empty yet
            index = identity(path)
            for name in [name for name, file in descriptors() if file == index]:
                os.posix_fallocate(int(name), 0, ROOM)
        except OSError as error:
            raise os_error(self.path, str(path), error) from error

    def version(self, connection: sqlite3.Connection) -> int:
        """The file's schema: 0 when it is new. Raises for a file that isn't ours, or is newer than this code."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if application != APPLICATION_ID:
            if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                raise StoreCorrupt(f"{self.path} is a SQLite file of another program: give Tenure a file of its own")
            return 0
        if version > SCHEMA:
            raise SchemaTooNew(
                f"{self.path} has schema {version}, this Tenure knows up to {SCHEMA}: upgrade tenure before using it"
            )
        return version

    def migrate(self, connection: sqlite3.Connection) -> int:
        """Brings the file to this code's schema, all or nothing."""
        with translated(self.path), self.locked():
            connection.execute("BEGIN IMMEDIATE")
            try:
                for number in range(self.version(connection) + 1, SCHEMA + 1):
                    for statement in _migration(number):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {number}")
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return SCHEMA

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writing process at a time, first come first served.

        SQLite's own waiting polls: with 4 processes its p99 was 18 ms (max 330), behind this lock 4.6 ms (max 23).
        """
        check_inherited(self.path)  # who will be refused need not wait for it
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(f"{self.path}-lock"))
            except OSError as error:
                raise os_error(self.path, f"{self.path}-lock", error) from error
            yield

    @property
    def wal_size(self) -> int:
        """Bytes in the write-ahead log."""
        try:
            return os.stat(f"{self.path}-wal").st_size
        except FileNotFoundError:
            return 0


def _migration(number: int) -> list[str]:
    text = (resources.files(__package__ or "") / "migrations" / f"{number:04d}.sql").read_text(encoding="utf-8")
    lines = (line.split("--", 1)[0] for line in text.splitlines())
    statements: list[str] = []
    begun = ""
    for part in "\n".join(lines).split(";")[:-1]:
        begun += f"{part};"
        if sqlite3.complete_statement(begun):  # a trigger's own statements end so, too
            statements.append(begun.strip())
            begun = ""
    return statements


def quoted(path: Path) -> str:
    """A path as SQLite's URIs want it."""
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _mounts() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""  # not Linux: nothing to tell by


def filesystem_of(path: str, mountinfo: str) -> str | None:
    """The type of the filesystem that holds `path`, by the text of Linux's mountinfo; None when it doesn't say."""
    best, kind = "", None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = fields[4].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split(" ", 1)[0]
    return kind


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as Tenure's."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(path, error) from error


def os_error(path: Path, what: str, error: OSError) -> StoreError:
    """The same for a file beside it."""
    if error.errno in _NO_ROOM:
        return _full(path)
    return StoreUnavailable(f"{what}: {error.strerror}; check who owns the file and its folder")


def _full(path: Path) -> StoreFull:
    return StoreFull(f"{path}: no room left on the device; nothing of this call was kept")


def no_room(path: Path) -> bool:
    """Whether nothing as large as the log is now can grow here: by the device, a quota or a limit of this process."""
    sizes = [os.stat(one).st_size for one in (path, f"{path}-wal") if os.path.exists(one)]
    try:
        with TemporaryFile(dir=path.parent, buffering=0) as probe:
            os.posix_fallocate(probe.fileno(), max(sizes, default=0), ROOM)
    except OSError as error:
        return error.errno in _NO_ROOM
    return False


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else's transaction is in the way."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def store_error(path: Path, error: sqlite3.Error) -> StoreError:
    """What an SQLite error means for a caller, and what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code in _PERHAPS_FULL and no_room(path)):
        return _full(path)
    if code in _CORRUPT:
        return StoreCorrupt(f"{path} is not a SQLite file or is damaged ({error}): restore it from a backup")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreUnavailable(f"{path} can't be opened for writing ({error}): check who owns the file and its folder")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(f"{path} is held by another program's transaction ({error}): end that first")
    if code == sqlite3.SQLITE_ERROR and "no such table" in str(error):
        return StoreUnavailable(f"{path} has no schema yet, or one of another version: call migrate() first")
    return StoreUnavailable(f"{path}: {error}")
