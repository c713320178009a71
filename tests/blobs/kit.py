"""What the tests of blobs share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tenure.blobs import BlobInfo, BlobStore, DirectoryBlobs, MemoryBlobs, ObjectBlobs

T = TypeVar("T")

JOB = "00000000-0000-7000-8000-000000000001"
OTHER_JOB = "00000000-0000-7000-8000-000000000002"

STORES: dict[str, Callable[[Path], BlobStore]] = {
    "memory": lambda path: MemoryBlobs(at_most=20_000_000),
    "directory": lambda path: DirectoryBlobs(path / "blobs", at_most=20_000_000),
    "objects": lambda path: ObjectBlobs("memory:///", at_most=20_000_000),
}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def stream(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def all_of(blobs: BlobStore, limit: int = 500) -> list[BlobInfo]:
    """Everything that is stored, page by page."""
    found: list[BlobInfo] = []
    cursor = None
    while True:
        page = await blobs.list(after=cursor, limit=limit)
        assert len(page.blobs) <= limit
        found.extend(page.blobs)
        cursor = page.cursor
        if cursor is None:
            return found
