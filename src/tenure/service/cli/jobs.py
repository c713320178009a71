"""`tenure jobs`: a list, or the whole story of one job."""

import argparse
from typing import TYPE_CHECKING, Any

from tenure.blobs import BlobNotFound
from tenure.blobs.spill import Body, unspill
from tenure.domain import names
from tenure.domain.calls import JobView, Reading
from tenure.domain.errors import InvalidValue, NotReady, StoreError
from tenure.domain.states import State
from tenure.engine.handle import Job, job_of
from tenure.engine.surface import PAGE
from tenure.service.cli.arguments import add_command, add_filter, add_store, add_tenants, positive, where_of
from tenure.service.cli.output import Out, to_json
from tenure.service.cli.shown import job_document, jobs_table, story
from tenure.service.cli.target import Target, opened

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

LIMIT = 20
MOST = 10_000


def declare(commands: "Commands") -> None:
    parser = add_command(commands, "jobs", run, "list jobs, newest first, or tell the whole story of one")
    parser.add_argument("id", nargs="?", metavar="ID", help="one job")
    add_filter(parser, states=tuple(State))
    parser.add_argument("--limit", type=positive, default=LIMIT, help=f"how many, up to {MOST} (default: %(default)s)")
    parser.add_argument("--explain", action="store_true", help="say what holds each waiting job back")
    parser.add_argument("--tracebacks", action="store_true", help="of one job: what its failed attempts raised")
    add_tenants(parser)
    add_store(parser)


def run(args: argparse.Namespace, out: Out) -> int:
    where = where_of(args)
    names.integer("limit", args.limit, 1, MOST)
    if args.id is not None:
        if where or args.all_tenants:
            raise InvalidValue("one job is meant by its ID and --tenant alone: leave out the filter, or the ID")
        names.job_id(args.id)
    elif args.tracebacks:
        raise InvalidValue("--tracebacks: they are shown of one job; give its ID")
    with opened(args, out) as target:
        if args.id is not None:
            return one(target, out, args.id, Reading(explain=True, tracebacks=args.tracebacks))
        return many(target, out, args, where)


def many(target: Target, out: Out, args: argparse.Namespace, where: Any, *, empty: str = "no jobs") -> int:
    """The jobs that match, a row each."""
    found = target.run(listed(target, args.limit + 1, where, args.explain))
    jobs, more = found[: args.limit], len(found) > args.limit
    if out.json:
        out.document({"jobs": [job_document(job) for job in jobs], "more": more})
        return 0
    jobs_table(out, jobs, tenants=args.all_tenants, gates=args.explain, empty=empty)
    if more:
        out.say(f"there are more: these are the newest {args.limit} (--limit)")
    return 0


async def listed(target: Target, limit: int, where: Any, explain: bool = False) -> list[Job]:
    jobs = await target.jobs(limit, **where)
    return await explained(target, jobs) if explain else jobs


async def explained(target: Target, jobs: list[Job]) -> list[Job]:
    """The same jobs with what holds them back; those that are gone meanwhile are left out."""
    store, refs, found = await target.store(), [(job.tenant, job.id) for job in jobs], list[Job]()
    for start in range(0, len(refs), PAGE):
        views = await store.get(refs[start : start + PAGE], Reading(explain=True))
        found += [job_of(view, None) for view in views if isinstance(view, JobView)]
    return found


def one(target: Target, out: Out, id: str, reading: Reading) -> int:
    """The whole story of one job."""
    view, payload, result = target.run(whole(target, id, reading))
    job = job_of(view, payload)
    if out.json:
        out.document({**job_document(job, whole=True), "result": result})
    else:
        story(out, job, "" if view.result is None else to_json(result).decode())
    return 0


async def whole(target: Target, id: str, reading: Reading) -> tuple[JobView, Any, Any]:
    """The record, its payload and its result."""
    view = await target.surface.view(id, reading)
    payload = await decoded(target, view, Body(view.payload, view.job.spec.codec))
    kept = view.result
    return view, payload, None if kept is None else await decoded(target, view, Body(kept.body, kept.codec))


async def decoded(target: Target, view: JobView, body: Body) -> Any:
    """A body as a value, wherever it lies; one that can't be read here is shown as what it is."""
    spec, app = view.job.spec, target.app
    try:
        content, codec = await unspill(app.blob_store, spec.tenant, spec.id, body)
        return app.codecs.get(codec).decode(content)
    except (BlobNotFound, InvalidValue, NotReady, StoreError) as error:
        return f"<{len(body.content)} bytes of {body.codec}: {error}>"
