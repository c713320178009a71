"""Blobs in an object store: S3, Google Cloud Storage, Azure and what speaks like them. Needs the extra `blobs`.

    <prefix of the URL>/<tenant, in hexadecimal>/<owner>/<id>

An object store shows an object whole or not at all. What an interrupted upload of several parts left behind is
invisible and isn't swept from here: give the bucket a lifecycle rule that aborts incomplete uploads. Credentials come
from the environment, as with the provider's own tools, or as options.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from tenure.blobs.checked import AT_MOST, PIECE, CheckedBlobs
from tenure.blobs.errors import BlobNotFound
from tenure.blobs.ref import BlobKey
from tenure.blobs.store import BlobInfo, BlobPage
from tenure.domain import names
from tenure.domain.errors import InvalidValue, StoreUnavailable, Unsupported
from tenure.domain.extras import Extra, needs

if TYPE_CHECKING:
    from obstore import ObjectMeta

PART = 5 * 1024 * 1024
"""Up to here a blob is sent in one request; beyond, in parts of this size."""
PARTS_UNDER_WAY = 4


class ObjectBlobs(CheckedBlobs):
    """Blobs in a bucket: `ObjectBlobs("s3://bucket/prefix", region="eu-south-1")`.

    The bucket's prefix belongs to it alone. Listing must be in the order of keys, as S3, GCS and Azure do.
    """

    def __init__(self, url: str, *, at_most: int = AT_MOST, **options: Any) -> None:
        super().__init__(at_most)
        try:
            import obstore
            import obstore.exceptions
            import obstore.store
        except ImportError as error:
            raise Unsupported(needs("blobs in an object store", Extra.BLOBS, plural=True)) from error
        self._obstore = obstore
        self._broken = (obstore.exceptions.BaseError, OSError)
        try:
            self._objects = obstore.store.from_url(url, **options)
        except (obstore.exceptions.BaseError, ValueError) as error:
            why = str(error).partition("\n")[0].replace(url, "the URL")  # which may hold a password
            raise InvalidValue(f"blobs at {url.partition('://')[0]}://…: {why}") from None

    async def _write(self, key: BlobKey, pieces: AsyncIterator[bytes]) -> None:
        writer = self._obstore.open_writer_async(
            self._objects, _path(key), buffer_size=PART, max_concurrency=PARTS_UNDER_WAY
        )
        async for piece in pieces:
            with self._translated():
                await writer.write(piece)
        with self._translated():
            await writer.close()  # only now is anything there: a writer that is dropped leaves nothing to see

    @asynccontextmanager
    async def _find(self, key: BlobKey) -> AsyncIterator[AsyncIterator[bytes]]:
        with self._translated():
            found = await self._obstore.get_async(self._objects, _path(key))
        yield self._pieces(found)

    async def _pieces(self, found: Any) -> AsyncIterator[bytes]:
        with self._translated():
            async for piece in found.stream(min_chunk_size=PIECE):
                yield piece

    async def _info(self, key: BlobKey) -> BlobInfo:
        with self._translated():
            return _info(key, await self._obstore.head_async(self._objects, _path(key)))

    async def delete(self, keys: Sequence[BlobKey]) -> None:
        for key in keys:
            try:
                with self._translated():
                    await self._obstore.delete_async(self._objects, _path(key))
            except BlobNotFound:
                continue

    async def list(self, *, after: str | None = None, limit: int = 500) -> BlobPage:
        names.integer("limit", limit, 1, names.MAX_BATCH)
        with self._translated():
            listing = self._obstore.list(self._objects, offset=after, chunk_size=limit + 1)
            found = [meta async for chunk in _first(listing) for meta in chunk]
        blobs = tuple(_info(key, meta) for meta in found[:limit] if (key := _key(meta["path"])) is not None)
        return BlobPage(blobs, found[limit - 1]["path"] if len(found) > limit else None)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Other people's errors in our words. Their texts may show a signed URL, so only their kind is repeated."""
        try:
            yield
        except FileNotFoundError:
            raise BlobNotFound() from None
        except self._broken as error:
            raise StoreUnavailable(f"the object store doesn't do its work ({type(error).__name__})") from error


def _path(key: BlobKey) -> str:
    return f"{key.tenant.encode().hex()}/{key.owner}/{key.id}"


def _key(path: str) -> BlobKey | None:
    """The blob of a path; None for an object that isn't ours."""
    try:
        tenant, owner, id = path.split("/")
        key = BlobKey(bytes.fromhex(tenant).decode(), owner, id)
    except ValueError:
        return None
    return key if _path(key) == path else None


def _info(key: BlobKey, meta: "ObjectMeta") -> BlobInfo:
    return BlobInfo(key, meta["size"], int(meta["last_modified"].timestamp() * 1_000))


async def _first(listing: Any) -> AsyncIterator[Any]:
    """The first chunk of a list, if there is one."""
    async for chunk in listing:
        yield chunk
        return
