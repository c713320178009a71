"""Whole workers under fire: supervisors and their children killed at random, then everything judged."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tenure.domain.calls import Enqueued, JobFilter
from tenure.domain.job import NewJob, Ref
from tenure.domain.names import SYSTEM
from tenure.domain.states import State
from tenure.engine.ids import uuid7
from tenure.engine.worker.presence import WORKER
from tenure.stores.clock import system_clock
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.checker import Summary
from tenure.testing.history import JsonLines, RecordingStore
from tests.kills.audit import Follower, Tally, check_histories, check_records
from tests.processes import children_of

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0

KINDS = ("slow", "slow", "slow", "quick", "flaky", "threaded")
"""Job types, in turn: mostly those that hold their leases for a while."""

Say = Callable[[str], None]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign."""

    folder: Path
    jobs: int = 20_000
    workers: int = 4
    processes: int = 1
    kills: int = 50
    pace_seconds: float = 1.0
    lease_seconds: float = 1.0
    seed: int = 1


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign came to."""

    jobs: int
    child_kills: int
    supervisor_kills: int
    leases_lost: int
    crashed: int
    """Leases that a supervisor ended at once because its child had died."""
    released: int
    succeeded: int
    workers_seen: int
    settled_twice: int
    lost: int
    calls: int
    unknown: int
    seconds: float
    faults: list[str]


class Fleet:
    """The workers, by name; a killed one is replaced."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._started = 0
        self.running: list[subprocess.Popen[bytes]] = []
        self.child_kills = self.supervisor_kills = 0

    def start(self) -> None:
        self.running = [self._start() for _ in range(self._plan.workers)]

    def _start(self) -> subprocess.Popen[bytes]:
        self._started += 1
        terms = [f"w{self._started}", str(self._plan.processes), str(self._plan.lease_seconds)]
        command = [sys.executable, "-m", "tests.fleet.worker", *terms]
        environment = {
            **os.environ,
            "TENURE_URL": f"recorded://{self._plan.folder}",
            "TENURE_CANCEL_GRACE": "1",
            "TENURE_POLL": "0.1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        }
        return subprocess.Popen(command, cwd=ROOT, env=environment)

    def kill_one(self, dice: random.Random) -> None:
        """A supervisor, or more often a child."""
        number = dice.randrange(len(self.running))
        supervisor = self.running[number]
        children = children_of(supervisor.pid)
        if children and dice.random() < 0.7:
            os.kill(dice.choice(children), signal.SIGKILL)
            self.child_kills += 1
            return
        supervisor.kill()
        supervisor.wait()
        self.supervisor_kills += 1
        self.running[number] = self._start()

    def stop(self) -> list[str]:
        """Asks all to stop, and says which didn't do so well."""
        for supervisor in self.running:
            supervisor.terminate()
        codes = [supervisor.wait(60) for supervisor in self.running]
        return [f"a supervisor ended with exit code {code}" for code in codes if code != 0]

    def abandon(self) -> None:
        for supervisor in self.running:
            for pid in children_of(supervisor.pid):
                os.kill(pid, signal.SIGKILL)
            if supervisor.poll() is None:
                supervisor.kill()
                supervisor.wait()


async def produce(store: RecordingStore, start: int, count: int) -> set[Ref]:
    """So many more jobs, acknowledged."""
    jobs = [
        NewJob(
            tenant=f"t{number % 3}",
            id=uuid7(),
            queue="default",
            job_type=KINDS[number % len(KINDS)],
            payload=msgspec.json.encode({"number": number}),
            max_attempts=200,
        )
        for number in range(start, start + count)
    ]
    acknowledged: set[Ref] = set()
    for begin in range(0, count, 200):
        batch = jobs[begin : begin + 200]
        for job, reply in zip(batch, await store.enqueue(batch), strict=True):
            assert isinstance(reply, Enqueued), reply
            acknowledged.add((job.tenant, job.id))
    return acknowledged


def run(plan: Plan, say: Say) -> Report:
    """The whole campaign and its verdict."""
    (plan.folder / "histories").mkdir(parents=True)
    started = time.monotonic()
    dice = random.Random(plan.seed)
    fleet = Fleet(plan)
    with asyncio.Runner() as runner:
        sink = JsonLines(plan.folder / "histories" / "auditor.jsonl")
        auditor = RecordingStore(SqliteStore(plan.folder / "jobs.db"), sink, "auditor", system_clock)
        runner.run(auditor.migrate())
        follower = Follower(auditor)
        sent: set[Ref] = set()
        faults: list[str] = []
        try:
            fleet.start()
            runner.run(_at_work(auditor, plan.workers * plan.processes))
            for number in range(max(1, plan.kills)):
                share = plan.jobs * (number + 1) // max(1, plan.kills) - len(sent)
                sent |= runner.run(produce(auditor, len(sent), share))
                if plan.kills:
                    runner.run(_watch(follower, plan.pace_seconds))
                    fleet.kill_one(dice)
                if (number + 1) % 10 == 0:
                    say(f"  {number + 1:>4} kills  {len(sent):>7,} jobs  {follower.tally.live:>6,} live")
            auditor.note("heal")
            faults += runner.run(_drain(follower))
            faults += fleet.stop()
        finally:
            fleet.abandon()
        return runner.run(_judge(plan, fleet, follower, sent, faults, time.monotonic() - started))


async def _at_work(store: RecordingStore, workers: int) -> None:
    """Waits for so many workers: the first to come mustn't have done all the work."""
    deadline = time.monotonic() + PATIENCE
    while len(await store.list_documents(SYSTEM, WORKER)) < workers:
        if time.monotonic() > deadline:
            raise AssertionError(f"not all of {workers} workers have started after {PATIENCE:.0f} s")
        await asyncio.sleep(0.05)


async def _watch(follower: Follower, seconds: float) -> None:
    """Follows the feed for a while: the pace of the kills."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await follower.hint()
        await follower.catch_up()


async def _drain(follower: Follower) -> list[str]:
    """Until every job has ended."""
    progress, moved_at = -1, time.monotonic()
    while True:
        await follower.catch_up()
        if not follower.tally.live:
            return []
        if follower.tally.kinds.total() != progress:
            progress, moved_at = follower.tally.kinds.total(), time.monotonic()
        elif time.monotonic() - moved_at > PATIENCE:
            return [f"{follower.tally.live} jobs are stuck"]
        await follower.hint()


async def _judge(
    plan: Plan, fleet: Fleet, follower: Follower, sent: set[Ref], faults: list[str], seconds: float
) -> Report:
    await follower.catch_up()
    again = Follower(follower.store)
    await again.catch_up()
    follower.store.note("end", drained=True)
    store = SqliteStore(plan.folder / "jobs.db")
    faults += await check_records(store, again.tally)
    workers = await _workers(store)
    await store.close()
    await follower.store.close()
    verdict = check_histories(plan.folder / "histories")
    faults += verdict.faults
    return _report(fleet, again.tally, sent, workers, verdict.summary or Summary(), verdict.unanswered, faults, seconds)


async def _workers(store: SqliteStore) -> int:
    """How many workers ended a job well."""
    found: set[str] = set()
    cursor = None
    while True:
        page = await store.query(JobFilter(states=(State.SUCCEEDED,)), after=cursor, limit=1_000)
        found.update(view.job.history[-1].worker for view in page.jobs)
        cursor = page.cursor
        if cursor is None:
            return len(found)


def _report(
    fleet: Fleet,
    tally: Tally,
    sent: set[Ref],
    workers: int,
    summary: Summary,
    unknown: int,
    faults: list[str],
    seconds: float,
) -> Report:
    lost, twice = tally.lost(sent), tally.settled_twice
    if lost or twice:
        faults.append(f"{lost} acknowledged jobs lost, {twice} settled twice")
    return Report(
        jobs=len(sent),
        child_kills=fleet.child_kills,
        supervisor_kills=fleet.supervisor_kills,
        leases_lost=sum(tally.losses.values()),
        crashed=tally.reasons["crashed"],
        released=tally.kinds["released"],
        succeeded=tally.kinds["succeeded"],
        workers_seen=workers,
        settled_twice=twice,
        lost=lost,
        calls=summary.calls,
        unknown=unknown,
        seconds=round(seconds, 1),
        faults=faults,
    )
