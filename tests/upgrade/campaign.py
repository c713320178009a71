"""One upgrade from beginning to end, and its verdict."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tenure.domain.calls import JobFilter, JobView, Reschedule
from tenure.domain.job import NewJob, Ref, Spec
from tenure.domain.states import State
from tenure.stores.clock import system_clock
from tenure.stores.sql.postgres.migrate import steps
from tenure.stores.sql.sqlite.file import SCHEMA as SQLITE_SCHEMA
from tenure.testing.checker import Summary
from tenure.testing.history import RecordingStore
from tests.kills.audit import Follower, Tally, check_histories, check_records
from tests.upgrade import jobs
from tests.upgrade.bases import TODAY, source_of
from tests.upgrade.company import FILL_SECONDS, PATIENCE, Member, migrated
from tests.upgrade.plan import PRODUCED, Plan, client, opened
from tests.upgrade.reading import differences, everything

TURNS = 5
"""What a worker must have had in hand before, and again after, that the migration counts as one beside it."""
CALLS = 20
"""The same of a producer."""
MOST_FAULTS = 20
PAGE = 1_000

Say = Callable[[str], None]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an upgrade came to."""

    store: str
    base: str
    schema_before: int
    schema: int
    older_go_on: bool
    """By what the migrations say; otherwise a program of the base must be refused."""
    jobs: int
    """Acknowledged, all in all."""
    compared: int
    """Things that both versions read, field by field."""
    ended_by_old: int
    """Jobs of the new producer that an old worker had in hand."""
    migrate_ms: int
    """From when `tenure migrate` and new programs were started until all had the schema."""
    blocked_ms: int
    """The longest that any call was blocked meanwhile."""
    blocked: str
    """Which one."""
    calm_ms: int
    """The longest call before."""
    calls_meanwhile: int
    succeeded: int
    failed: int
    cancelled: int
    leases_lost: int
    settled_twice: int
    lost: int
    calls: int
    unknown: int
    seconds: float
    faults: list[str]


def older_go_on(plan: Plan, schema: int) -> bool:
    """Whether programs that know this schema may use today's, by what the migrations since then declare."""
    if plan.kind == "sqlite":
        return schema >= SQLITE_SCHEMA
    return all(step.needs <= schema for step in steps(schema))


def run(plan: Plan, say: Say) -> Report:
    """The whole upgrade and its verdict."""
    with source_of(plan.base) as source:
        upgrade = Upgrade(plan, source, say)
        try:
            return upgrade.run()
        finally:
            upgrade.abandon()


class Upgrade:
    """A store and those who work on it, step by step."""

    def __init__(self, plan: Plan, source: Path, say: Say) -> None:
        self.plan = plan
        self._source = source
        self._say = say
        self._started = time.monotonic()
        self._members: list[Member] = []
        self.faults: list[str] = []
        self.schema_before = 0
        self.window = (0.0, 0.0)

    def run(self) -> Report:
        self.plan.create()
        fields = self._fill()
        compared = self._compare()
        old_workers, old_producer = self._begin()
        new_workers, new_producer = self._migrate()
        self._together([*old_workers, *new_workers], [old_producer, new_producer])
        self._come_late()
        self._let_go(old_workers)
        sent = self._sent([old_producer, new_producer])
        with asyncio.Runner() as runner:
            auditor = client(self.plan, "auditor")
            follower = Follower(auditor)
            runner.run(self._drain(auditor, follower))
            self._end([*old_workers, *new_workers])
            self._check_refusals([*old_workers, old_producer])
            by_old = runner.run(self._check_fields(fields))
            return runner.run(self._judge(follower, sent, compared, by_old))

    def abandon(self) -> None:
        for member in self._members:
            member.abandon()

    # Steps

    def _start(self, role: str, name: str, plan: Plan | None = None) -> Member:
        source = self._source if name.startswith("old") else TODAY
        member = Member(plan or self.plan, role, name, source)
        self._members.append(member)
        return member

    def _end(self, members: Iterable[Member]) -> None:
        for member in members:
            self.faults += member.end()

    def _fill(self) -> list[str]:
        """The store as the earlier version leaves it; which fields its jobs have."""
        self._say(f"{self.plan.kind}: {self.plan.base} fills a store with {self.plan.jobs:,} jobs")
        member = self._start("fill", "old-fill")
        filled = member.until("filled", seconds=FILL_SECONDS)
        self._end([member])
        self.schema_before = filled["schema"]
        return list(filled["fields"])

    def _compare(self) -> int:
        """Each field of everything, as the earlier version reads it and, from a copy that was migrated, as this one."""
        before, after = self.plan.copied("old"), self.plan.copied("new")
        member = self._start("read", "old-read", before)
        member.until("read", seconds=FILL_SECONDS)
        self._end([member])
        with asyncio.Runner() as runner:
            compared = runner.run(self._compare_all(Path(before.folder) / "old-read.jsonl", after))
        before.drop()
        after.drop()
        self._say(f"  {compared:,} things read by both")
        return compared

    async def _compare_all(self, shown: Path, plan: Plan) -> int:
        store = opened(plan)
        await store.migrate()
        faults: list[str] = []
        count = 0
        with shown.open("rb") as lines:
            async for kind, value in everything(store):
                line = lines.readline()
                kind_before, before = msgspec.json.decode(line) if line else (None, None)
                count += 1
                if kind_before != kind:
                    faults.append(f"number {count} of the dump was a {kind_before}, is a {kind}")
                    break
                faults += differences(before, value, kind)
            faults += [f"gone from the dump: {line!r:.200}" for line in lines.readlines()]
        await store.close()
        self.faults += faults[:MOST_FAULTS]
        return count

    def _begin(self) -> tuple[list[Member], Member]:
        """Old programs at work."""
        workers = [self._start("work", f"old-worker{number}") for number in range(self.plan.old_workers)]
        producer = self._start("produce", "old-producer")
        for worker in workers:
            worker.more("turn", TURNS)
        producer.more("produced", CALLS)
        return workers, producer

    def _migrate(self) -> tuple[list[Member], Member]:
        """`tenure migrate`, and new programs that migrate when they open the store, all at once."""
        started = time.monotonic()
        workers = [self._start("work", f"new-worker{number}") for number in range(self.plan.new_workers)]
        producer = self._start("produce", "new-producer")
        schemas = {migrated(self.plan), *(member.until("schema") for member in [*workers, producer])}
        self.window = (started, time.monotonic())
        self._say(f"  schema {self.schema_before} → {schemas} in {self.window[1] - started:.1f} s")
        if len(schemas) != 1:
            self.faults.append(f"not all have the same schema: {schemas}")
        (self.schema, *_) = sorted(schemas, reverse=True)
        return workers, producer

    def _together(self, workers: Sequence[Member], producers: Sequence[Member]) -> None:
        """Both versions at work, on the new schema."""
        for worker in workers:
            worker.more("turn", TURNS)
        for producer in producers:
            producer.more("produced", CALLS)

    def _come_late(self) -> None:
        """An old program that is started now goes on or is refused, as the migrations say."""
        member = self._start("late", "old-late")
        went_on = member.until("went_on") is not None
        self._end([member])
        if went_on != older_go_on(self.plan, self.schema_before):
            said = "went on" if went_on else f"was refused: {member.refused}"
            self.faults.append(f"a program of {self.plan.base} that was started late {said}; the migrations differ")

    def _let_go(self, workers: Sequence[Member]) -> None:
        """Old workers settle what they have held since before the migration, but for those that were refused."""
        for worker in workers:
            worker.tell("settle")
        settled = [worker.until("settled") for worker in workers]
        if not any(settled) and None not in settled:
            self.faults.append("no old worker held a job from before the migration until after it")

    def _check_refusals(self, members: Iterable[Member]) -> None:
        """Old programs that had the store open: refused at most where the migrations say so."""
        if older_go_on(self.plan, self.schema_before):
            self.faults += [f"{one.name} was refused: {one.refused}" for one in members if one.refused is not None]

    def _sent(self, producers: Sequence[Member]) -> set[Ref]:
        """All that was acknowledged; the producers have ended."""
        self._end(producers)
        numbers = [*range(self.plan.jobs)]
        for producer in producers:
            start = PRODUCED[producer.name]
            numbers += range(start, start + producer.heard["produced"][-1])
        if older_go_on(self.plan, self.schema_before):
            numbers.append(PRODUCED["old-late"])
        return {(jobs.tenant_of(number), jobs.job_id(number)) for number in numbers}

    async def _drain(self, store: RecordingStore, follower: Follower) -> None:
        """Nothing is left that waits: what was paused goes on, what was to come later comes now."""
        await store.put_document(jobs.resumed())
        await self._hurry(store)
        store.note("heal")
        progress, moved_at = -1, time.monotonic()
        while True:
            await follower.catch_up()
            if not follower.tally.live:
                return
            if follower.tally.kinds.total() != progress:
                progress, moved_at = follower.tally.kinds.total(), time.monotonic()
            elif time.monotonic() - moved_at > PATIENCE:
                self.faults.append(f"{follower.tally.live} jobs are stuck")
                return
            await follower.hint()

    async def _hurry(self, store: RecordingStore) -> None:
        """Brings what is to come later forward."""
        cursor = None
        while True:
            page = await store.query(JobFilter(states=(State.PENDING,)), after=cursor, limit=500)
            soon = system_clock() + 1_000 * PATIENCE
            later = [view.job.spec for view in page.jobs if view.job.run_at > soon]
            if later:
                await store.command([Reschedule(tenant=spec.tenant, id=spec.id, delay=0) for spec in later])
            cursor = page.cursor
            if cursor is None:
                return

    # Judging

    async def _check_fields(self, before: list[str]) -> int:
        """What a new producer sent stands in the record although an old worker had it in hand; how many of these."""
        new = set(NewJob.__struct_fields__) - set(before)
        self.faults += [f"tests.upgrade.jobs.SAMPLES lacks {name}: give it a value" for name in new - set(jobs.SAMPLES)]
        fields = [name for name in NewJob.__struct_fields__ if name in Spec.__struct_fields__]
        store, start, count = opened(self.plan), PRODUCED["new-producer"], 0
        produced = next(one for one in self._members if one.name == "new-producer").heard["produced"][-1]
        for first in range(start, start + produced, PAGE):
            made = [jobs.produced(number, jobs.SAMPLES) for number in range(first, min(first + PAGE, start + produced))]
            for sent, view in zip(made, await store.get([(one.tenant, one.id) for one in made]), strict=True):
                assert isinstance(view, JobView), view
                count += any(attempt.worker.startswith("old") for attempt in view.job.history)
                self.faults += [
                    f"{sent.id}: {name} was {getattr(sent, name)!r:.80}, is {getattr(view.job.spec, name)!r:.80}"
                    for name in fields
                    if getattr(sent, name) != getattr(view.job.spec, name)
                ][:MOST_FAULTS]
        await store.close()
        if not count and older_go_on(self.plan, self.schema_before):
            self.faults.append("no old worker had a job of the new producer in hand")
        return count

    async def _judge(self, follower: Follower, sent: set[Ref], compared: int, by_old: int) -> Report:
        await follower.catch_up()
        follower.store.note("end", drained=True)
        store = opened(self.plan)
        self.faults += await check_records(store, follower.tally)
        await store.close()
        await follower.store.close()
        self._say(
            f"  checking {follower.tally.kinds.total():,} events and the histories of {len(self._members)} programs"
        )
        verdict = check_histories(self.plan.histories, self._say)
        self.faults += verdict.faults
        lost, twice = follower.tally.lost(sent), follower.tally.settled_twice
        if lost or twice:
            self.faults.append(f"{lost} acknowledged jobs lost, {twice} settled twice")
        return self._report(follower.tally, sent, compared, by_old, verdict.summary or Summary(), verdict.unanswered)

    def _report(
        self, tally: Tally, sent: set[Ref], compared: int, by_old: int, summary: Summary, unknown: int
    ) -> Report:
        calm, meanwhile = self._times()
        longest = max(meanwhile, default=(0.0, "none"))
        return Report(
            store=self.plan.kind,
            base=self.plan.base,
            schema_before=self.schema_before,
            schema=self.schema,
            older_go_on=older_go_on(self.plan, self.schema_before),
            jobs=len(sent),
            compared=compared,
            ended_by_old=by_old,
            migrate_ms=round(1_000 * (self.window[1] - self.window[0])),
            blocked_ms=round(1_000 * longest[0]),
            blocked=longest[1],
            calm_ms=round(1_000 * max(calm, default=(0.0, ""))[0]),
            calls_meanwhile=len(meanwhile),
            succeeded=tally.kinds["succeeded"],
            failed=tally.kinds["failed"],
            cancelled=tally.kinds["cancelled"],
            leases_lost=sum(tally.losses.values()),
            settled_twice=tally.settled_twice,
            lost=tally.lost(sent),
            calls=summary.calls,
            unknown=unknown,
            seconds=round(time.monotonic() - self._started, 1),
            faults=self.faults,
        )

    def _times(self) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
        """How long each call took that ended before the migration began, and each that was on its way during it."""
        calm: list[tuple[float, str]] = []
        meanwhile: list[tuple[float, str]] = []
        for member in self._members:
            path = Path(self.plan.folder) / f"times-{member.name}.json"
            found: list[Any] = msgspec.json.decode(path.read_bytes()) if "fill" not in member.name else []
            for verb, start, took in found:
                if start + took < self.window[0]:
                    calm.append((took, f"{verb} by {member.name}"))
                elif start < self.window[1]:
                    meanwhile.append((took, f"{verb} by {member.name}"))
        return calm, meanwhile
