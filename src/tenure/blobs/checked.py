"""What all blob stores share: whose a blob is, how large it may be, and that it comes out as it went in."""

import asyncio
import hashlib
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tenure.blobs import ref as refs
from tenure.blobs.errors import BlobDamaged, BlobNotFound
from tenure.blobs.ref import OCTETS, BlobKey, BlobRef
from tenure.blobs.store import BlobInfo, BlobPage, Data
from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.names import Ms

T = TypeVar("T")

PIECE = 256 * 1024
"""Bytes that are read, hashed and written at once."""
AT_MOST = 1024 * 1024 * 1024
"""How large a blob may be, unless the store was opened with another limit."""


class CheckedBlobs(ABC):
    """A blob store over five plain operations, each atomic for one key."""

    def __init__(self, at_most: int = AT_MOST) -> None:
        self._at_most = names.integer("at_most", at_most, 1, 1 << 53)

    @abstractmethod
    async def _write(self, key: BlobKey, pieces: AsyncIterator[bytes]) -> None:
        """Stores all pieces, or nothing if they, or anything else, break off."""

    @abstractmethod
    def _find(self, key: BlobKey) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """What is stored there, piece by piece. Raises `BlobNotFound`."""

    @abstractmethod
    async def _info(self, key: BlobKey) -> BlobInfo:
        """Raises `BlobNotFound`."""

    @abstractmethod
    async def delete(self, keys: Sequence[BlobKey]) -> None: ...

    @abstractmethod
    async def list(self, *, after: str | None = None, limit: int = 500) -> BlobPage: ...

    async def clean(self, before: Ms) -> int:
        return 0

    async def close(self) -> None:  # noqa: B027 most have nothing to let go of
        """Nothing to let go of."""

    async def put(
        self, tenant: str, data: Data, *, owner: str, content_type: str = OCTETS, id: str | None = None
    ) -> BlobRef:
        key = BlobKey(tenant, owner, secrets.token_hex(16) if id is None else id)
        refs.content_type(content_type)
        async with aclosing(Measured(data, self._at_most)) as source:
            await self._write(key, source)
        return BlobRef(
            tenant=tenant,
            owner=owner,
            id=key.id,
            size=source.size,
            sha256=source.sha256,
            content_type=content_type,
        )

    @asynccontextmanager
    async def open(self, tenant: str, ref: BlobRef) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._find(_own(tenant, ref)) as stored, aclosing(_as_put(stored, ref)) as pieces:
            yield pieces

    async def read(self, tenant: str, ref: BlobRef) -> bytes:
        async with self.open(tenant, ref) as pieces:
            return b"".join([piece async for piece in pieces])

    async def metadata(self, tenant: str, ref: BlobRef) -> BlobInfo:
        return await self._info(_own(tenant, ref))


def _own(tenant: str, ref: BlobRef) -> BlobKey:
    """Where the blob is, for whom it belongs to; for anyone else there is no such blob."""
    if ref.tenant != tenant:
        raise BlobNotFound()
    return ref.key


async def _as_put(pieces: AsyncIterator[bytes], ref: BlobRef) -> AsyncGenerator[bytes, None]:
    """The pieces, the last of them held back until the hash is known: nobody takes a damaged blob for a whole one."""
    digest, size, held = hashlib.sha256(), 0, b""
    async for piece in pieces:
        size += len(piece)
        digest.update(piece)
        if size > ref.size:
            break
        if held:
            yield held
        held = piece
    if size != ref.size or digest.hexdigest() != ref.sha256:
        raise BlobDamaged(f"blob {ref.id} isn't what was put: its size or its hash differs")
    if held:
        yield held


class Measured:
    """The pieces of what is put, with their size and hash once they have passed by."""

    def __init__(self, data: Data, at_most: int) -> None:
        self._pieces = _pieces_of(data)
        self._at_most = at_most
        self._digest = hashlib.sha256()
        self.size = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await anext(self._pieces)
        self.size += len(piece)
        if self.size > self._at_most:
            raise InvalidValue(f"blob: more than the {self._at_most} bytes that are allowed")
        self._digest.update(piece)
        return piece

    async def aclose(self) -> None:
        """Lets go of the source, wherever it stands."""
        await self._pieces.aclose()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def _pieces_of(data: Data) -> AsyncGenerator[bytes, None]:
    if isinstance(data, bytes):
        return _of_bytes(data)
    if isinstance(data, os.PathLike):
        return _of_file(Path(data))
    if isinstance(data, AsyncIterable):
        return _of_stream(data)
    raise InvalidValue(f"blob: give bytes, a Path or an async iterator of bytes, not {type(data).__name__}")


async def _of_bytes(data: bytes) -> AsyncGenerator[bytes, None]:
    for piece in _cut(data):
        yield piece


async def _of_file(path: Path) -> AsyncGenerator[bytes, None]:
    with ExitStack() as stack:
        file = await in_thread(lambda: stack.enter_context(path.open("rb", buffering=0)))
        while piece := await in_thread(lambda: file.read(PIECE)):
            yield piece


async def _of_stream(stream: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    async for data in stream:
        if not isinstance(data, bytes):
            raise InvalidValue(f"blob: the iterator gave {type(data).__name__}, not bytes")
        for piece in _cut(data):
            yield piece


def _cut(data: bytes) -> Iterator[bytes]:
    return (data[start : start + PIECE] for start in range(0, len(data), PIECE))


async def in_thread(work: Callable[[], T]) -> T:
    """Runs blocking work in a thread. A cancelled caller goes only once the thread has: what it uses is still ours."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()
        raise


def host_clock() -> Ms:
    """Milliseconds since the Unix epoch, floored."""
    return time.time_ns() // 1_000_000
