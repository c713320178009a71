"""Blobs as jobs and producers get them: the views of `tenure.blobs`, and their face for code without an event loop."""

from typing import TYPE_CHECKING

from tenure.blobs import ContextBlobs, TenantBlobs

if TYPE_CHECKING:
    from tenure.engine.sync import SyncContextBlobs, SyncTenantBlobs


class AppBlobs(TenantBlobs):
    """`app.blobs`, `app.tenant(name).blobs`."""

    @property
    def sync(self) -> "SyncTenantBlobs":
        """The same from code without an event loop."""
        from tenure.engine.sync import SyncTenantBlobs

        return SyncTenantBlobs(self)


class JobBlobs(ContextBlobs):
    """`ctx.blobs`."""

    @property
    def sync(self) -> "SyncContextBlobs":
        """The same from a plain function."""
        from tenure.engine.sync import SyncContextBlobs

        return SyncContextBlobs(self)
