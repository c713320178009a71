"""Blobs in memory: the reference, and the blob store for tests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from tenure.blobs.checked import AT_MOST, CheckedBlobs, host_clock
from tenure.blobs.errors import BlobNotFound
from tenure.blobs.ref import BlobKey
from tenure.blobs.store import BlobInfo, BlobPage
from tenure.domain import names
from tenure.domain.names import Ms
from tenure.domain.store import Clock


class _Kept(NamedTuple):
    data: bytes
    stored_at: Ms


class MemoryBlobs(CheckedBlobs):
    """Keeps everything in this process, and nothing after it. Any thread may call it."""

    def __init__(self, *, at_most: int = AT_MOST, clock: Clock = host_clock) -> None:
        super().__init__(at_most)
        self._clock = clock
        self._blobs: dict[BlobKey, _Kept] = {}

    async def _write(self, key: BlobKey, pieces: AsyncIterator[bytes]) -> None:
        data = b"".join([piece async for piece in pieces])
        self._blobs[key] = _Kept(data, self._clock())

    @asynccontextmanager
    async def _find(self, key: BlobKey) -> AsyncIterator[AsyncIterator[bytes]]:
        yield _once(self._kept(key).data)

    async def _info(self, key: BlobKey) -> BlobInfo:
        kept = self._kept(key)
        return BlobInfo(key, len(kept.data), kept.stored_at)

    def _kept(self, key: BlobKey) -> _Kept:
        found = self._blobs.get(key)
        if found is None:
            raise BlobNotFound()
        return found

    async def delete(self, keys: Sequence[BlobKey]) -> None:
        for key in keys:
            self._blobs.pop(key, None)

    async def list(self, *, after: str | None = None, limit: int = 500) -> BlobPage:
        names.integer("limit", limit, 1, names.MAX_BATCH)
        found = sorted((_place(key), key) for key in tuple(self._blobs))
        rest = [(place, key) for place, key in found if after is None or place > after]
        page = tuple([await self._info(key) for _, key in rest[:limit]])
        return BlobPage(page, rest[limit - 1][0] if len(rest) > limit else None)


def _place(key: BlobKey) -> str:
    return f"{key.tenant}/{key.owner}/{key.id}"


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
