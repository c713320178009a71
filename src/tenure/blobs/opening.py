"""Blob stores by their URL."""

from urllib.parse import unquote, urlsplit

from tenure.blobs.directory import DirectoryBlobs
from tenure.blobs.memory import MemoryBlobs
from tenure.blobs.objects import ObjectBlobs
from tenure.blobs.store import BlobStore
from tenure.domain.errors import InvalidValue

OBJECTS = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
"""Schemes of object stores."""


def open_blobs(url: str) -> BlobStore:
    """The blob store at a URL: `file:///var/lib/blobs`, `s3://bucket/prefix`, `memory://`."""
    scheme, separator, rest = url.partition("://")
    match scheme:
        case "memory" if separator and not rest:
            return MemoryBlobs()
        case "file" if separator:
            return DirectoryBlobs(_folder(url))
        case _ if separator and scheme in OBJECTS:
            return ObjectBlobs(url)
    shown = f"{scheme}://…" if separator else f"{url:.20}"
    raise InvalidValue(f"blobs at {shown}: give file:///folder, s3://bucket/prefix, gs://…, az://… or memory://")


def _folder(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment or parts.path in ("", "/"):
        raise InvalidValue(f"blobs at {url!r:.80}: name a folder by its whole path, as in file:///var/lib/blobs")
    return unquote(parts.path)
