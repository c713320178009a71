"""Large payloads and results: the bytes go to a blob, and a small reference stands in their place.

The codec's name says so: a body of codec `json.blob` is `{"sha256": …, "size": …}`, and what that names is a body of
codec `json`. It is looked for among the blobs of its own job only, so a forged reference leads nowhere else, and its
hash is checked. The reference depends on the bytes alone: the same body enqueued again under the same key is still
the same body.

A replayed job has another id, so its payload is copied to it first (`respill`).
"""

import hashlib
from typing import NamedTuple

import msgspec

from tenure.blobs.ref import BlobRef
from tenure.blobs.store import BlobStore
from tenure.domain import names
from tenure.domain.errors import InvalidValue, NotReady
from tenure.domain.job import NewJob

MARK = ".blob"
"""How the codec's name of a spilled body ends. No codec of one's own may end so."""

PAYLOAD_THRESHOLD = 128 * 1024
RESULT_THRESHOLD = names.MAX_RESULT


class Body(NamedTuple):
    """A payload or a result as a record keeps it."""

    content: bytes
    codec: str


class Spilled(msgspec.Struct, frozen=True):
    """What stands in the place of the bytes."""

    sha256: str
    size: int


def is_spilled(codec: str) -> bool:
    return codec.endswith(MARK)


def inner_codec(codec: str) -> str:
    """The codec that the bytes themselves are in, wherever they are."""
    return codec.removesuffix(MARK)


async def spill(blobs: BlobStore | None, tenant: str, job_id: str, body: Body, threshold: int) -> Body:
    """The body itself, or the reference to a blob of the job when it has more bytes than the threshold."""
    if is_spilled(body.codec):
        raise InvalidValue(f"codec {body.codec!r}: names that end with {MARK} are for references")
    if blobs is None or len(body.content) <= threshold:
        return body
    names.size("body", body.content, names.MAX_PAYLOAD)
    sha256 = hashlib.sha256(body.content).hexdigest()
    await blobs.put(tenant, body.content, owner=job_id, id=_id(sha256))
    return Body(msgspec.json.encode(Spilled(sha256, len(body.content))), body.codec + MARK)


async def unspill(blobs: BlobStore | None, tenant: str, job_id: str, body: Body) -> Body:
    """The body as it was before `spill`.

    Raises `InvalidValue` for a reference that can't be one, `BlobNotFound`, `BlobDamaged`, and `NotReady` where no
    blob store is set up.
    """
    if not is_spilled(body.codec):
        return body
    if blobs is None:
        raise NotReady("the body is in a blob store: give Tenure(blobs=…), or set TENURE_BLOBS")
    content = await blobs.read(tenant, _ref(tenant, job_id, body.content))
    return Body(content, inner_codec(body.codec))


async def respill(blobs: BlobStore | None, tenant: str, job_id: str, new_id: str, body: Body) -> None:
    """Gives another job its own copy of what a body refers to; the body itself stays as it is."""
    if is_spilled(body.codec):
        await spill(blobs, tenant, new_id, await unspill(blobs, tenant, job_id, body), threshold=0)


async def spill_payload(blobs: BlobStore | None, job: NewJob, threshold: int = PAYLOAD_THRESHOLD) -> NewJob:
    """The job with its payload moved to a blob if it is large."""
    if blobs is None or len(job.payload) <= threshold:
        return job
    payload, codec = await spill(blobs, job.tenant, job.id, Body(job.payload, job.codec), threshold)
    return msgspec.structs.replace(job, payload=payload, codec=codec)


def _ref(tenant: str, job_id: str, reference: bytes) -> BlobRef:
    try:
        spilled = msgspec.json.decode(reference, type=Spilled)
    except msgspec.MsgspecError as error:
        raise InvalidValue(f"reference: {error}") from error
    names.integer("size of the body", spilled.size, 0, names.MAX_PAYLOAD)
    return BlobRef(tenant=tenant, owner=job_id, id=_id(spilled.sha256), size=spilled.size, sha256=spilled.sha256)


def _id(sha256: str) -> str:
    return sha256[:32]
