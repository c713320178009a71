"""`tenure schedules`: what is enqueued by the clock."""

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.engine.schedules import Schedule
from tenure.service.cli.arguments import add_command, add_group, add_store, add_tenant
from tenure.service.cli.output import Column, Out
from tenure.service.cli.target import opened
from tenure.service.cli.words import moment

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

ACTIONS = ("list",)

COLUMNS = (
    Column("name"),
    Column("when", loose=True),
    Column("type", loose=True),
    Column("queue", loose=True),
    Column("next"),
    Column("last"),
)


def declare(commands: "Commands") -> None:
    actions = add_group(commands, "schedules", "list schedules")
    listing = add_command(actions, "list", run_list, "list schedules by name, and when they fire")
    add_tenant(listing)
    add_store(listing)


def run_list(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out) as target:
        schedules = target.run(target.surface.schedules())
    if out.json:
        out.document({"schedules": [document(one) for one in schedules]})
    else:
        out.table(COLUMNS, [row(one) for one in schedules], empty="no schedules")
    return 0


def document(schedule: Schedule) -> dict[str, Any]:
    """A schedule for programs: its interval in seconds, or its cron expression."""
    fields: dict[str, Any] = msgspec.structs.asdict(schedule)
    when = fields.pop("when")
    timed = {"every": when.total_seconds()} if isinstance(when, timedelta) else {"cron": when}
    return {**fields, **timed}


def row(schedule: Schedule) -> tuple[str, ...]:
    upcoming = "paused" if schedule.paused else "never" if schedule.next_at is None else moment(schedule.next_at)
    last = "" if schedule.last_at is None else moment(schedule.last_at)
    return schedule.name, when_text(schedule), schedule.job_type, schedule.queue, upcoming, last


def when_text(schedule: Schedule) -> str:
    """`0 3 * * * (Europe/Rome)`, `every 90 s`."""
    if isinstance(schedule.when, timedelta):
        return f"every {schedule.when.total_seconds():g} s"
    return f"{schedule.when} ({schedule.tz})"
