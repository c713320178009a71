"""Doing something to many jobs: count them, ask, then do it."""

import argparse
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from tenure.domain.errors import InvalidValue
from tenure.engine.dead_letters import Summary
from tenure.service.cli.output import Advance, Out
from tenure.service.cli.target import Target
from tenure.service.cli.words import counted

COUNTED = 10_000
"""Jobs that are counted at most before anything is done."""


class Tally(msgspec.Struct, frozen=True):
    """What came of it."""

    done: int
    passed: int = 0
    """Those with nothing left to do."""
    refused: dict[str, int] = {}
    """How many were refused, and why."""


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to the jobs that match."""

    verb: str
    done: str
    noun: str = "job"
    where: Mapping[str, Any]
    do: Callable[[Advance], Coroutine[Any, Any, Tally]]


def do_to_many(target: Target, out: Out, args: argparse.Namespace, deed: Deed) -> int:
    """Counts, asks and does it. Exit code 1 when the answer is no, or some were refused."""
    if args.dry_run:
        return _dry(target, out, deed)
    count, capped = target.run(matching(target, deed.where, COUNTED))
    tally = Tally(0)
    if count:
        if not args.yes and not _confirmed(target, out, deed, count, capped):
            out.say("nothing was done")
            return 1
        with out.progress(f"{deed.verb} {deed.noun}s of {target.tenant}", None if capped else count) as advance:
            tally = target.run(deed.do(advance))
    return _told(out, deed, tally)


async def matching(target: Target, where: Mapping[str, Any], most: int | None = None) -> tuple[int, bool]:
    """How many jobs match, and whether there are more than were counted."""
    count = 0
    async for page in target.surface.pages(where):
        count += len(page)
        if most is not None and count > most:
            return most, True
    return count, False


def _dry(target: Target, out: Out, deed: Deed) -> int:
    count, _ = target.run(matching(target, deed.where))
    if out.json:
        out.document({"dry_run": True, "matched": count})
    else:
        out.line(f"would {deed.verb} {counted(count, deed.noun)}")
    return 0


def _confirmed(target: Target, out: Out, deed: Deed, count: int, capped: bool) -> bool:
    """Asks on the terminal. Raises `InvalidValue` where there is none."""
    many = f"{'more than ' * capped}{counted(count, deed.noun)} of tenant {target.tenant}"
    if not sys.stdin.isatty():
        raise InvalidValue(f"this would {deed.verb} {many}, and there is no terminal to ask: give --yes to do it")
    return out.ask(f"{deed.verb.capitalize()} {many}?")


def _told(out: Out, deed: Deed, tally: Tally) -> int:
    if out.json:
        out.document({deed.done: tally.done, "nothing_to_do": tally.passed, "refused": tally.refused})
    else:
        out.line(f"{deed.done} {counted(tally.done, deed.noun)}")
    for reason, count in tally.refused.items():
        out.say(f"{counted(count, deed.noun)} refused: {reason}")
    return 1 if tally.refused else 0


# Dead letters


def told_to(advance: Advance) -> Callable[[Summary], None]:
    """Moves a bar as the engine tells of its progress."""
    seen = 0

    def told(summary: Summary) -> None:
        nonlocal seen
        advance(summary.matched - seen)
        seen = summary.matched

    return told


def tally_of(summary: Summary) -> Tally:
    return Tally(summary.replayed + summary.discarded, summary.already, summary.reasons)
