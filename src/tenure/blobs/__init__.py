"""Blobs: bytes too large for a payload or a result, beside the job store."""

from tenure.blobs.directory import DirectoryBlobs
from tenure.blobs.errors import BlobDamaged, BlobNotFound
from tenure.blobs.memory import MemoryBlobs
from tenure.blobs.objects import ObjectBlobs
from tenure.blobs.opening import open_blobs
from tenure.blobs.ref import BlobKey, BlobRef
from tenure.blobs.store import BlobInfo, BlobPage, BlobStore
from tenure.blobs.sweep import SweptBlobs, sweep_blobs
from tenure.blobs.views import ContextBlobs, TenantBlobs

__all__ = [
    "BlobDamaged",
    "BlobInfo",
    "BlobKey",
    "BlobNotFound",
    "BlobPage",
    "BlobRef",
    "BlobStore",
    "ContextBlobs",
    "DirectoryBlobs",
    "MemoryBlobs",
    "ObjectBlobs",
    "SweptBlobs",
    "TenantBlobs",
    "open_blobs",
    "sweep_blobs",
]
