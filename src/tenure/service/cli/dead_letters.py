"""`tenure dead-letters`: what failed for good and waits for a decision."""

import argparse
from typing import TYPE_CHECKING

from tenure.domain import names
from tenure.domain.states import Disposition
from tenure.engine.dead_letters import LetterWhere
from tenure.service.cli.arguments import (
    add_command,
    add_filter,
    add_group,
    add_many,
    add_store,
    add_tenant,
    add_tenants,
    letters_of,
    one_of_many,
    positive,
)
from tenure.service.cli.jobs import LIMIT, MOST
from tenure.service.cli.jobs import many as list_jobs
from tenure.service.cli.many import Deed, Tally, do_to_many, tally_of, told_to
from tenure.service.cli.output import Advance, Out
from tenure.service.cli.target import Target, opened

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

ACTIONS = ("list", "discard")


def declare(commands: "Commands") -> None:
    actions = add_group(commands, "dead-letters", "list or discard what failed for good")
    listing = add_command(actions, "list", run_list, "list dead letters, newest first")
    add_filter(listing)
    listing.add_argument("--disposition", choices=list(Disposition), default=Disposition.OPEN, help="default: open")
    listing.add_argument("--limit", type=positive, default=LIMIT, help=f"how many, up to {MOST} (default: %(default)s)")
    add_tenants(listing)
    discarding = add_command(actions, "discard", run_discard, "close dead letters for good")
    add_many(discarding)
    add_tenant(discarding)
    for parser in (listing, discarding):
        add_store(parser)


def run_list(args: argparse.Namespace, out: Out) -> int:
    names.integer("limit", args.limit, 1, MOST)
    args.explain = False
    where = {**letters_of(args), "dead_letter": args.disposition}
    with opened(args, out) as target:
        return list_jobs(target, out, args, where, empty="no dead letters")


def run_discard(args: argparse.Namespace, out: Out) -> int:
    where = letters_of(args)
    single = one_of_many(args, where, of_many=("dry_run",))
    with opened(args, out) as target:
        if single:
            return one(target, out, args.id)
        deed = Deed(
            verb="discard",
            done="discarded",
            noun="dead letter",
            where={"dead_letter": Disposition.OPEN, **where},
            do=lambda advance: many(target, where, advance),
        )
        return do_to_many(target, out, args, deed)


async def many(target: Target, where: LetterWhere, advance: Advance) -> Tally:
    return tally_of(await target.surface.dead_letters(**where).discard(progress=told_to(advance)))


def one(target: Target, out: Out, id: str) -> int:
    target.run(target.surface.discard(id))
    if out.json:
        out.document({"id": id, "discarded": True})
    else:
        out.line("discarded")
    return 0
