"""`tenure workers`: who runs what, since when."""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.domain.names import SYSTEM
from tenure.domain.states import State
from tenure.domain.store import Store
from tenure.engine.handle import Job
from tenure.engine.worker.presence import LISTED, WORKER, RunningJob, WorkerCard
from tenure.service.cli.arguments import add_command, add_store
from tenure.service.cli.output import Column, Out
from tenure.service.cli.target import Target, opened
from tenure.service.cli.words import clip, span

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

COUNTED = 5_000
"""Running jobs that are counted at most. Where more run, each worker's own list is shown, up to ten seconds old."""

COLUMNS = (
    Column("worker"),
    Column("host", loose=True),
    Column("pid", right=True),
    Column("since", right=True),
    Column("running", right=True),
    Column("queues", loose=True),
    Column("jobs", loose=True),
)


def declare(commands: "Commands") -> None:
    add_store(add_command(commands, "workers", run, "list workers: who runs what, since when"))


def run(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out) as target:
        cards = target.run(listed(target))
    if out.json:
        out.document({"workers": [document(card) for card in cards]})
    else:
        out.table(COLUMNS, rows(cards), empty="no workers")
    return 0


async def listed(target: Target) -> list[WorkerCard]:
    cards = await cards_of(await target.store())
    running = await target.jobs(COUNTED + 1, state=State.RUNNING)
    return cards if len(running) > COUNTED else holding(cards, running)


def holding(cards: list[WorkerCard], running: Iterable[Job]) -> list[WorkerCard]:
    """The same workers with the jobs that run now: a worker writes its own list every ten seconds."""
    held: dict[str | None, list[Job]] = defaultdict(list)
    for job in running:
        held[job.worker].append(job)
    return [_holding(card, held[card.name]) for card in cards]


def _holding(card: WorkerCard, held: list[Job]) -> WorkerCard:
    seconds = {job.id: job.seconds for job in card.jobs}
    jobs = tuple(RunningJob(job.tenant, job.id, job.job_type, seconds.get(job.id, 0.0)) for job in held[:LISTED])
    return msgspec.structs.replace(card, running=len(held), jobs=jobs)


async def cards_of(store: Store) -> list[WorkerCard]:
    """What the workers that are there say of themselves."""
    documents = await store.list_documents(SYSTEM, WORKER)
    return [msgspec.json.decode(one.body, type=WorkerCard) for one in documents if one.body is not None]


def document(card: WorkerCard) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(card)
    return found


def rows(cards: list[WorkerCard]) -> list[tuple[str, ...]]:
    now = time.time()
    return [
        (
            card.name,
            card.host,
            str(card.pid),
            span(now - card.started_at),
            f"{card.running}/{card.concurrency}",
            ", ".join(card.queues),
            clip(", ".join(f"{job.job_type} {job.id}" for job in card.jobs)),
        )
        for card in cards
    ]
