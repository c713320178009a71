"""`tenure schedules`: what is enqueued by the clock, and stopping it."""

import argparse
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.engine.app import Tenant
from tenure.engine.schedules import Schedule
from tenure.service.cli.arguments import add_command, add_group, add_store, add_tenant
from tenure.service.cli.output import Column, Out
from tenure.service.cli.target import opened
from tenure.service.cli.words import moment

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

ACTIONS = ("list", "pause", "resume", "remove")

COLUMNS = (
    Column("name"),
    Column("when", loose=True),
    Column("type", loose=True),
    Column("queue", loose=True),
    Column("made", loose=True),
    Column("next"),
    Column("last"),
)


def declare(commands: "Commands") -> None:
    actions = add_group(commands, "schedules", "list, pause, resume and remove schedules")
    listing = add_command(actions, "list", run_list, "list schedules by name, and when they fire")
    add_tenant(listing)
    add_store(listing)
    for action, run, help in (
        ("pause", run_pause, "let a schedule fire nothing"),
        ("resume", run_resume, "let it fire again, from now on"),
        ("remove", run_remove, "remove a schedule; its jobs stay"),
    ):
        parser = add_command(actions, action, run, help)
        parser.add_argument("name", metavar="NAME", help="the schedule")
        add_tenant(parser)
        add_store(parser)


def run_list(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out) as target:
        schedules = target.run(target.surface.schedules())
    if out.json:
        out.document({"schedules": [document(one) for one in schedules]})
    else:
        out.table(COLUMNS, [row(one) for one in schedules], empty="no schedules")
    return 0


def run_pause(args: argparse.Namespace, out: Out) -> int:
    return _changed(args, out, lambda home, name: home.pause_schedule(name))


def run_resume(args: argparse.Namespace, out: Out) -> int:
    return _changed(args, out, lambda home, name: home.resume_schedule(name))


def _changed(args: argparse.Namespace, out: Out, change: Callable[[Tenant, str], Coroutine[Any, Any, Schedule]]) -> int:
    """Says how the schedule stands now, or why it can't be changed."""
    names.name("schedule", args.name)
    with opened(args, out) as target:
        try:
            schedule = target.run(change(target.surface, args.name))
        except InvalidValue as error:
            out.say(str(error))
            return 1
    if out.json:
        out.document(document(schedule))
    else:
        out.line(f"{args.name} of tenant {args.tenant}: {upcoming(schedule)}")
    return 0


def run_remove(args: argparse.Namespace, out: Out) -> int:
    names.name("schedule", args.name)
    with opened(args, out) as target:
        try:
            removed = target.run(target.surface.unschedule(args.name))
        except InvalidValue as error:
            out.say(str(error))
            return 1
    if out.json:
        out.document({"tenant": args.tenant, "name": args.name, "removed": removed})
    elif removed:
        out.line(f"{args.name} of tenant {args.tenant}: removed")
    if not removed:
        out.say(f"schedule {args.name!r}: tenant {args.tenant} has none of this name")
    return 0 if removed else 1


def document(schedule: Schedule) -> dict[str, Any]:
    """A schedule for programs: its interval in seconds, or its cron expression."""
    fields: dict[str, Any] = msgspec.structs.asdict(schedule)
    when = fields.pop("when")
    timed = {"every": when.total_seconds()} if isinstance(when, timedelta) else {"cron": when}
    return {**fields, **timed}


def row(schedule: Schedule) -> tuple[str, ...]:
    last = "" if schedule.last_at is None else moment(schedule.last_at)
    made = "in code" if schedule.declared else "at run time"
    return schedule.name, when_text(schedule), schedule.job_type, schedule.queue, made, upcoming(schedule), last


def upcoming(schedule: Schedule) -> str:
    """When it fires next, or why it doesn't."""
    if schedule.undeclared:
        return "paused: undeclared"
    return "paused" if schedule.paused else "never" if schedule.next_at is None else moment(schedule.next_at)


def when_text(schedule: Schedule) -> str:
    """`0 3 * * * (Europe/Rome)`, `every 90 s`."""
    if isinstance(schedule.when, timedelta):
        return f"every {schedule.when.total_seconds():g} s"
    return f"{schedule.when} ({schedule.tz})"
