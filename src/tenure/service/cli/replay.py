"""`tenure replay`: failed jobs once more, as new ones."""

import argparse
from typing import TYPE_CHECKING

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.states import Disposition
from tenure.engine.dead_letters import LetterWhere
from tenure.service.cli.arguments import (
    add_command,
    add_many,
    add_store,
    add_tenant,
    json_object,
    letters_of,
    one_of_many,
    rate,
)
from tenure.service.cli.many import Deed, Tally, do_to_many, tally_of, told_to
from tenure.service.cli.output import Advance, Out
from tenure.service.cli.target import Target, opened

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands


def declare(commands: "Commands") -> None:
    parser = add_command(commands, "replay", run, "make new jobs of failed ones")
    add_many(parser)
    parser.add_argument("--payload", type=json_object, metavar="JSON", help="other arguments, for one job")
    parser.add_argument("--again", action="store_true", help="one more, although it was replayed before")
    parser.add_argument("--rate", type=rate, help="no faster than, as in 50/s")
    add_tenant(parser)
    add_store(parser)


def run(args: argparse.Namespace, out: Out) -> int:
    where = letters_of(args)
    single = one_of_many(args, where, of_many=("dry_run", "rate"))
    if not single and (args.payload is not None or args.again):
        raise InvalidValue("--payload and --again go with the ID of one job")
    if single:
        names.job_id(args.id)
    with opened(args, out) as target:
        if single:
            return one(target, out, args)
        deed = Deed(
            verb="replay",
            done="replayed",
            where={"dead_letter": Disposition.OPEN, **where},
            do=lambda advance: many(target, where, args.rate, advance),
        )
        return do_to_many(target, out, args, deed)


async def many(target: Target, where: LetterWhere, rate: str | None, advance: Advance) -> Tally:
    letters = target.surface.dead_letters(**where)
    return tally_of(await letters.replay(rate=rate, progress=told_to(advance)))


def one(target: Target, out: Out, args: argparse.Namespace) -> int:
    """One job; prints the new one's id."""
    handle = target.run(target.surface.replay(args.id, payload=args.payload, again=args.again))
    if out.json:
        out.document({"id": handle.id, "created": handle.created, "replay_of": args.id})
    else:
        out.line(handle.id)
    if not handle.created:
        out.say("it was replayed before, as this job; --again makes another")
    return 0
