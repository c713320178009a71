"""Blobs as files of one folder, which may be a shared one.

    <folder>/<tenant, in hexadecimal>/<last two digits of the owner>/<owner>.<id>
    <folder>/.unfinished/<random>                                      puts under way

No name is built from anyone's text. A blob is written under `.unfinished`, forced to the disk, and then renamed to
its place: it is there whole, or not at all. Below the folder itself, every folder is opened relative to the one above
it, and no link is followed. All of it happens in threads.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tenure.blobs.checked import AT_MOST, PIECE, CheckedBlobs, in_thread
from tenure.blobs.errors import BlobDamaged, BlobNotFound
from tenure.blobs.ref import BlobKey
from tenure.blobs.store import BlobInfo, BlobPage
from tenure.domain import names
from tenure.domain.errors import InvalidValue, StoreFull, StoreUnavailable
from tenure.domain.names import Ms

UNFINISHED = ".unfinished"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe that someone put there would wait for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_PLAIN = (errno.ELOOP, errno.ENOTDIR)
_SHARD = re.compile(r"[0-9a-f]{2}", re.ASCII)


class Place(NamedTuple):
    """Where a blob's file is, below the folder of all."""

    tenant: str
    shard: str
    file: str

    @classmethod
    def of(cls, key: BlobKey) -> "Place":
        return cls(key.tenant.encode().hex(), key.owner[-2:], f"{key.owner}.{key.id}")

    def key(self) -> BlobKey | None:
        """The blob that belongs here; None for a file that isn't ours."""
        owner, _, id = self.file.partition(".")
        try:
            key = BlobKey(bytes.fromhex(self.tenant).decode(), owner, id)
        except (InvalidValue, ValueError):
            return None
        return key if Place.of(key) == self else None


class DirectoryBlobs(CheckedBlobs):
    """Blobs in a folder, readable by its owner only. Several processes and hosts may share it."""

    def __init__(self, path: str | os.PathLike[str], *, at_most: int = AT_MOST) -> None:
        super().__init__(at_most)
        self.path = Path(path).absolute()

    async def _write(self, key: BlobKey, pieces: AsyncIterator[bytes]) -> None:
        unfinished = _Unfinished(self.path)
        try:
            await in_thread(unfinished.begin)
            async for piece in pieces:
                await in_thread(partial(unfinished.write, piece))
            await in_thread(lambda: unfinished.finish(Place.of(key)))
        finally:
            await in_thread(unfinished.discard)

    @asynccontextmanager
    async def _find(self, key: BlobKey) -> AsyncIterator[AsyncIterator[bytes]]:
        with ExitStack() as stack:
            file = await in_thread(lambda: stack.enter_context(_opened(self.path, key)))
            yield _pieces(file)

    async def _info(self, key: BlobKey) -> BlobInfo:
        return await in_thread(lambda: _info_of(self.path, key))

    async def delete(self, keys: Sequence[BlobKey]) -> None:
        await in_thread(lambda: _delete(self.path, keys))

    async def list(self, *, after: str | None = None, limit: int = 500) -> BlobPage:
        names.integer("limit", limit, 1, names.MAX_BATCH)
        return await in_thread(lambda: _page(self.path, after, limit))

    async def clean(self, before: Ms) -> int:
        return await in_thread(lambda: _clean(self.path, before))


class _Unfinished:
    """A file being written. Each step runs in a thread, one after the other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = secrets.token_hex(16)
        self._file: int | None = None

    def begin(self) -> None:
        with _translated(self._root):
            self._root.mkdir(mode=0o700, exist_ok=True)
            with _folder(self._root, UNFINISHED, make=True) as folder:
                self._file = os.open(self._name, _NEW_FILE, 0o600, dir_fd=folder)

    def write(self, piece: bytes) -> None:
        rest = memoryview(piece)
        with _translated(self._root):
            while rest:
                rest = rest[os.write(self._begun, rest) :]

    def finish(self, place: Place) -> None:
        """The bytes reach the disk before the name does, and the name before this returns."""
        with _translated(self._root):
            os.fsync(self._begun)
            with (
                _folder(self._root, UNFINISHED) as source,
                _folder(self._root, place.tenant, place.shard, make=True) as target,
            ):
                os.rename(self._name, place.file, src_dir_fd=source, dst_dir_fd=target)
                os.fsync(target)

    def discard(self) -> None:
        """Lets go of the file, and of its name if it still has the first one."""
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        with suppress(OSError), _folder(self._root, UNFINISHED) as folder:
            os.unlink(self._name, dir_fd=folder)

    @property
    def _begun(self) -> int:
        if self._file is None:
            raise AssertionError("a blob was written before it was begun")
        return self._file


@contextmanager
def _folder(root: Path, *parts: str, make: bool = False) -> Iterator[int]:
    """A folder below the root, opened step by step: a link on the way is an error, wherever it points."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            below = _below(folder, part, make)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _below(folder: int, part: str, make: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=folder)
        os.fsync(folder)
    return os.open(part, _FOLDER, dir_fd=folder)


@contextmanager
def _translated(root: Path) -> Iterator[None]:
    """The system's errors in our words."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull(f"{root}: no room left for blobs") from error
        if error.errno in _NOT_PLAIN:
            raise BlobDamaged(f"{root}: a link or a file stands where a blob or a folder should: {error}") from error
        raise StoreUnavailable(f"{root}: {error.strerror}; check that it can be written, and who owns it") from error


@contextmanager
def _opened(root: Path, key: BlobKey) -> Iterator[int]:
    """The blob's file."""
    place = Place.of(key)
    with _translated(root):
        try:
            with _folder(root, place.tenant, place.shard) as folder:
                file = os.open(place.file, _FILE, dir_fd=folder)
        except FileNotFoundError:
            raise BlobNotFound() from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise BlobDamaged(f"blob {key.id} is no plain file")
        yield file
    finally:
        os.close(file)


async def _pieces(file: int) -> AsyncIterator[bytes]:
    while piece := await in_thread(lambda: os.read(file, PIECE)):
        yield piece


def _info_of(root: Path, key: BlobKey) -> BlobInfo:
    with _opened(root, key) as file:
        return _info(key, os.fstat(file))


def _info(key: BlobKey, found: os.stat_result) -> BlobInfo:
    return BlobInfo(key, found.st_size, found.st_mtime_ns // 1_000_000)


def _delete(root: Path, keys: Sequence[BlobKey]) -> None:
    for key in keys:
        place = Place.of(key)
        with _translated(root), suppress(FileNotFoundError), _folder(root, place.tenant, place.shard) as folder:
            os.unlink(place.file, dir_fd=folder)


def _page(root: Path, after: str | None, limit: int) -> BlobPage:
    found: list[BlobInfo] = []
    last: Place | None = None
    with _translated(root):
        for place, info in _walk(root, after):
            if len(found) == limit:
                return BlobPage(tuple(found), None if last is None else "/".join(last))
            found.append(info)
            last = place
    return BlobPage(tuple(found), None)


def _walk(root: Path, after: str | None) -> Iterator[tuple[Place, BlobInfo]]:
    """All blobs after a place, in order. What isn't ours, and what goes away meanwhile, is passed over."""
    start = ("", "", "") if after is None else _start(after)
    for tenant in _names(root):
        if tenant < start[0]:
            continue
        for shard in _names(root, tenant):
            if (tenant, shard) < start[:2] or not _SHARD.fullmatch(shard):
                continue
            with suppress(FileNotFoundError), _folder(root, tenant, shard) as folder:
                yield from _blobs_in(folder, tenant, shard, start)


def _blobs_in(folder: int, tenant: str, shard: str, start: tuple[str, ...]) -> Iterator[tuple[Place, BlobInfo]]:
    for file in sorted(os.listdir(folder)):
        place = Place(tenant, shard, file)
        key = place.key() if place > start else None
        if key is None:
            continue
        with suppress(FileNotFoundError):
            info = os.stat(file, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(info.st_mode):
                yield place, _info(key, info)


def _start(cursor: str) -> tuple[str, ...]:
    parts = tuple(cursor.split("/"))
    if len(parts) != 3:
        raise InvalidValue(f"cursor {cursor!r:.80}: give one that a list answered")
    return parts


def _names(root: Path, *parts: str) -> list[str]:
    """The folders in a folder, in order; none where there is nothing yet, and none behind a link."""
    try:
        with _folder(root, *parts) as folder, os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _clean(root: Path, before: Ms) -> int:
    count = 0
    with _translated(root), suppress(FileNotFoundError), _folder(root, UNFINISHED) as folder:
        for name in os.listdir(folder):
            with suppress(FileNotFoundError):
                written = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns // 1_000_000
                if written < before:
                    os.unlink(name, dir_fd=folder)
                    count += 1
    return count
