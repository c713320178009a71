"""Sweeping: blobs go when the job they belong to is gone, or when their time is over."""

import msgspec

from tenure.blobs.ref import BlobKey, expiry_of
from tenure.blobs.store import BlobInfo, BlobStore
from tenure.domain import names
from tenure.domain.calls import Swept
from tenure.domain.errors import JobNotFound
from tenure.domain.job import Ref
from tenure.domain.names import Ms
from tenure.domain.store import Store

DAY_SECONDS = 86_400


class SweptBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """What one step of a sweep came to, and where the next goes on (None: at the beginning)."""

    deleted: int = 0
    kept: int = 0
    """Their job is there, or their time isn't over."""
    young: int = 0
    """Not asked about: their job may not be there yet."""
    unfinished: int = 0
    """What interrupted puts left behind, deleted."""
    cursor: str | None = None


async def sweep_blobs(
    blobs: BlobStore,
    store: Store,
    *,
    older_than_seconds: float = DAY_SECONDS,
    limit: int = 500,
    after: str | None = None,
) -> SweptBlobs:
    """Looks at up to `limit` blobs and deletes the orphans among them; several may sweep at once.

    A blob younger than `older_than_seconds` stays even without its job: it may have been put before the job is
    enqueued. A frozen store isn't believed when it says that a job isn't there: its jobs may still be on their way.
    """
    names.integer("limit", limit, 1, names.MAX_BATCH)
    spared = names.duration("older_than_seconds", round(older_than_seconds * 1_000))
    asked = await store.sweep(names.MAX_DURATION)  # asks for its time, and whether it is frozen
    if not isinstance(asked, Swept):
        return SweptBlobs(cursor=after)
    before = asked.now - spared
    page = await blobs.list(after=after, limit=limit)
    old = [blob for blob in page.blobs if expiry_of(blob.key.owner) is None and blob.stored_at < before]
    due = [*_expired(page.blobs, asked.now), *await _orphans(store, old)]
    await blobs.delete(due)
    young = sum(1 for blob in page.blobs if expiry_of(blob.key.owner) is None) - len(old)
    return SweptBlobs(
        deleted=len(due),
        kept=len(page.blobs) - len(due) - young,
        young=young,
        unfinished=await blobs.clean(before) if after is None else 0,
        cursor=page.cursor,
    )


def _expired(blobs: tuple[BlobInfo, ...], now: Ms) -> list[BlobKey]:
    return [blob.key for blob in blobs if (until := expiry_of(blob.key.owner)) is not None and until <= now]


async def _orphans(store: Store, blobs: list[BlobInfo]) -> list[BlobKey]:
    """Those whose job isn't there. Any other refusal says nothing about the job, and keeps them."""
    owners: list[Ref] = sorted({(blob.key.tenant, blob.key.owner) for blob in blobs})
    if not owners:
        return []
    views = await store.get(owners)
    gone = {owner for owner, view in zip(owners, views, strict=True) if isinstance(view, JobNotFound)}
    return [blob.key for blob in blobs if (blob.key.tenant, blob.key.owner) in gone]
