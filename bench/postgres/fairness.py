"""Fairness and groups on PostgreSQL: `python -m bench.postgres.fairness [--record] [--quick]`.

A tenant with one job beside one with a million: how many jobs are handed out before it. And 1,000 groups that may run
one job at a time, with 8 worker processes: what the events say ran at once, and how fast, beside a plain queue.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

import msgspec

from bench import fairness
from bench.fairness import Worker
from bench.ids import uuid7
from bench.postgres.command import add_options, keep, say
from bench.postgres.filling import READY, fill
from bench.postgres.measure import drained
from bench.postgres.server import Server, started
from bench.postgres.subjects import TENURE
from bench.record import Figures
from bench.worker.board import Board
from tenure import Tenure
from tenure.domain.calls import Document
from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.job import NewJob
from tenure.domain.names import EVERYONE
from tenure.domain.states import EventKind, Mode
from tenure.stores.sql.postgres import PostgresStore

COMMAND = "python -m bench.postgres.fairness --record"
CLAIMS = (1, 7, 50, 100)
ROTATIONS = 4
"""For which the other tenants have jobs, at each size of claims."""
ENDS = {
    EventKind.SUCCEEDED,
    EventKind.FAILED,
    EventKind.CANCELLED,
    EventKind.RETRY_SCHEDULED,
    EventKind.RELEASED,
    EventKind.LEASE_LOST,
}
SENT_AT_ONCE = 500
PATIENCE = 1_200.0
TENANT, PLAIN, GROUPED = "default", "plain", "grouped"


class Sizes(msgspec.Struct, frozen=True):
    """How large each scene is."""

    large: int = 1_000_000
    tenants: int = 100
    groups: int = 1_000
    jobs: int = 10_000
    workers: int = 8


QUICK = Sizes(large=1_000, tenants=10, groups=20, jobs=100, workers=2)


async def one_beside_many(server: Server, sizes: Sizes) -> list[Figures]:
    """One tenant with a mountain, others with some jobs, and one with a single job that comes last.

    The ring has one place for each, so a rotation is as many jobs as there are tenants.
    """
    names = [fairness.tenant(number) for number in range(sizes.tenants)]
    dice = random.Random(1)
    large, small = dice.sample(names, 2)
    others = dict.fromkeys(names, ROTATIONS * len(CLAIMS)) | {large: sum(sizes.tenants + 2 * n for n in CLAIMS)}
    found = []
    with server.database() as url, server.connect(url) as connection:
        store = PostgresStore(url)
        await store.migrate()
        await fairness.fill(store, {name: count for name, count in others.items() if name != small})
        await asyncio.to_thread(fill, connection, READY, sizes.large - others[large], large)
        for n in CLAIMS:
            worker = Worker(store, n, dice)
            await worker.take(n)
            await fairness.fill(store, {small: 1})
            before = 0
            while small not in (taken := await worker.take(n)):
                before += len(taken)
            before += taken.index(small)
            found.append({"claims_of": n, "rotation": sizes.tenants, "handed_out_before": before})
            say(f"  {rotation_words(found[-1])}")
        await store.close()
    return found


def groups(server: Server, sizes: Sizes) -> Figures:
    """Whether two jobs of a group ever ran at once, and jobs a second beside a plain queue, in the same database."""
    with server.database() as url, tempfile.TemporaryDirectory() as folder, server.connect(url) as connection:
        asyncio.run(_enqueue(url, sizes))
        board = Board(Path(folder))
        placed = msgspec.structs.replace(TENURE, peer=None).at(url, Path(folder))
        rates = {}
        for queue in (PLAIN, GROUPED):
            settled = (
                f"SELECT NOT EXISTS (SELECT 1 FROM tenure.ready WHERE queue = '{queue}') "
                "AND NOT EXISTS (SELECT 1 FROM tenure.running)"
            )
            subject = msgspec.structs.replace(TENURE, settled=settled, concurrency=100)
            with placed.fleet("tenure_groups", queue, sizes.workers, 100):
                rates[queue] = round(sizes.jobs / drained(subject, connection, board, sizes.jobs, PATIENCE))
            board.clear()
        return {
            "groups": sizes.groups,
            "workers": sizes.workers,
            "jobs": sizes.jobs,
            **asyncio.run(_at_once(url)),
            "limited": rates[GROUPED],
            "unlimited": rates[PLAIN],
        }


async def _enqueue(url: str, sizes: Sizes) -> None:
    store = PostgresStore(url)
    await store.migrate()
    body = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1))
    await store.put_document(Document(tenant=EVERYONE, kind=QUEUE, name=GROUPED, body=body))
    for start in range(0, sizes.jobs, SENT_AT_ONCE):
        numbers = range(start, min(start + SENT_AT_ONCE, sizes.jobs))
        await store.enqueue([_job(PLAIN, None) for _ in numbers])
        await store.enqueue([_job(GROUPED, f"group-{number % sizes.groups:04}") for number in numbers])
    await store.close()


def _job(queue: str, group: str | None) -> NewJob:
    return NewJob(tenant=TENANT, id=uuid7(), queue=queue, job_type=queue, payload=b'{"sent":0}', group=group)


async def _at_once(url: str) -> Figures:
    """Goes through the feed: a group's holders after each event."""
    group_of: dict[str, str] = {}
    holders: dict[str, set[str]] = {}
    most = ran = 0
    async with Tenure(url) as app:
        async for event in app.events(follow=False):
            id = str(event.job_id)
            if event.kind is EventKind.ENQUEUED and event.group is not None:
                group_of[id] = event.group
            elif id in group_of:
                held = holders.setdefault(group_of[id], set())
                if event.kind is EventKind.CLAIMED:
                    held.add(id)
                    most = max(most, len(held))
                elif event.kind in ENDS:
                    held.discard(id)
                    ran += event.kind is EventKind.SUCCEEDED
    return {"most_at_once": most, "ran": ran}


def measure(server: Server, sizes: Sizes) -> Figures:
    rotation = asyncio.run(one_beside_many(server, sizes))
    grouped = groups(server, sizes)
    say(f"  {group_words(grouped)}")
    return {"sizes": msgspec.to_builtins(sizes), "rotation": rotation, "groups": grouped}


def rotation_words(run: Figures) -> str:
    before, rotation = run["handed_out_before"], run["rotation"]
    return f"claims of {run['claims_of']}: {before} jobs before the one, a rotation is {rotation}"


def group_words(run: Figures) -> str:
    return (
        f"{run['groups']:,} groups of limit 1, {run['workers']} workers: at most {run['most_at_once']} of a group at "
        f"once in {run['ran']:,} jobs; {run['limited']:,} jobs/s beside {run['unlimited']:,} in a plain queue"
    )


def in_turn(figures: Figures) -> bool:
    return all(run["handed_out_before"] <= run["rotation"] for run in figures["rotation"])


def one_at_a_time(figures: Figures) -> bool:
    grouped = figures["groups"]
    return bool(grouped["most_at_once"] == 1 and grouped["ran"] == grouped["jobs"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.postgres.fairness", description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    with started(anywhere=options.quick) as server:
        figures = {"server": server.settings, **measure(server, QUICK if options.quick else Sizes())}
    keep(options.record, "postgres_fairness", COMMAND, figures)
    return 0 if in_turn(figures) and one_at_a_time(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
