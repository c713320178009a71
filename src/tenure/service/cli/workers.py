"""`tenure workers`: who runs what, since when."""

import argparse
import time
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.domain.names import SYSTEM
from tenure.domain.store import Store
from tenure.engine.worker.presence import WORKER, WorkerCard
from tenure.service.cli.arguments import add_command, add_store
from tenure.service.cli.output import Column, Out
from tenure.service.cli.target import Target, opened
from tenure.service.cli.words import clip, span

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

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
    return await cards_of(await target.store())


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
