"""Fairness, counted: small tenants beside a huge one, weights, and a lone tenant; on memory and SQLite.

Everything here is a count, not a time, so it is the same on every machine.
"""

import asyncio
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.ids import uuid7
from bench.record import Figures
from bench.subject import MAIL
from tenure.domain.calls import Claim, Claimed, Cursor, Document, Settle, Succeed
from tenure.domain.config import TENANT, TenantConfig
from tenure.domain.job import NewJob
from tenure.domain.names import DAY
from tenure.domain.store import Store
from tenure.stores.memory import MemoryStore
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.clock import ManualClock

Make = Callable[[Path], Store]
Say = Callable[[str], None]

MAKES: dict[str, Make] = {
    "memory": lambda folder: MemoryStore(ManualClock()),
    "sqlite": lambda folder: SqliteStore(folder / "jobs.db", ManualClock()),
}
CLAIMS = (1, 7, 50)
TOLERANCE = 0.10
SETTLED_AT_ONCE = 500


class Sizes(msgspec.Struct, frozen=True):
    """How large each scene is."""

    tenants: int = 100
    large: int = 100_000
    small: int = 10
    weighted_tenants: int = 20
    weighted_jobs: int = 2_000
    lone: int = 5_000


SMALL = Sizes(tenants=10, large=200, small=3, weighted_tenants=6, weighted_jobs=60, lone=60)
"""Enough to show the same within a second."""


class Worker:
    """Claims with a cursor of its own, which starts at random, and settles what it got, many at a time."""

    def __init__(self, store: Store, number: int, dice: random.Random) -> None:
        self._store = store
        self._name = f"worker-{number}"
        self._cursor = Cursor(f"tenant-{dice.randrange(1_000):03}")
        self._held: list[Settle] = []

    async def take(self, n: int) -> list[str]:
        """The tenants of the jobs that a claim gave, in order."""
        claimed = await self._store.claim(
            Claim(
                claim_id=os.urandom(16),
                worker=self._name,
                queues=((MAIL, None),),
                n=n,
                ttl=DAY,
                cursor=self._cursor,
            )
        )
        if not isinstance(claimed, Claimed):
            raise claimed
        self._cursor = claimed.cursor
        self._held += [Settle(job.token, Succeed()) for job in claimed.jobs]
        if len(self._held) >= SETTLED_AT_ONCE:
            await self._store.settle(self._held)
            self._held = []
        return [job.token.tenant for job in claimed.jobs]


def tenant(number: int) -> str:
    return f"tenant-{number:03}"


async def fill(store: Store, counts: dict[str, int]) -> None:
    """So many jobs of each tenant, in the order given: the first tenant's are all older."""
    jobs = (
        NewJob(tenant=name, id=uuid7(), queue=MAIL, job_type="send", payload=b"{}")
        for name, count in counts.items()
        for _ in range(count)
    )
    for batch in _batches(jobs):
        await store.enqueue(batch)


def _batches(jobs: Iterator[NewJob], size: int = 1_000) -> Iterator[list[NewJob]]:
    batch: list[NewJob] = []
    for job in jobs:
        batch.append(job)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def small_beside_large(store: Store, sizes: Sizes, n: int, seed: int = 1) -> Figures:
    """One tenant with a mountain of jobs: how many are handed out before each small tenant's turn comes.

    One worker; the ring has one place per tenant, so a rotation is as many jobs as there are tenants.
    """
    names = [tenant(number) for number in range(sizes.tenants)]
    dice = random.Random(seed)
    large = dice.choice(names)
    left = Counter({name: sizes.large if name == large else sizes.small for name in names})
    await fill(store, {large: sizes.large, **left})
    worker = Worker(store, 1, dice)
    last_at = dict.fromkeys(names, -1)
    firsts: dict[str, int] = {}
    widest, handed_out = 0, 0
    while any(left[name] for name in names if name != large):
        for name in await worker.take(n):
            firsts.setdefault(name, handed_out)
            widest = max(widest, handed_out - last_at[name])
            last_at[name] = handed_out
            left[name] -= 1
            handed_out += 1
    first = max(before for name, before in firsts.items() if name != large)
    return {
        "claims_of": n,
        "rotation": len(names),
        "longest_wait_for_first": first,
        "longest_wait": widest,
        "handed_out": handed_out,
        "ok": first < len(names) and widest <= len(names),
    }


async def shares(store: Store, sizes: Sizes, n: int, seed: int = 1) -> Figures:
    """Tenants of weights 1 to 3, two workers: what each tenant got while all had work, against its weight."""
    weights = {tenant(number): number % 3 + 1 for number in range(sizes.weighted_tenants)}
    for name, weight in weights.items():
        body = msgspec.json.encode(TenantConfig(weight=weight))
        await store.put_document(Document(tenant=name, kind=TENANT, name=name, body=body))
    await fill(store, dict.fromkeys(weights, sizes.weighted_jobs))
    dice = random.Random(seed)
    workers = [Worker(store, number, dice) for number in (1, 2)]
    served: Counter[str] = Counter()
    whole = sum(weights.values())
    most = (n // whole + 2) * max(weights.values())  # of one tenant in one claim
    while max(served.values(), default=0) + len(workers) * most <= sizes.weighted_jobs:
        for worker in workers:
            served.update(await worker.take(n))
    total = served.total()
    off = max(abs(served[name] * whole / (weight * total) - 1) for name, weight in weights.items())
    return {"claims_of": n, "served": total, "furthest_off": round(off, 4), "ok": off <= TOLERANCE}


async def lone(store: Store, sizes: Sizes, n: int = 50) -> Figures:
    """A tenant that is alone gets everything it asks for."""
    await fill(store, {tenant(0): sizes.lone})
    worker = Worker(store, 1, random.Random(1))
    taken = 0
    while got := len(await worker.take(n)):
        if got < min(n, sizes.lone - taken):
            break
        taken += got
    return {"claims_of": n, "jobs": sizes.lone, "served": taken, "ok": taken == sizes.lone}


Scene = Callable[[Store, Sizes, int], Coroutine[Any, Any, Figures]]

SCENES: dict[str, tuple[Scene, tuple[int, ...]]] = {
    "small_beside_large": (small_beside_large, CLAIMS),
    "shares": (shares, CLAIMS),
    "lone": (lone, CLAIMS[-1:]),
}
"""Each scene, with the sizes of claims it is played at."""


async def play(make: Make, folder: Path, scene: Scene, sizes: Sizes, n: int) -> Figures:
    """One scene on a new store."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        store = make(Path(place))
        await store.migrate()
        try:
            return await scene(store, sizes, n)
        finally:
            await store.close()


def measure(parent: Path | None, sizes: Sizes, say: Say) -> Figures:
    """Every scene on both stores."""
    found: Figures = {}
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        for name, make in MAKES.items():
            found[name] = {
                title: [asyncio.run(play(make, Path(folder), scene, sizes, n)) for n in claims]
                for title, (scene, claims) in SCENES.items()
            }
    figures = {"sizes": msgspec.to_builtins(sizes), "tolerance": TOLERANCE, "stores": found}
    show(figures, say)
    return figures


def rows(figures: Figures) -> Iterator[tuple[str, str, Figures]]:
    """(store, scene, figures), flat."""
    for store, scenes in figures["stores"].items():
        for scene, runs in scenes.items():
            for run in runs:
                yield store, scene, run


def all_fair(figures: Figures) -> bool:
    return all(run["ok"] for _, _, run in rows(figures))


def show(figures: Figures, say: Say) -> None:
    for store, scene, run in rows(figures):
        facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in run.items() if name != "ok")
        say(f"  {store:<8}{scene.replace('_', ' '):<20}{'ok' if run['ok'] else 'UNFAIR':<8}{facts}")
