"""The campaign: starts the processes, kills some again and again, lets the rest finish, and judges."""

import asyncio
import multiprocessing
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

import msgspec

from tenure.domain.job import Ref
from tenure.domain.names import Ms
from tenure.stores.clock import system_clock
from tenure.testing.checker import Summary
from tenure.testing.history import RecordingStore
from tenure.testing.postgres import PostgresServer
from tests.kills.audit import SILENT_SECONDS, Follower, Tally, Verdict, check_histories, check_records
from tests.kills.jobs import documents
from tests.kills.plan import PATIENCE, Line, Plan, client, divided, opened
from tests.kills.producer import produce
from tests.kills.recovery import Recovery, Spread, Start, spread
from tests.kills.worker import work

spawn = multiprocessing.get_context("spawn")

LONGEST_AWAY = 3.0
"""Seconds for which a server may stay away; most often it is started at once."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign came to."""

    jobs: int
    kills: int
    producer_kills: int
    server_kills: int
    leases_lost: int
    recovered: int
    succeeded: int
    failed: int
    cancelled: int
    settled_twice: int
    lost: int
    calls: int
    unknown: int
    """Calls whose outcome nobody was told: their process was killed."""
    events: int
    seconds: float
    server_start: Spread | None
    """How long the server took to start after it was killed."""
    server_recovery: Spread | None
    """From when it answered again to the next job settled."""
    lease_recovery: Spread | None
    """From a kill of a worker to when its leases were taken back."""
    worker_recovery: Spread | None
    """From a kill of a worker to when its jobs ran again."""
    faults: list[str]


class Member:
    """One process of the campaign, under the name it has until it is killed."""

    def __init__(self, name: str, line: Line, process: SpawnProcess) -> None:
        self.name = name
        self.line = line
        self.process = process
        self.heard = 0
        """Messages from it so far."""
        self.gone = False

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Hangs up and waits for it to end."""
        self.line.close()
        self.process.join()
        self.gone = True


class Campaign:
    """Members come and go; the plan's seed decides whom to kill and when."""

    def __init__(self, plan: Plan, server: PostgresServer | None) -> None:
        self.plan = plan
        self.server = server
        self.dice = random.Random(plan.seed)
        self.workers: list[Member] = []
        self.producers: list[Member] = []
        self.owed = [0] * plan.producers
        self.numbers = [0] * plan.producers
        self.acknowledged: set[Ref] = set()
        self.kills = self.producer_kills = self.started = 0
        self.killed: dict[str, Ms] = {}
        """Workers, and when they were."""
        self.server_starts: list[Start] = []
        self.faults: list[str] = []

    # Members

    def start(self) -> None:
        self.workers = [self._start_worker(number) for number in range(self.plan.processes)]
        self.producers = [self._start_producer(number) for number in range(self.plan.producers)]

    def _start_worker(self, number: int) -> Member:
        self.started += 1
        name = f"worker{number}-{self.started}"
        ours, theirs = spawn.Pipe()
        return self._start(name, ours, theirs, spawn.Process(target=work, args=(self.plan, name, theirs)))

    def _start_producer(self, number: int) -> Member:
        self.started += 1
        name = f"producer{number}-{self.started}"
        ours, theirs = spawn.Pipe()
        args = (self.plan, name, number, self.numbers[number], theirs)
        return self._start(name, ours, theirs, spawn.Process(target=produce, args=args))

    def _start(self, name: str, ours: Line, theirs: Line, process: SpawnProcess) -> Member:
        process.start()
        theirs.close()
        return Member(name, ours, process)

    # Listening

    def pump(self, until: Callable[[], bool], seconds: float) -> bool:
        """Listens to everyone until something holds; False when the time is up first."""
        deadline = time.monotonic() + seconds
        while not until():
            left = deadline - time.monotonic()
            members = [member for member in self.workers + self.producers if not member.gone]
            ready = wait([member.line for member in members], max(0.0, left))
            if not ready:
                return False
            for member in members:
                if member.line in ready:
                    self._hear(member)
        return True

    def _hear(self, member: Member) -> None:
        try:
            message = member.line.recv()
        except (EOFError, ConnectionResetError):
            member.end()
            self.faults.append(f"{member.name} ended by itself, exit code {member.process.exitcode}")
            return
        member.heard += 1
        if member in self.producers:
            self._acknowledge(self.producers.index(member), *message)

    def _acknowledge(self, producer: int, number: int, created: list[Ref]) -> None:
        self.numbers[producer] = number
        self.acknowledged.update(created)
        self.owed[producer] -= len(created)

    # Rounds

    def order(self, jobs: int) -> None:
        """Tells the producers to create so many more."""
        for number, member in enumerate(self.producers):
            share = jobs // len(self.producers) + (number < jobs % len(self.producers))
            self.owed[number] += share
            member.line.send(share)

    def round(self, number: int) -> None:
        """Some jobs, then kills: most often of a worker that surely holds leases, at times at any moment. Before each
        come more jobs, for who has nothing to do has nothing to lose.
        """
        plan = self.plan
        servers, workers = plan.due(plan.server_kills, number), plan.due(plan.kills, number)
        first, *more = divided(plan.due(plan.jobs, number), 1 + servers + workers)
        self.order(first)
        self.pump(lambda: False, plan.pace_seconds)
        for _ in range(plan.due(plan.producer_kills, number)):
            self.kill_producer(self.dice.randrange(plan.producers))
        for jobs in more[:servers]:
            self.order(jobs)
            self.kill_server()
        for jobs in more[servers:]:
            self.order(jobs)
            self.kill_worker(self.dice.randrange(plan.victims))

    def kill_worker(self, number: int) -> None:
        victim = self.workers[number]
        before = victim.heard
        self.pump(lambda: victim.heard > before or victim.gone, 5.0)
        if self.dice.random() < 0.4:
            self.pump(lambda: victim.gone, self.dice.uniform(0, self.plan.hold_seconds))
        self.killed[victim.name] = system_clock()
        victim.kill()
        self.kills += 1
        self.workers[number] = self._start_worker(number)

    def kill_server(self) -> None:
        """At any moment; it is started on the same data and the same port, at times only after a while."""
        assert self.server is not None, "only a server can be killed"
        self.pump(lambda: False, self.dice.uniform(0, 2 * self.plan.hold_seconds))
        if self.dice.random() < 0.5:
            self.server.kill()
        else:
            self.server.stop(signal.SIGQUIT)
        if self.dice.random() < 0.2:
            self.pump(lambda: False, self.dice.uniform(0, LONGEST_AWAY))
        ordered = system_clock()
        self.server.start()
        self.server_starts.append(Start(ordered, system_clock()))

    def kill_producer(self, number: int) -> None:
        """Its successor goes on after the last batch that was acknowledged, so it sends one batch again."""
        victim = self.producers[number]
        self._empty(victim)
        victim.kill()
        self.producer_kills += 1
        self.producers[number] = self._start_producer(number)
        self.producers[number].line.send(max(0, self.owed[number]))

    def _empty(self, member: Member) -> None:
        while not member.gone and member.line.poll():
            self._hear(member)

    # The end

    def finish_producing(self) -> None:
        if not self.pump(lambda: all(owed <= 0 for owed in self.owed), PATIENCE):
            self.faults.append(f"the producers are stuck, {self.owed} to go")
        for member in self.producers:
            self._empty(member)
            member.end()

    def stop_workers(self) -> None:
        for member in self.workers:
            self._empty(member)
            if not member.gone:
                member.end()
            if member.process.exitcode != 0:
                self.faults.append(f"{member.name} ended with exit code {member.process.exitcode}")

    def abandon(self) -> None:
        """Whatever happened: no process of ours outlives the campaign."""
        for member in self.workers + self.producers:
            if not member.gone:
                member.kill()


def run(plan: Plan, say: Callable[[str], None], server: PostgresServer | None = None) -> Report:
    """The whole campaign and its verdict. `server` is the plan's, to be killed."""
    plan.histories.mkdir(parents=True)
    started = time.monotonic()
    with asyncio.Runner() as runner:
        auditor = client(plan, "auditor")
        follower = Follower(auditor)
        runner.run(_prepare(auditor))
        campaign = Campaign(plan, server)
        try:
            campaign.start()
            for number in range(plan.rounds):
                campaign.round(number)
                runner.run(follower.catch_up())
                _progress(campaign, follower, number, say)
            campaign.finish_producing()
            auditor.note("heal")
            _drain(runner, campaign, follower, say)
            campaign.stop_workers()
        finally:
            campaign.abandon()
        seconds = time.monotonic() - started
        return runner.run(_judge(plan, campaign, follower, seconds, say))


async def _prepare(auditor: RecordingStore) -> None:
    await auditor.migrate()
    for document in documents():
        await auditor.put_document(document)


def _progress(campaign: Campaign, follower: Follower, number: int, say: Callable[[str], None]) -> None:
    if (number + 1) % 10 == 0 or number + 1 == campaign.plan.rounds:
        tally = follower.tally
        server = f"  {len(campaign.server_starts):>3} of the server" if campaign.plan.server_kills else ""
        say(
            f"  {campaign.kills:>4} kills{server}  {len(campaign.acknowledged):>7,} jobs acknowledged  "
            f"{tally.live:>6,} live  {sum(tally.losses.values()):>5,} leases lost"
        )


def _drain(runner: asyncio.Runner, campaign: Campaign, follower: Follower, say: Callable[[str], None]) -> None:
    """Lets the workers go on until every job has ended."""
    say(f"  draining {follower.tally.live:,} live jobs")
    progress, moved_at, told_at = -1, time.monotonic(), time.monotonic()
    while True:
        campaign.pump(lambda: False, 0)
        runner.run(follower.catch_up())
        if time.monotonic() > told_at + SILENT_SECONDS:
            told_at = time.monotonic()
            say(f"  {follower.tally.live:,} live jobs")
        if not follower.tally.live:
            return
        if follower.tally.kinds.total() != progress:
            progress, moved_at = follower.tally.kinds.total(), time.monotonic()
        elif time.monotonic() - moved_at > PATIENCE:
            campaign.faults.append(f"{follower.tally.live} jobs are stuck")
            return
        runner.run(follower.hint())


async def _judge(
    plan: Plan, campaign: Campaign, follower: Follower, seconds: float, say: Callable[[str], None]
) -> Report:
    """Everything that can be said once nobody writes any more."""
    await follower.catch_up()
    recovery = Recovery(campaign.server_starts, campaign.killed)
    again = Follower(follower.store, recovery)
    await again.catch_up()
    follower.store.note("end", drained=True)
    say(f"  checking {again.tally.kinds.total():,} events and the histories of {campaign.started + 1} processes")
    faults = list(campaign.faults)
    if again.tally.endings != follower.tally.endings:
        faults.append("the feed, read again from its beginning, differs from the feed as it was followed")
    store = opened(plan)
    faults += await check_records(store, again.tally)
    await store.close()
    await follower.store.close()
    verdict = check_histories(plan.histories, say)
    return _report(campaign, again.tally, recovery, verdict, faults + verdict.faults, seconds)


def _report(
    campaign: Campaign, tally: Tally, recovery: Recovery, verdict: Verdict, faults: list[str], seconds: float
) -> Report:
    lost, twice = tally.lost(campaign.acknowledged), tally.settled_twice
    if lost or twice:
        faults.append(f"{lost} acknowledged jobs lost, {twice} jobs settled twice")
    summary = verdict.summary or Summary()
    return Report(
        jobs=len(campaign.acknowledged),
        kills=campaign.kills,
        producer_kills=campaign.producer_kills,
        server_kills=len(campaign.server_starts),
        leases_lost=sum(tally.losses.values()),
        recovered=tally.recovered,
        succeeded=tally.kinds["succeeded"],
        failed=tally.kinds["failed"],
        cancelled=tally.kinds["cancelled"],
        settled_twice=twice,
        lost=lost,
        calls=summary.calls,
        unknown=verdict.unanswered,
        events=tally.kinds.total(),
        seconds=round(seconds, 1),
        server_start=spread([start.answered - start.ordered for start in campaign.server_starts]),
        server_recovery=recovery.of_server(),
        lease_recovery=recovery.of_leases(),
        worker_recovery=recovery.of_workers(),
        faults=faults,
    )
