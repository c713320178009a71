"""Growth: what a claim of 200 costs when a million jobs wait, or ten thousand tenants do."""

import asyncio
import os
import time
from pathlib import Path
from statistics import median

import msgspec

from bench.folder import on_disk
from bench.ids import uuid7
from bench.record import Figures
from bench.sqlite import Say
from bench.subject import MAIL, PAYLOAD, RESULT
from tenure.domain.calls import Claim, Claimed, Cursor, Enqueued, Settle, Settled, Succeed
from tenure.domain.job import NewJob
from tenure.domain.names import DAY, MINUTE, Ms
from tenure.stores.sql.sqlite import SqliteStore

BATCH = 200
LOADED_AT_ONCE = 1_000
BOUND = 1.5
"""How much dearer a claim may get."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What waits in a store. `against` is the case of the same shape without the load."""

    name: str
    ready: int
    tenants: int = 1
    scheduled: int = 0
    against: str


def cases(measured: int, backlog: int) -> list[Case]:
    """`measured` jobs are taken from each store; the loads come on top.

    A claim over many tenants writes a chunk of events for each, so tenants are compared twice: with one tenant, and
    with as many tenants as one claim can serve.
    """
    return [
        Case(name="baseline: one tenant", ready=measured, against="baseline: one tenant"),
        Case(name=f"{backlog:,} ready", ready=measured + backlog, against="baseline: one tenant"),
        Case(name=f"{backlog:,} scheduled", ready=measured, scheduled=backlog, against="baseline: one tenant"),
        Case(name="100 tenants", ready=measured, tenants=100, against="100 tenants"),
        Case(name=f"100 tenants, {backlog:,} ready", ready=measured + backlog, tenants=100, against="100 tenants"),
        Case(name=f"{BATCH} tenants", ready=measured, tenants=BATCH, against=f"{BATCH} tenants"),
        Case(name="10,000 tenants", ready=max(measured, 20_000), tenants=10_000, against=f"{BATCH} tenants"),
    ]


class Costs(msgspec.Struct, frozen=True):
    """Microseconds a job, of one measurement."""

    claim: float
    both: float
    claim_cpu: float
    """Processor time of the claim alone: a slow disk hides what a claim costs."""


class Growing:
    """One store, loaded once, measured several times."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self._store = SqliteStore(folder / "jobs.db")
        self._cursor = Cursor()
        self.costs: list[Costs] = []

    async def load(self) -> None:
        await self._store.migrate()
        for start in range(0, self.case.ready, LOADED_AT_ONCE):
            await self._enqueue(range(start, min(start + LOADED_AT_ONCE, self.case.ready)), None)
        for start in range(0, self.case.scheduled, LOADED_AT_ONCE):
            await self._enqueue(range(start, min(start + LOADED_AT_ONCE, self.case.scheduled)), DAY)

    async def _enqueue(self, numbers: range, delay: Ms | None) -> None:
        tenants = self.case.tenants
        jobs = [
            NewJob(
                tenant=f"tenant-{number % tenants:05}",
                id=uuid7(),
                queue=MAIL,
                job_type="send",
                payload=PAYLOAD,
                delay=delay if delay is None else delay + number,
            )
            for number in numbers
        ]
        replies = await self._store.enqueue(jobs)
        if not all(isinstance(reply, Enqueued) and reply.created for reply in replies):
            raise AssertionError("a job was refused")

    async def measure(self, batches: int) -> None:
        claiming = settling = processor = 0.0
        for _ in range(batches):
            started, processing = time.perf_counter(), time.process_time()
            claimed = await self._store.claim(self._request())
            between = time.perf_counter()
            processor += time.process_time() - processing
            if not isinstance(claimed, Claimed) or len(claimed.jobs) != BATCH:
                raise AssertionError(f"{self.case.name}: not a whole batch")
            self._cursor = claimed.cursor
            replies = await self._store.settle([Settle(job.token, Succeed(RESULT)) for job in claimed.jobs])
            settling += time.perf_counter() - between
            claiming += between - started
            if not all(isinstance(reply, Settled) for reply in replies):
                raise AssertionError(f"{self.case.name}: a settle was refused")
        scale = 1e6 / (batches * BATCH)
        self.costs.append(Costs(claiming * scale, (claiming + settling) * scale, processor * scale))

    def _request(self) -> Claim:
        queues = ((MAIL, None),)
        return Claim(
            claim_id=os.urandom(16), worker="bench", queues=queues, n=BATCH, ttl=10 * MINUTE, cursor=self._cursor
        )

    async def close(self) -> None:
        await self._store.close()

    @property
    def middle(self) -> Costs:
        columns = zip(*map(msgspec.structs.astuple, self.costs), strict=True)
        return Costs(*(median(column) for column in columns))


def measure(parent: Path | None, runs: int, backlog: int, batches: int, say: Say) -> Figures:
    """Loads every case, then measures them in turn, `runs` times over."""
    with on_disk(parent) as folder:
        return asyncio.run(_measure(folder, runs, backlog, batches, say))


async def _measure(folder: Path, runs: int, backlog: int, batches: int, say: Say) -> Figures:
    growing = []
    for number, case in enumerate(cases((runs + 1) * batches * BATCH, backlog)):
        place = folder / str(number)
        place.mkdir()
        growing.append(Growing(case, place))
        started = time.perf_counter()
        await growing[-1].load()
        say(f"  loaded {case.name} in {time.perf_counter() - started:.0f} s")
    for number in range(runs + 1):
        for one in growing:
            await one.measure(batches)
            if number == 0:
                one.costs.clear()  # the first one warms the caches
    for one in growing:
        await one.close()
    figures = {"runs": runs, "backlog": backlog, "batch": BATCH, "bound": BOUND, "cases": table(growing)}
    show(figures, say)
    return figures


def table(growing: list[Growing]) -> list[Figures]:
    """A row per case: microseconds a job, as a ratio to the case it is compared with and to the first one."""
    middle = {one.case.name: one.middle for one in growing}
    first = growing[0].middle
    return [
        {
            "case": one.case.name,
            "against": one.case.against,
            "claim_micros": round(one.middle.claim, 2),
            "both_micros": round(one.middle.both, 2),
            "claim_cpu_micros": round(one.middle.claim_cpu, 2),
            "claim_ratio": round(one.middle.claim / middle[one.case.against].claim, 2),
            "cpu_ratio": round(one.middle.claim_cpu / middle[one.case.against].claim_cpu, 2),
            "both_ratio": round(one.middle.both / middle[one.case.against].both, 2),
            "claim_of_first": round(one.middle.claim / first.claim, 2),
        }
        for one in growing
    ]


def worst(figures: Figures) -> Figures:
    """The case whose claims grew most, in time or in processor time, against its own shape."""
    return max((dict(row) for row in figures["cases"]), key=growth_of)


def growth_of(row: Figures) -> float:
    return max(float(row["claim_ratio"]), float(row["cpu_ratio"]))


def show(figures: Figures, say: Say) -> None:
    head = f"{'claim':>8}{'of it CPU':>11}{'+settle':>9}{'claim':>9}{'CPU':>8}{'+settle':>9}{'to one tenant':>15}"
    say(f"\n  {'µs a job, batches of 200':<30}{head}   compared with")
    for row in figures["cases"]:
        say(
            f"  {row['case']:<30}{row['claim_micros']:>8}{row['claim_cpu_micros']:>11}{row['both_micros']:>9}"
            f"{row['claim_ratio']:>8}×{row['cpu_ratio']:>7}×{row['both_ratio']:>8}×{row['claim_of_first']:>14}×"
            f"   {row['against']}"
        )
    high = worst(figures)
    verdict = "within" if growth_of(high) < figures["bound"] else "OVER"
    say(f"  worst: {high['case']} {growth_of(high)}×, {verdict} the bound of {figures['bound']}×")
