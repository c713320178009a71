"""What a claim of 100 costs as the store grows: `python -m bench.postgres.growth [--record] [--quick]`.

The jobs that are claimed are real; what else is in the store is filled in by the server.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

import msgspec
import psycopg

from bench.ids import uuid7
from bench.postgres.command import add_options, keep, say
from bench.postgres.filling import FINISHED, READY, SCHEDULED, fill
from bench.postgres.server import Server, started
from bench.record import Figures
from bench.subject import MAIL, RESULT
from tenure.domain.calls import Claim, Claimed, Cursor, Enqueued, Settle, Settled, Succeed
from tenure.domain.job import NewJob
from tenure.domain.names import MINUTE
from tenure.stores.sql.postgres import PostgresStore

ABOUT = (
    "Each case is a database of its own on one server, measured in turn. *claim*: until the caller has its answer. "
    "*of the server*: processor time of the server's processes, whatever the disk does."
)
COMMAND = "python -m bench.postgres.growth --record"
BATCH = 100
BOUND = 1.5
"""How much dearer a claim may get where it should cost the same."""
LOADED_AT_ONCE = 500
BYTES_AT_ONCE = 2**23


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a store. `against` is the case it is compared with; `bounded` if it should cost the same."""

    name: str
    against: str
    tenants: int = 1
    ready: int = 0
    scheduled: int = 0
    finished: int = 0
    payload: int = 100
    bounded: bool = True


class Sizes(msgspec.Struct, frozen=True):
    """How much is in the stores, and how often they are measured."""

    many: int = 1_000_000
    few: int = 10_000
    runs: int = 3
    batches: int = 15
    """Claims in one measurement."""


QUICK = Sizes(many=1_000, few=300, runs=1, batches=1)


def cases(many: int, few: int) -> list[Case]:
    """A claim that serves 100 tenants does more than one that serves 10: a line to find, a chunk of events for each."""
    first = f"{few:,} ready"
    return [
        Case(name=first, against=first, ready=few),
        Case(name=f"{many:,} ready", against=first, ready=many),
        Case(name=f"{many:,} scheduled", against=first, ready=few, scheduled=many),
        Case(name=f"{10 * many:,} finished", against=first, ready=few, finished=10 * many),
        Case(name="10 tenants", against="10 tenants", ready=few, tenants=10),
        Case(name=f"{BATCH} tenants", against="10 tenants", ready=few, tenants=BATCH, bounded=False),
        Case(name=f"{few:,} tenants", against=f"{BATCH} tenants", ready=few, tenants=few),
        Case(name="payload 4 KB", against=first, payload=4_096, bounded=False),
        Case(name="payload 64 KB", against=first, payload=65_536, bounded=False),
    ]


class Costs(msgspec.Struct, frozen=True):
    """Milliseconds a claim of 100, and a settle of the same, of one measurement."""

    claim: float
    server: float
    settle: float


class Growing:
    """One store, loaded once, measured several times."""

    def __init__(self, case: Case, url: str, connection: "psycopg.Connection[Any]") -> None:
        self.case = case
        self._store = PostgresStore(url)
        self._connection = connection
        self._cursor = Cursor()
        self.costs: list[Costs] = []

    async def load(self, measured: int) -> None:
        """The jobs that are claimed are real, and the first in their lines; those behind them only fill the tables."""
        await self._store.migrate()
        case = self.case
        real = max(measured, 2 * case.tenants)
        size = max(1, min(LOADED_AT_ONCE, BYTES_AT_ONCE // case.payload))
        payload = (b'{"text":"' + os.urandom(case.payload // 2).hex().encode())[: case.payload - 2] + b'"}'
        for start in range(0, real, size):
            jobs = [self._job(number, payload) for number in range(start, min(start + size, real))]
            replies = await self._store.enqueue(jobs)
            if not all(isinstance(reply, Enqueued) and reply.created for reply in replies):
                raise AssertionError("a job was refused")
        for statement, count in ((READY, case.ready - real), (SCHEDULED, case.scheduled), (FINISHED, case.finished)):
            if count > 0:
                tenant = f"tenant-{0:05}"
                await asyncio.to_thread(fill, self._connection, statement, count, tenant)
        await asyncio.to_thread(self._connection.execute, "VACUUM (ANALYZE)")

    def _job(self, number: int, payload: bytes) -> NewJob:
        tenant = f"tenant-{number % self.case.tenants:05}"
        return NewJob(tenant=tenant, id=uuid7(), queue=MAIL, job_type="send", payload=payload)

    async def measure(self, batches: int) -> None:
        costs = [await self._claimed() for _ in range(batches)]
        self.costs.append(middle(costs))

    async def _claimed(self) -> Costs:
        """One claim, and the settle of what it gave."""
        before, began = self._processor(), time.perf_counter()
        claimed = await self._store.claim(self._request())
        ended = time.perf_counter()
        processor = self._processor() - before
        if not isinstance(claimed, Claimed) or len(claimed.jobs) != BATCH:
            raise AssertionError(f"{self.case.name}: not a whole batch")
        self._cursor = claimed.cursor
        again = time.perf_counter()
        replies = await self._store.settle([Settle(job.token, Succeed(RESULT)) for job in claimed.jobs])
        settling = time.perf_counter() - again
        if not all(isinstance(reply, Settled) for reply in replies):
            raise AssertionError(f"{self.case.name}: a settle was refused")
        return Costs(1e3 * (ended - began), 1e3 * processor, 1e3 * settling)

    def _request(self) -> Claim:
        queues = ((MAIL, None),)
        return Claim(
            claim_id=os.urandom(16), worker="bench", queues=queues, n=BATCH, ttl=10 * MINUTE, cursor=self._cursor
        )

    def _processor(self) -> float:
        """Processor seconds of the server's processes that serve this store."""
        rows = self._connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return sum(_processor_seconds(pid) for (pid,) in rows.fetchall())

    async def close(self) -> None:
        await self._store.close()


def middle(costs: Sequence[Costs]) -> Costs:
    """The medians: what a machine did in between shall not count."""
    columns = zip(*map(msgspec.structs.astuple, costs), strict=True)
    return Costs(*(round(median(column), 3) for column in columns))


def _processor_seconds(pid: int) -> float:
    """By the clock that Linux keeps for every process (clock_getcpuclockid)."""
    return time.clock_gettime(~pid << 3 | 2)


async def measure(server: Server, sizes: Sizes) -> Figures:
    """Loads every case, then measures them in turn, several times over."""
    runs, batches = sizes.runs, sizes.batches
    with ExitStack() as stack:
        growing = []
        for case in cases(sizes.many, sizes.few):
            url = stack.enter_context(server.database())
            growing.append(Growing(case, url, stack.enter_context(server.connect(url))))
            began = time.perf_counter()
            await growing[-1].load((runs + 1) * batches * BATCH)
            say(f"  loaded {case.name} in {time.perf_counter() - began:.0f} s")
        for number in range(runs + 1):
            for one in growing:
                await one.measure(batches)
                if number == 0:
                    one.costs.clear()  # the first one warms the caches and makes the plans
            say(f"  {'warmed up' if number == 0 else f'run {number} of {runs} done'}")
        for one in growing:
            await one.close()
    return {"sizes": msgspec.to_builtins(sizes), "batch": BATCH, "bound": BOUND, "cases": list(rows(growing))}


def rows(growing: list[Growing]) -> Iterator[Figures]:
    """A row per case, with ratios to the case it is compared with."""
    found = {one.case.name: middle(one.costs) for one in growing}
    for one in growing:
        own, against = found[one.case.name], found[one.case.against]
        yield {
            "case": one.case.name,
            "against": one.case.against,
            "bounded": one.case.bounded,
            "claim_ms": own.claim,
            "server_ms": own.server,
            "settle_ms": own.settle,
            "claim_ratio": round(own.claim / against.claim, 2),
            "server_ratio": round(own.server / against.server, 2),
        }


def worst(figures: Figures) -> Figures:
    """The case that should cost the same and grew most, at the caller or in the server."""
    return max((dict(row) for row in figures["cases"] if row["bounded"]), key=growth_of)


def growth_of(row: Figures) -> float:
    return max(float(row["claim_ratio"]), float(row["server_ratio"]))


def show(figures: Figures) -> None:
    head = f"{'caller':>9}{'server':>9}{'settle':>9}{'caller':>9}{'server':>9}"
    say(f"\n  {f'ms a claim of {BATCH}':<24}{head}   compared with")
    for row in figures["cases"]:
        costs = "".join(f"{row[name]:>9.2f}" for name in ("claim_ms", "server_ms", "settle_ms"))
        ratios = "".join(f"{row[name]:>8.2f}×" for name in ("claim_ratio", "server_ratio"))
        say(f"  {row['case']:<24}{costs}{ratios}   {row['against']}{'' if row['bounded'] else ' (free to grow)'}")
    high = worst(figures)
    verdict = "within" if growth_of(high) < BOUND else "OVER"
    say(f"  worst: {high['case']} {growth_of(high)}×, {verdict} the bound of {BOUND}×")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.postgres.growth", description=__doc__)
    add_options(parser)
    parser.add_argument("--many", type=int, default=Sizes().many, help="ready or scheduled; ten times as many ended")
    parser.add_argument("--runs", type=int, default=Sizes().runs)
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes(many=options.many, runs=options.runs)
    with started(anywhere=options.quick) as server:
        figures = {"server": server.settings, **asyncio.run(measure(server, sizes))}
    show(figures)
    keep(options.record, "postgres_growth", COMMAND, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
