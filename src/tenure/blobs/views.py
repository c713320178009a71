"""Blobs as a tenant's code sees them: its own, and nothing of anyone else's.

How long a blob lives is decided by whom it belongs to, when it is put:

- put by a handler (`ctx.blobs.put`): the job. Every attempt's blobs stay, also those of attempts that failed.
- put by a producer for a job (`app.blobs.put(data, job_id=id)`, the id made ahead by `app.new_id()`): that job, once
  it is enqueued under this id. Enqueue it within a day: a blob whose job never came is taken for an orphan then.
- put by a producer for nobody, or for many jobs (`app.blobs.put(data, ttl=86_400)`): until that time is over.

A reference handed on from one job to another doesn't change the owner. A job that needs the blob for longer than the
job it came from is kept makes it its own: `ref = await ctx.blobs.keep(ref)`.
"""

import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from tenure.blobs.checked import host_clock
from tenure.blobs.errors import BlobNotFound
from tenure.blobs.ref import OCTETS, BlobRef, owner_until
from tenure.blobs.store import BlobInfo, BlobStore, Data
from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.store import Clock


class _Reading:
    """What anyone of a tenant may do with its blobs."""

    def __init__(self, blobs: BlobStore, tenant: str) -> None:
        self._blobs = blobs
        self._tenant = names.tenant_name(tenant)

    def open(self, ref: BlobRef) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The bytes piece by piece: `async with ctx.blobs.open(ref) as pieces: async for piece in pieces: …`.

        Raises `BlobNotFound`; `BlobDamaged` before the last piece if they aren't what was put.
        """
        return self._blobs.open(self._tenant, ref)

    async def read(self, ref: BlobRef) -> bytes:
        """The bytes at once. Raises `BlobNotFound` or `BlobDamaged`."""
        return await self._blobs.read(self._tenant, ref)

    async def metadata(self, ref: BlobRef) -> BlobInfo:
        """That the blob is there, since when, and how large. Raises `BlobNotFound`."""
        return await self._blobs.metadata(self._tenant, ref)

    async def delete(self, ref: BlobRef) -> None:
        """Deletes the blob before its time; one that is gone already is no error."""
        if ref.tenant != self._tenant:
            raise BlobNotFound()
        await self._blobs.delete([ref.key])


class TenantBlobs(_Reading):
    """The blobs of a tenant, for producers: `app.blobs`, `app.tenant(name).blobs`."""

    def __init__(self, blobs: BlobStore, tenant: str, clock: Clock = host_clock) -> None:
        super().__init__(blobs, tenant)
        self._clock = clock

    async def put(
        self, data: Data, *, job_id: str | None = None, ttl: float | None = None, content_type: str = OCTETS
    ) -> BlobRef:
        """Stores a blob that belongs to a job, or that is kept for `ttl` seconds by this host's clock."""
        return await self._blobs.put(self._tenant, data, owner=self._owner(job_id, ttl), content_type=content_type)

    def _owner(self, job_id: str | None, ttl: float | None) -> str:
        if job_id is not None and ttl is None:
            return names.job_id(job_id, "job_id")
        if ttl is not None and job_id is None:
            kept = math.ceil(ttl * 1_000) if math.isfinite(ttl) else -1
            return owner_until(self._clock() + names.duration("ttl", kept, 1))
        raise InvalidValue("put(): say how long the blob lives: job_id= of the job it is for, or ttl= in seconds")


class ContextBlobs(_Reading):
    """The blobs of a running job: `ctx.blobs`. What it puts belongs to the job and goes with it."""

    def __init__(self, blobs: BlobStore, tenant: str, job_id: str) -> None:
        super().__init__(blobs, tenant)
        self._job_id = names.job_id(job_id)

    async def put(self, data: Data, *, content_type: str = OCTETS) -> BlobRef:
        """Stores a blob; it is durable when this returns."""
        return await self._blobs.put(self._tenant, data, owner=self._job_id, content_type=content_type)

    async def keep(self, ref: BlobRef) -> BlobRef:
        """A copy that belongs to this job, of a blob that may go before it."""
        async with self._blobs.open(self._tenant, ref) as pieces:
            return await self.put(pieces, content_type=ref.content_type)
