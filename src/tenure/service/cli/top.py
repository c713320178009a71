"""`tenure top`: a live view of workers, running jobs, and how fast things happen."""

import argparse
import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.domain.errors import InvalidValue, Refused
from tenure.domain.event import Event
from tenure.domain.names import Ms
from tenure.domain.states import State, Status
from tenure.domain.store import LATEST, Store
from tenure.engine.handle import Job
from tenure.engine.worker.presence import WorkerCard
from tenure.service.cli import workers
from tenure.service.cli.arguments import add_command, add_store, add_tenants, seconds
from tenure.service.cli.output import Column, Out, plain_table, rich_table
from tenure.service.cli.shown import job_document
from tenure.service.cli.target import Target, opened
from tenure.service.cli.words import age, counted, moment

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tenure.service.cli.arguments import Commands

WINDOW_SECONDS = 60
"""How far back events count as recent."""
SHOWN = 20
"""Running jobs in a frame."""
EVENTS = 5_000
"""Events read at once."""
COUNTED = 5_000
"""Waiting jobs, and running ones, that one frame counts at most: it reads them one by one."""
WAITING = (State.BLOCKED, State.PENDING)
READS = 200
"""Reads of the feed for one frame at most; a frame that is behind says so."""

JOB_COLUMNS = (
    Column("id"),
    Column("type", loose=True),
    Column("queue", loose=True),
    Column("worker", loose=True),
    Column("attempt", right=True),
    Column("age", right=True),
    Column("progress", loose=True),
)
QUEUE_COLUMNS = (
    Column("queue", loose=True),
    Column("ready", right=True),
    Column("scheduled", right=True),
    Column("blocked", right=True),
    Column("running", right=True),
)
EVENT_COLUMNS = (Column("event"), Column("count", right=True), Column("per second", right=True))


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs wait and run in a queue, over the tenants that are looked at."""

    queue: str
    ready: int
    scheduled: int
    """Those that wait for a time: a delay, or the pause before another attempt."""
    blocked: int
    """Those that wait for other jobs."""
    running: int


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What one look found."""

    at: datetime
    workers: list[WorkerCard]
    running: list[Job]
    more: bool
    """More jobs run than are listed."""
    queues: list[Backlog]
    capped: bool
    """There are more waiting, or more running jobs than were counted."""
    events: dict[str, int]
    """Recent events by kind."""
    window_seconds: int
    """How long a time the events are of: those before it began to watch aren't looked for."""
    caught_up: bool
    """False: the feed is still being read, and the counts are short."""


def declare(commands: "Commands") -> None:
    parser = add_command(commands, "top", run, "watch workers, running jobs and events")
    parser.add_argument("--once", action="store_true", help="print one frame and end")
    parser.add_argument("--interval", type=seconds, default=2.0, metavar="SECONDS", help="default: %(default)s")
    add_tenants(parser)
    add_store(parser)


def run(args: argparse.Namespace, out: Out) -> int:
    if args.interval < 0.1:
        raise InvalidValue(f"interval {args.interval:g}: give 0.1 seconds or more")
    with opened(args, out) as target:
        if args.once:
            show(out, target.run(Look(target).frame()))
        else:
            target.run(watch(Look(target, LATEST), out, args.interval))
    return 0


# Looking


class Recent:
    """Counts of events by kind over the last minute, by the second."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, Counter[str]]] = deque()

    def add(self, events: Sequence[Event]) -> None:
        for event in events:
            second = event.at // 1_000
            if not self._seconds or self._seconds[-1][0] < second:
                self._seconds.append((second, Counter()))
            self._seconds[-1][1][event.kind] += 1
        while len(self._seconds) > WINDOW_SECONDS + 1:
            self._seconds.popleft()

    def counts(self, now: Ms) -> dict[str, int]:
        """Events of the window that ends now, the most frequent first."""
        since = now // 1_000 - WINDOW_SECONDS
        total = sum((counts for second, counts in self._seconds if second > since), Counter[str]())
        return dict(total.most_common())


def backlog(jobs: Iterable[Job]) -> list[Backlog]:
    """Each queue that has live jobs."""
    counts = Counter((job.queue, job.status) for job in jobs)
    return [
        Backlog(
            queue=queue,
            ready=counts[queue, Status.READY],
            scheduled=counts[queue, Status.SCHEDULED] + counts[queue, Status.RETRYING],
            blocked=counts[queue, Status.BLOCKED],
            running=counts[queue, Status.RUNNING],
        )
        for queue in sorted({queue for queue, _ in counts})
    ]


class Look:
    """Looks at a store again and again, and reads the feed on from where it was."""

    def __init__(self, target: Target, after: str | None = None) -> None:
        self._target = target
        self._recent = Recent()
        self._cursor = after
        self._watched_since = None if after is None else time.monotonic()

    async def frame(self) -> Frame:
        store = await self._target.store()
        caught_up = await self._read(store)
        cards = await workers.cards_of(store)
        running = await self._target.jobs(COUNTED + 1, state=State.RUNNING)
        waiting = await self._target.jobs(COUNTED + 1, state=WAITING)
        return Frame(
            at=datetime.now(UTC),
            workers=cards if len(running) > COUNTED else workers.holding(cards, running),
            running=running[:SHOWN],
            more=len(running) > SHOWN,
            queues=backlog([*running[:COUNTED], *waiting[:COUNTED]]),
            capped=max(len(running), len(waiting)) > COUNTED,
            events=self._recent.counts(time.time_ns() // 1_000_000),
            window_seconds=self._window(),
            caught_up=caught_up,
        )

    def _window(self) -> int:
        if self._watched_since is None:
            return WINDOW_SECONDS
        return min(WINDOW_SECONDS, math.ceil(time.monotonic() - self._watched_since))

    async def _read(self, store: Store) -> bool:
        """Whether the end of the feed was reached."""
        for _ in range(READS):
            page = await store.events(tenant=self._target.tenant, after=self._cursor, limit=EVENTS)
            if isinstance(page, Refused):
                raise page
            self._cursor = page.cursor
            self._recent.add(page.events)
            if not page.events:
                return True
        return False


# Showing


pause = asyncio.sleep
"""Between two frames. Tests replace it."""


async def watch(look: Look, out: Out, interval: float) -> None:
    """A frame per interval, until interrupted."""
    if not out.terminal:
        while True:
            show(out, await look.frame())
            await pause(interval)
    from rich.live import Live

    with Live(drawn(await look.frame()), auto_refresh=False, screen=True) as live:
        while True:
            await pause(interval)
            live.update(drawn(await look.frame()), refresh=True)


def show(out: Out, frame: Frame) -> None:
    """One frame: a line of JSON, plain text, or tables."""
    if out.json:
        out.item(document(frame))
    elif out.terminal:
        out.draw(drawn(frame))
    else:
        for text in plain(frame):
            out.line(text)


def document(frame: Frame) -> dict[str, Any]:
    return {
        "at": frame.at,
        "workers": [workers.document(card) for card in frame.workers],
        "running": [job_document(job) for job in frame.running],
        "more": frame.more,
        "queues": frame.queues,
        "capped": frame.capped,
        "window_seconds": frame.window_seconds,
        "events": frame.events,
        "caught_up": frame.caught_up,
    }


def head(frame: Frame) -> str:
    running = f"more than {SHOWN}" if frame.more else str(len(frame.running))
    behind = "" if frame.caught_up else ", still reading the feed"
    return f"{moment(frame.at)}: {counted(len(frame.workers), 'worker')}, {running} running{behind}"


Titled = tuple[str, Sequence[Column], list[tuple[str, ...]]]


def tables(frame: Frame) -> list[Titled]:
    """The tables of a frame that have something in them, with their titles."""
    found: list[Titled] = [
        ("workers", workers.COLUMNS, workers.rows(frame.workers)),
        (f"queues, of the newest {COUNTED:,} jobs" if frame.capped else "queues", QUEUE_COLUMNS, queue_rows(frame)),
        ("running", JOB_COLUMNS, [job_row(job, frame.at) for job in frame.running]),
        (f"events of the last {frame.window_seconds} s", EVENT_COLUMNS, event_rows(frame.events, frame.window_seconds)),
    ]
    return [one for one in found if one[2]]


def job_row(job: Job, now: datetime) -> tuple[str, ...]:
    progress = "" if job.progress is None else f"{job.progress.fraction:.0%} {job.progress.message}".strip()
    attempt = f"{job.attempt}/{job.max_attempts}"
    return job.id, job.job_type, job.queue, job.worker or "", attempt, age(job.enqueued_at, now), progress


def queue_rows(frame: Frame) -> list[tuple[str, ...]]:
    return [
        (one.queue, f"{one.ready:,}", f"{one.scheduled:,}", f"{one.blocked:,}", f"{one.running:,}")
        for one in frame.queues
    ]


def event_rows(events: dict[str, int], seconds: int) -> list[tuple[str, ...]]:
    return [(kind, f"{count:,}", f"{count / seconds:.1f}") for kind, count in events.items()]


def plain(frame: Frame) -> list[str]:
    lines = [head(frame)]
    for title, columns, rows in tables(frame):
        lines += ["", title, *plain_table(columns, rows)]
    return [*lines, ""]


def drawn(frame: Frame) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    return Group(Text(head(frame)), *(rich_table(columns, rows, title) for title, columns, rows in tables(frame)))
