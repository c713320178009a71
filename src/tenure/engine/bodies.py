"""Payloads and results on their way into a record and out of it: large ones lie in the blob store."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenure.blobs.errors import BlobNotFound
from tenure.blobs.spill import Body, is_spilled, respill, spill, spill_payload, unspill
from tenure.domain.calls import ClaimedJob, JobView, Succeed
from tenure.domain.errors import InvalidValue, NotReady, ResultGone, StoreError
from tenure.domain.job import NewJob
from tenure.domain.names import MAX_RESULT

if TYPE_CHECKING:
    from tenure.engine.app import Tenure


async def to_enqueue(app: "Tenure", jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs as the store gets them."""
    blobs, threshold = app.blob_store, app.settings.inline_payload
    return [await spill_payload(blobs, job, threshold) for job in jobs]


def to_enqueue_here(app: "Tenure", job: NewJob) -> NewJob:
    """The same in a thread without an event loop. Only a payload that moves needs one."""
    if app.blob_store is None or len(job.payload) <= app.settings.inline_payload:
        return job
    from tenure.engine.sync import PORTAL

    (kept,) = PORTAL.run(to_enqueue(app, [job]))
    return kept


async def to_settle(app: "Tenure", tenant: str, id: str, result: Body | None, jobs: Sequence[NewJob]) -> Succeed:
    """A success as the store gets it. Raises `InvalidValue` for a result that can't be kept."""
    carried = tuple(await to_enqueue(app, jobs))
    if result is None:
        return Succeed(jobs=carried)
    kept = await spill(app.blob_store, tenant, id, result, app.settings.inline_result)
    if len(kept.content) > MAX_RESULT:
        raise InvalidValue(
            f"the result has {len(kept.content)} bytes: at most {MAX_RESULT} are allowed without a blob store"
        )
    return Succeed(kept.content, kept.codec, carried)


async def to_run(app: "Tenure", claimed: ClaimedJob) -> ClaimedJob:
    """A claimed job whose payload lies in the blob store, with its payload at hand."""
    job = claimed.job
    body = await unspill(app.blob_store, job.spec.tenant, job.spec.id, Body(claimed.payload, job.spec.codec))
    return replace(claimed, payload=body.content, job=replace(job, spec=replace(job.spec, codec=body.codec)))


async def with_payload_if_there(app: "Tenure", view: JobView) -> JobView:
    """A record with its payload at hand, or as it is when the payload can't be had."""
    spec = view.job.spec
    if not is_spilled(spec.codec):
        return view
    try:
        body = await unspill(app.blob_store, spec.tenant, spec.id, Body(view.payload, spec.codec))
    except (BlobNotFound, InvalidValue, NotReady, StoreError):
        return view
    return replace(view, payload=body.content, job=replace(view.job, spec=replace(spec, codec=body.codec)))


async def with_result(app: "Tenure", view: JobView) -> JobView:
    """A record with its result at hand. Raises `ResultGone` when the record outlived it."""
    result, spec = view.result, view.job.spec
    if result is None or not is_spilled(result.codec):
        return view
    try:
        body = await unspill(app.blob_store, spec.tenant, spec.id, Body(result.body, result.codec))
    except BlobNotFound:
        raise ResultGone(f"job {spec.id} succeeded, but its result isn't in the blob store any more") from None
    return replace(view, result=replace(result, body=body.content, codec=body.codec))


async def to_replay(app: "Tenure", view: JobView, new_id: str) -> None:
    """Gives the job that a failed one will go on as a payload of its own."""
    spec = view.job.spec
    await respill(app.blob_store, spec.tenant, spec.id, new_id, Body(view.payload, spec.codec))
