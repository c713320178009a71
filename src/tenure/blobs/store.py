"""What a blob store does: a few verbs over bytes of any size. It knows nothing of jobs, handlers or HTTP.

Each blob is whole or absent, never partly there, and what is read is what was put: size and hash are checked against
the reference. Who asks is always said, and a reference of another tenant answers `BlobNotFound`, as an unknown one
does. One blob store belongs to one job store: the sweep deletes what no job of that store owns.
"""

import os
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from tenure.blobs.ref import OCTETS, BlobKey, BlobRef
from tenure.domain.names import Ms

Data = bytes | os.PathLike[str] | AsyncIterable[bytes]
"""What can be put: bytes, a file by its path, or bytes as they come."""


class BlobInfo(msgspec.Struct, frozen=True):
    """A blob as it is stored."""

    key: BlobKey
    size: int
    stored_at: Ms
    """By the clock of what stores it."""


class BlobPage(msgspec.Struct, frozen=True):
    """Some blobs, and the cursor of the next page (None: this was the last)."""

    blobs: tuple[BlobInfo, ...]
    cursor: str | None


class BlobStore(Protocol):
    """What every blob store does, the same."""

    async def put(
        self, tenant: str, data: Data, *, owner: str, content_type: str = OCTETS, id: str | None = None
    ) -> BlobRef:
        """Stores a blob; it is durable when this returns. If this raises, what may be there is whole and an orphan.

        `id` names a blob by its content, so that putting it again changes nothing; without it the id is random.
        """

    def open(self, tenant: str, ref: BlobRef) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The bytes piece by piece: `async with blobs.open(tenant, ref) as pieces: async for piece in pieces: …`.

        The last piece comes only when all of them are what was put; otherwise `BlobDamaged` is raised in its place.
        """

    async def read(self, tenant: str, ref: BlobRef) -> bytes:
        """The bytes at once. Raises `BlobNotFound` or `BlobDamaged`."""

    async def metadata(self, tenant: str, ref: BlobRef) -> BlobInfo:
        """That the blob is there, since when, and how large. Raises `BlobNotFound`."""

    async def delete(self, keys: Sequence[BlobKey]) -> None:
        """Deletes blobs; those that aren't there are none the less gone."""

    async def list(self, *, after: str | None = None, limit: int = 500) -> BlobPage:
        """Every tenant's blobs in a stable order, for sweeping."""

    async def clean(self, before: Ms) -> int:
        """Deletes what puts left behind that were interrupted before then; answers how much."""

    async def close(self) -> None:
        """Lets go of everything."""
