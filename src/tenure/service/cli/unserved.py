"""What `tenure doctor` says of work that no worker does: queues that none serves, job types that none knows, and
schedules that none could run or declares.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tenure.domain.calls import JobFilter
from tenure.domain.errors import InvalidValue
from tenure.domain.names import SYSTEM
from tenure.domain.states import State, Status
from tenure.domain.store import Store
from tenure.engine.job_types import handled_now
from tenure.engine.schedules import SCHEDULE, SCHEDULED, StoredSchedule, schedule_of
from tenure.engine.worker.presence import WorkerCard
from tenure.service.cli.checks import Check, warning

LOOKED_AT = 5_000
"""Waiting jobs that are looked at, newest first."""
PAGE = 1_000
NAMED = 5
"""Names that one line has at most."""


class Waiting(NamedTuple):
    """Of the jobs that wait: the queues with one to run now, and the types."""

    queues: set[str]
    job_types: set[str]


class Known(NamedTuple):
    """What the workers that are there serve; types are None where one of them doesn't say."""

    queues: set[str]
    job_types: set[str] | None


Scheduled = dict[tuple[str, str], StoredSchedule]
"""Schedules by tenant and name."""


async def unserved_checks(store: Store, workers: list[WorkerCard]) -> list[Check]:
    """Where there is no worker at all, that is said already: only what is held for want of code is named then."""
    schedules = await scheduled(store)
    checks = undeclared(schedules)
    if workers:
        waiting, known = await waiting_jobs(store), await known_by(store, workers)
        checks += [*unserved_queues(waiting, known), *unknown_types(waiting, known), *unknown_ticks(schedules, known)]
    return checks


# What there is


async def waiting_jobs(store: Store) -> Waiting:
    """As far as the newest waiting jobs tell."""
    waiting, cursor = Waiting(set(), set()), None
    for _ in range(LOOKED_AT // PAGE):
        page = await store.query(JobFilter(states=(State.PENDING,)), after=cursor, limit=PAGE)
        waiting.queues.update(view.job.spec.queue for view in page.jobs if view.status is Status.READY)
        waiting.job_types.update(view.job.spec.job_type for view in page.jobs)
        cursor = page.cursor
        if cursor is None:
            break
    return waiting


async def known_by(store: Store, workers: list[WorkerCard]) -> Known:
    handled = await handled_now(store)
    named = [card.handled for card in workers]
    types = {name for names in named for one in names or () if one in handled for name in handled[one].job_types}
    return Known({queue for card in workers for queue in card.queues}, None if None in named else types)


async def scheduled(store: Store) -> Scheduled:
    """Every tenant's schedules that can be read."""
    found: Scheduled = {}
    for mark in await store.list_documents(SYSTEM, SCHEDULED):
        for document in await store.list_documents(mark.name, SCHEDULE):
            try:
                schedule = schedule_of(document)
            except InvalidValue:
                continue  # workers log it
            if schedule is not None:
                found[mark.name, document.name] = schedule
    return found


# What is wrong with it


def unserved_queues(waiting: Waiting, known: Known) -> list[Check]:
    left = waiting.queues - known.queues
    if not left:
        return []
    found = f"jobs are ready in {listed(left)}, and no worker serves that"
    advice = "start a worker with --queues for it, or look for a mistyped queue or job type: tenure jobs --queue NAME"
    return [warning("queues", found, advice)]


def unknown_types(waiting: Waiting, known: Known) -> list[Check]:
    left = set() if known.job_types is None else waiting.job_types - known.job_types
    if not left:
        return []
    found = f"jobs of {listed(left)} wait, and no worker knows that type"
    advice = (
        "deploy a worker that does, or look for a mistyped type: tenure jobs --type NAME; "
        "workers give such a job back every 30 s, and it fails after an hour"
    )
    return [warning("types", found, advice)]


def unknown_ticks(schedules: Scheduled, known: Known) -> list[Check]:
    left = [
        f"{of(*key)} (job {schedule.job.job_type})"
        for key, schedule in schedules.items()
        if known.job_types is not None and not schedule.held and schedule.job.job_type not in known.job_types
    ]
    if not left:
        return []
    advice = "deploy a worker that knows it, or: tenure schedules remove NAME"
    return [warning("schedules", f"no worker knows the job of {listed(left)}", advice)]


def undeclared(schedules: Scheduled) -> list[Check]:
    left = [of(*key) for key, schedule in schedules.items() if schedule.undeclared]
    if not left:
        return []
    found = f"no worker has declared {listed(left)} for 24 hours: paused"
    return [warning("undeclared", found, "it goes on when a worker does; else: tenure schedules remove NAME")]


def of(tenant: str, name: str) -> str:
    return f"{name} of tenant {tenant}"


def listed(found: Iterable[str]) -> str:
    """The first few by name, and how many more there are."""
    ordered = sorted(found)
    rest = f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
    return ", ".join(ordered[:NAMED]) + rest
