"""`tenure queues`: what is set for each queue, and how much waits and runs in it."""

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.errors import InvalidValue
from tenure.domain.names import EVERYONE
from tenure.domain.rate import Rate
from tenure.domain.states import Mode, State
from tenure.domain.store import Store
from tenure.engine.job_types import JOB_TYPE
from tenure.engine.queue import Queue, QueueOptions
from tenure.engine.surface import LIVE
from tenure.service.cli.arguments import add_command, add_group, add_store, add_tenants, names, pair, positive, seconds
from tenure.service.cli.output import Column, Out
from tenure.service.cli.target import Target, opened
from tenure.service.cli.words import rate_text

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

ACTIONS = ("list", "configure", "pause", "resume")

COUNTED = 10_000
"""Live jobs that are counted at most."""

COLUMNS = (
    Column("queue"),
    Column("waiting", right=True),
    Column("running", right=True),
    Column("state"),
    Column("configuration", loose=True),
)
TENANT = Column("tenant", loose=True)

FIELDS = tuple(QueueOptions.__annotations__)


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of one tenant."""

    tenant: str
    queue: str
    waiting: int
    running: int
    paused: bool
    config: dict[str, Any]


class _Declared(msgspec.Struct, frozen=True):
    """What is needed of a job type's document."""

    queue: str


def declare(commands: "Commands") -> None:
    actions = add_group(commands, "queues", "list, configure, pause and resume queues")
    listing = add_command(actions, "list", run_list, "list queues with their configuration and how much is in them")
    add_tenants(listing)
    add_store(listing)
    _add_configure(add_command(actions, "configure", run_configure, "set what holds for a queue, and leave the rest"))
    for action, help in (("pause", "let no job of a queue be claimed"), ("resume", "let them be claimed again")):
        _add_queue(add_command(actions, action, run_pause if action == "pause" else run_resume, help))


def _add_queue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the queue")
    parser.add_argument(
        "--tenant", help="for one tenant alone (default: for everyone who has nothing of their own set)"
    )
    add_store(parser)


def _add_configure(parser: argparse.ArgumentParser) -> None:
    """An option for every field of `QueueOptions`."""
    parser.add_argument("--mode", choices=list(Mode), help="keyed: jobs have groups, which take turns")
    parser.add_argument("--ordered", action=argparse.BooleanOptionalAction, help="one at a time in each group")
    parser.add_argument("--group-limit", type=positive, metavar="N", help="jobs of one group at once")
    parser.add_argument(
        "--group-limits", action="append", type=group_limit, metavar="GROUP=N", help="the limit of one group"
    )
    parser.add_argument("--group-rate", metavar="N/s", help="jobs of one group in a time")
    parser.add_argument("--group-burst", type=positive, metavar="N", help="how many of them may come together")
    parser.add_argument("--limit", type=positive, metavar="N", help="jobs at once, over all workers")
    parser.add_argument("--rate", metavar="N/s", help="jobs in a time, as in 100/s, 5/min, 10/30s")
    parser.add_argument("--burst", type=positive, metavar="N", help="how many of them may come together")
    parser.add_argument("--weight", type=positive, metavar="N", help="its share among the tenant's queues, 1 to 16")
    parser.add_argument("--max-depth", type=int, metavar="N", help="waiting jobs at most; more are refused")
    parser.add_argument("--lease", type=seconds, metavar="SECONDS", help="how long a worker may be silent")
    parser.add_argument("--grace", type=seconds, metavar="SECONDS", help="how long after that an answer counts")
    parser.add_argument("--unset", type=names, metavar="FIELD[,…]", help="take settings back, as in limit,rate")
    _add_queue(parser)


def group_limit(text: str) -> tuple[str, int]:
    """`group=limit`."""
    group, limit = pair(text)
    return group, positive(limit)


# Changing


def run_configure(args: argparse.Namespace, out: Out) -> int:
    options = options_of(args)
    with opened(args, out, creates=True) as target:
        target.run(queue_of(target, args).configure(**options))
        return _set(target, out, args)


def run_pause(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out, creates=True) as target:
        target.run(queue_of(target, args).pause())
        return _set(target, out, args)


def run_resume(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out, creates=True) as target:
        target.run(queue_of(target, args).resume())
        return _set(target, out, args)


def options_of(args: argparse.Namespace) -> QueueOptions:
    """What was given, and None for what is taken back."""
    given: dict[str, Any] = {name: getattr(args, name) for name in FIELDS if getattr(args, name) is not None}
    if "group_limits" in given:
        given["group_limits"] = dict(given["group_limits"])
    for name in (field.replace("-", "_") for field in args.unset or ()):
        if name not in FIELDS:
            raise InvalidValue(f"--unset {name!r:.80}: give any of {', '.join(FIELDS)}")
        if name in given:
            raise InvalidValue(f"{name} is set and unset at once")
        given[name] = None
    if not given:
        raise InvalidValue("nothing to configure: give a setting such as --limit 10, or --unset limit")
    options = QueueOptions()
    options.update(given)  # type: ignore[typeddict-item]  # its keys are those of QueueOptions
    return options


def queue_of(target: Target, args: argparse.Namespace) -> Queue:
    return target.app.queue(args.name) if args.tenant is None else target.surface.queue(args.name)


def _set(target: Target, out: Out, args: argparse.Namespace) -> int:
    """Says what is set now."""
    config = target.run(queue_of(target, args).config())
    shown = config_document(config)
    if out.json:
        tenant = args.tenant or EVERYONE
        out.document({"tenant": tenant, "queue": args.name, "paused": bool(config.paused), "config": shown})
    else:
        whose = "every tenant" if args.tenant is None else f"tenant {args.tenant}"
        out.line(f"{args.name} of {whose}: {state_of(bool(config.paused))}, {config_text(shown) or 'nothing set'}")
    return 0


# Listing


def run_list(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out) as target:
        rows, capped = target.run(listed(target))
    if out.json:
        out.document({"queues": rows, "capped": capped})
        return 0
    tenants = args.all_tenants
    shown = [(*((row.tenant,) if tenants else ()), *_cells(row)) for row in rows]
    out.table((*((TENANT,) if tenants else ()), *COLUMNS), shown, empty="no queues")
    if capped:
        out.say(f"only the newest {COUNTED:,} waiting and running jobs were counted")
    return 0


def _cells(row: QueueRow) -> tuple[str, ...]:
    return row.queue, str(row.waiting), str(row.running), state_of(row.paused), config_text(row.config)


async def listed(target: Target) -> tuple[list[QueueRow], bool]:
    """Every queue that is configured, declared by a worker, or has live jobs; and whether the counts are short."""
    counts: Counter[tuple[str, str, bool]] = Counter()
    async for job in target.jobs(COUNTED + 1, state=LIVE):
        counts[job.tenant, job.queue, job.state is State.RUNNING] += 1
    store = await target.store()
    everyone = await configs(store, EVERYONE)
    tenants = {tenant for tenant, _, _ in counts} if target.tenant is None else {target.tenant}
    own = {(tenant, name): config for tenant in tenants for name, config in (await configs(store, tenant)).items()}
    lanes = {(tenant, queue) for tenant, queue, _ in counts} | own.keys()
    known = everyone.keys() | await declared(store)
    lanes |= {(target.tenant or EVERYONE, queue) for queue in known}
    rows = [_row(lane, counts, own.get(lane), everyone.get(lane[1])) for lane in sorted(lanes)]
    return rows, counts.total() > COUNTED


async def configs(store: Store, tenant: str) -> dict[str, QueueConfig]:
    """What is set for queues at one level."""
    documents = await store.list_documents(tenant, QUEUE)
    return {one.name: msgspec.json.decode(one.body, type=QueueConfig) for one in documents if one.body is not None}


async def declared(store: Store) -> set[str]:
    """Queues of the job types that workers have published."""
    documents = await store.list_documents(EVERYONE, JOB_TYPE)
    return {msgspec.json.decode(one.body, type=_Declared).queue for one in documents if one.body is not None}


def _row(
    lane: tuple[str, str],
    counts: Counter[tuple[str, str, bool]],
    own: QueueConfig | None,
    everyone: QueueConfig | None,
) -> QueueRow:
    near, far = own or QueueConfig(), everyone or QueueConfig()
    return QueueRow(
        tenant=lane[0],
        queue=lane[1],
        waiting=counts[*lane, False],
        running=counts[*lane, True],
        paused=bool(near.paused or far.paused),
        config={**config_document(far), **config_document(near)},
    )


# Words


def config_document(config: QueueConfig) -> dict[str, Any]:
    """What is set, as `configure` takes it: durations in seconds, rates as text."""
    found = {name: getattr(config, name) for name in FIELDS}
    return {name: _given(name, value) for name, value in found.items() if value is not None}


def _given(name: str, value: Any) -> Any:
    if isinstance(value, Rate):
        return rate_text(value)
    return value / 1_000 if name in ("lease", "grace") else value


def config_text(config: dict[str, Any]) -> str:
    """`limit=100 rate=5/s`."""
    return " ".join(f"{name}={_value_text(value)}" for name, value in config.items())


def _value_text(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ",".join(f"{group}:{limit}" for group, limit in value.items())
        case float():
            return f"{value:g}"
    return str(value)


def state_of(paused: bool) -> str:
    return "paused" if paused else "active"
