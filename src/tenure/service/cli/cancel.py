"""`tenure cancel`."""

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tenure.domain.calls import AnyCommand, Cancel, JobView, RequestCancel
from tenure.domain.errors import JobCancelled, JobFinished, Refused
from tenure.domain.states import State
from tenure.engine.handle import CancelResult
from tenure.engine.surface import LIVE
from tenure.service.cli.arguments import add_command, add_many, add_store, add_tenant, one_of_many, where_of
from tenure.service.cli.many import Deed, Tally, do_to_many
from tenure.service.cli.output import Advance, Out
from tenure.service.cli.target import Target, opened

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands


def declare(commands: "Commands") -> None:
    parser = add_command(commands, "cancel", run, "call off a job, or all that match")
    add_many(parser, states=LIVE)
    parser.add_argument("--request", action="store_true", help="only ask running jobs to stop")
    add_tenant(parser)
    add_store(parser)


def run(args: argparse.Namespace, out: Out) -> int:
    where = where_of(args)
    single = one_of_many(args, where, of_many=("dry_run",))
    with opened(args, out) as target:
        if single:
            return one(target, out, args)
        chosen = {"state": LIVE, **where}
        deed = Deed(
            verb="cancel",
            done="cancelled",
            where=chosen,
            do=lambda advance: many(target, chosen, args.request, advance),
        )
        return do_to_many(target, out, args, deed)


async def many(target: Target, where: Mapping[str, Any], request: bool, advance: Advance) -> Tally:
    """All that match, page by page. A job that ended meanwhile needs no cancelling."""
    store, done, passed, refused = await target.store(), 0, 0, Counter[str]()
    async for page in target.surface.pages(where):
        for reply in await store.command([command(view, request) for view in page]):
            if not isinstance(reply, Refused):
                done += 1
            elif isinstance(reply, JobFinished | JobCancelled):
                passed += 1
            else:
                refused[str(reply)] += 1
        advance(len(page))
    return Tally(done, passed, dict(refused))


def command(view: JobView, request: bool) -> AnyCommand:
    tenant, id = view.job.ref
    return RequestCancel(tenant=tenant, id=id) if request else Cancel(tenant=tenant, id=id)


def one(target: Target, out: Out, args: argparse.Namespace) -> int:
    """One job. Exit code 1 when it had ended otherwise before."""
    result = target.run(target.surface.cancel(args.id, mode="request" if args.request else "now"))
    if out.json:
        document = {"id": args.id, "cancelled": result.cancelled, "was_running": result.was_running}
        out.document({**document, "state": result.state})
    else:
        out.line(told(result))
    return 0 if result or result.state is State.CANCELLED else 1


def told(result: CancelResult) -> str:
    """What a cancel came to, in words."""
    if result.cancelled:
        return "cancelled; its handler is being told" if result.was_running else "cancelled"
    if result.state is State.RUNNING:
        return "asked to stop; it is still running"
    return f"nothing to cancel: the job had already {'been ' * (result.state is State.CANCELLED)}{result.state}"
