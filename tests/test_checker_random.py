"""The checker against the memory store: random calls of every verb, one after the other, without contradiction."""

import asyncio
import contextlib
import random
from typing import Any

import pytest

from tenure.domain.calls import (
    AnyCommand,
    Cancel,
    Claim,
    Claimed,
    Cursor,
    Discard,
    Document,
    DumpPage,
    Exchanged,
    Fail,
    JobFilter,
    Outcome,
    Reading,
    Release,
    Renewal,
    Replay,
    Reprioritise,
    RequestCancel,
    Reschedule,
    Retention,
    Retry,
    Settle,
    Succeed,
)
from tenure.domain.errors import InvalidValue
from tenure.domain.event import Event
from tenure.domain.job import Failure, NewJob, Parent, Progress, Ref, Token
from tenure.domain.states import Disposition, OnParentFailure, State, Unique
from tenure.domain.store import Store
from tenure.stores.memory import MemoryStore
from tenure.testing.checker import Checker
from tenure.testing.clock import ManualClock
from tenure.testing.history import RecordingStore

TENANTS = ["a", "b", "c"]
QUEUES = ["keyed", "mail", "ordered", "plain"]
GROUPS = ["g1", "g2", "g3"]
DAY = 86_400_000
CONFIGS = [
    ("*", "keyed", '{"mode":"keyed","group_limit":1}'),
    ("*", "keyed", '{"mode":"keyed","group_limit":2,"group_limits":{"g1":1},"limit":3,"weight":2}'),
    ("*", "keyed", '{"mode":"keyed","group_rate":[1,700],"group_burst":2}'),
    ("a", "keyed", '{"group_rate":[3,1000]}'),
    ("b", "keyed", '{"rate":[3,1000],"burst":2}'),
    ("*", "ordered", '{"mode":"keyed","ordered":true,"rate":[5,1000],"limit":2}'),
    ("*", "ordered", '{"mode":"keyed","ordered":true}'),
    ("*", "ordered", '{"mode":"keyed","ordered":true,"group_rate":[1,300],"lease":500}'),
    ("*", "mail", '{"limit":1}'),
    ("*", "mail", '{"rate":[7,1000],"burst":2}'),
    ("*", "mail", '{"weight":3,"max_depth":3}'),
    ("*", "mail", '{"mode":"keyed"}'),
    ("*", "plain", '{"paused":true}'),
    ("b", "plain", '{"paused":true,"weight":2}'),
    ("b", "plain", "{}"),
    ("*", "plain", '{"grace":0,"lease":300}'),
    ("a", "mail", '{"max_depth":1,"paused":false}'),
    ("*", "plain", None),
    ("b", "plain", None),
]
TENANT_CONFIGS = ['{"weight":2}', '{"paused":true}', '{"weight":3,"paused":true}', '{"paused":false}', None]


class Script:
    """A random client, its memory of ids and tokens, and the checker that listens."""

    def __init__(self, store: Store, clock: ManualClock, seed: int, checker: Checker) -> None:
        self.rng = random.Random(seed)
        self.clock = clock
        self.checker = checker
        self.store = RecordingStore(store, checker.feed, "script", clock)
        self.refs: list[Ref] = []
        self.jobs: list[NewJob] = []
        self.tokens: list[Token] = []
        self.claims: list[Claim] = []
        self.settles: list[Settle] = []
        self.failed: list[Ref] = []
        self.replays: list[str] = []
        self.cursor = Cursor()
        self.feed: list[Event] = []
        self.at: str | None = None

    def id(self) -> str:
        return f"{self.rng.getrandbits(32):08x}-0000-7000-8000-{self.rng.getrandbits(48):012x}"

    def job(self, tenant: str | None = None) -> NewJob:
        pick = self.rng
        if self.jobs and pick.random() < 0.06 and tenant is None:
            return pick.choice(self.jobs)
        tenant, queue = tenant or pick.choice(TENANTS), pick.choice(QUEUES)
        more: dict[str, Any] = {}
        if (queue in ("keyed", "ordered")) != (pick.random() < 0.03):
            more["group"] = pick.choice(GROUPS)
        if pick.random() < 0.35:
            more |= {"key": pick.choice(["k1", "k2"]), "unique": pick.choice(list(Unique))}
            if more["unique"] is Unique.WINDOW:
                more["unique_for"] = pick.choice([1, 1000, 3_600_000, 3 * DAY])
        if pick.random() < 0.2:
            more["expires"] = pick.choice([1, 100, 1000])
        if pick.random() < 0.2:
            more["delay"] = pick.choice([0, 1, 50, 1000])
        elif pick.random() < 0.1:
            more["run_at"] = self.clock.now + pick.choice([-1000, 0, 500])
        if pick.random() < 0.4:
            ids = [ref[1] for ref in self.refs if ref[0] == tenant] or [self.id()]
            chosen = {pick.choice(ids[-8:]) for _ in range(pick.choice([1, 2, 3]))}
            more["parents"] = tuple(Parent(id_, pick.choice(list(OnParentFailure))) for id_ in sorted(chosen))
        if pick.random() < 0.2:
            more |= {"lease": pick.choice([10, 400]), "grace": pick.choice([0, 5])}
        id_ = self.id() if pick.random() < 0.97 or not self.refs else pick.choice(self.refs)[1]
        return NewJob(
            tenant=tenant,
            id=id_,
            queue=queue,
            job_type=pick.choice(["t", "t", "u"]),
            payload=pick.choice([b"1", b"1", b"2"]),
            priority=pick.choice([0, 0, 5, -5]),
            max_attempts=pick.choice([1, 2, 3]),
            result_ttl=pick.choice([0, 100, 3_600_000]),
            labels=pick.choice([{}, {"team": "x"}]),
            **more,
        )

    def note(self, jobs: list[NewJob]) -> list[NewJob]:
        for job in jobs:
            self.jobs.append(job)
            self.refs.append((job.tenant, job.id))
        return jobs

    async def enqueue(self) -> None:
        pick = self.rng
        jobs = [self.job() for _ in range(pick.choice([1, 1, 2, 4]))]
        if len(jobs) > 1 and pick.random() < 0.4:  # a flow, sometimes a cycle
            child, parent = pick.sample(range(len(jobs)), 2)
            fields = {name: getattr(jobs[child], name) for name in NewJob.__struct_fields__}
            fields |= {"tenant": jobs[parent].tenant, "parents": (Parent(jobs[parent].id),)}
            jobs[child] = NewJob(**fields)
        self.note(jobs)
        await self.store.enqueue(jobs, atomic=pick.random() < 0.3)

    def claim_request(self) -> Claim:
        pick = self.rng
        if self.claims and pick.random() < 0.1:
            return pick.choice(self.claims[-5:])
        queues = pick.sample(QUEUES, pick.choice([1, 2, 4]))
        request = Claim(
            claim_id=pick.randbytes(16),
            worker=pick.choice(["w1", "w2"]),
            queues=tuple((queue, pick.choice([None, None, 0, 1, 2])) for queue in queues),
            n=pick.choice([1, 2, 3, 8]),
            ttl=pick.choice([100, 1000, 60_000]),
            grace=pick.choice([0, 10, 5_000]),
            cursor=self.cursor
            if pick.random() < 0.9
            else Cursor(pick.choice(["", "b", "z"]), pick.choice([0, 1, 2]), 3),
            tenants=None if pick.random() < 0.8 else tuple(pick.sample(TENANTS, 2)),
        )
        self.claims.append(request)
        return request

    def claimed(self, reply: object) -> None:
        if isinstance(reply, Claimed):
            self.cursor = reply.cursor
            self.tokens.extend(item.token for item in reply.jobs)

    async def claim(self) -> None:
        self.claimed(await self.store.claim(self.claim_request()))

    def token(self) -> Token:
        pick = self.rng
        token = pick.choice(self.tokens[-6:])
        change = pick.random()
        if change < 0.04:
            return Token(token.tenant, token.job_id, token.lease_seq, pick.randbytes(16))
        if change < 0.07:
            return Token(pick.choice(TENANTS), token.job_id, token.lease_seq, token.secret)
        if change < 0.09:
            return Token(token.tenant, token.job_id, token.lease_seq - 1, token.secret)
        return token

    def outcome(self, token: Token) -> Outcome:
        pick = self.rng
        match pick.randrange(5):
            case 0 | 1:
                jobs = self.note([self.job(token.tenant) for _ in range(pick.choice([0, 0, 0, 1, 2]))])
                return Succeed(result=pick.choice([None, b"r1", b"r2"]), jobs=tuple(jobs))
            case 2:
                return Retry(Failure("Boom", "why"), delay=pick.choice([0, 10, 1000, 0, 10, 1000, 2 * DAY]))
            case 3:
                self.failed.append(token.ref)
                return Fail(Failure("Bad"))
        return Release(
            delay=pick.choice([0, 0, 5, 500]),
            reason=pick.choice(["shutdown", "snooze"]),
            at_most=pick.choice([None, 0, 1]),
        )

    def settlements(self) -> list[Settle]:
        made = [
            Settle(token, self.outcome(token)) for token in (self.token() for _ in range(self.rng.choice([1, 1, 2, 3])))
        ]
        if self.settles and self.rng.random() < 0.2:
            made.append(self.rng.choice(self.settles[-5:]))
        self.settles.extend(made)
        return made

    async def settle(self) -> None:
        if self.tokens:
            await self.store.settle(self.settlements())

    async def exchange(self) -> None:
        if self.tokens:
            reply: Exchanged = await self.store.exchange(self.settlements(), self.claim_request())
            self.claimed(reply.claimed)

    async def renew(self) -> None:
        if self.tokens:
            progress = self.rng.choice([None, Progress(0.5), Progress(1.0, "done")])
            await self.store.renew([Renewal(self.token(), progress) for _ in range(self.rng.choice([1, 2]))])

    async def command(self) -> None:
        await self.store.command([self.one_command() for _ in range(self.rng.choice([1, 1, 2]))])

    def one_command(self) -> AnyCommand:
        pick = self.rng
        tenant, id_ = pick.choice(self.refs[-12:]) if self.refs else ("a", self.id())
        if pick.random() < 0.05:
            tenant = pick.choice(TENANTS)
        match pick.randrange(8):
            case 0:
                return Cancel(tenant=tenant, id=id_)
            case 1:
                return RequestCancel(tenant=tenant, id=id_)
            case 2:
                if pick.random() < 0.5:
                    return Reschedule(tenant=tenant, id=id_, delay=pick.choice([0, 20, 1000]))
                return Reschedule(tenant=tenant, id=id_, run_at=self.clock.now + pick.choice([-500, 0, 500]))
            case 3:
                return Reprioritise(tenant=tenant, id=id_, priority=pick.choice([0, 5, 100]))
        if self.failed and pick.random() < 0.9:
            tenant, id_ = pick.choice(self.failed[-4:])
        if pick.random() < 0.2:
            return Discard(tenant=tenant, id=id_)
        new_id = self.id() if pick.random() < 0.7 or not self.replays else pick.choice(self.replays)
        self.replays.append(new_id)
        if pick.random() < 0.3:
            self.refs.append((tenant, new_id))
        payload = pick.choice([None, b"3"])
        codec = pick.choice([None, "text"]) if payload else None
        return Replay(tenant=tenant, id=id_, new_id=new_id, payload=payload, codec=codec, again=pick.random() < 0.3)

    async def sweep(self) -> None:
        pick = self.rng
        hold = pick.choice([None] * 8 + [1, 50])
        await self.store.sweep(pick.choice([0, 0, 0, 100]), pick.choice([500, 500, 1, 2]), hold)

    async def purge(self) -> None:
        pick = self.rng
        kept = Retention() if pick.random() < 0.3 else Retention(succeeded=0, cancelled=DAY, failed=0)
        await self.store.purge(kept)

    async def configure(self) -> None:
        pick = self.rng
        if pick.random() < 0.25:
            tenant, body = pick.choice(TENANTS), pick.choice(TENANT_CONFIGS)
            document = Document(tenant=tenant, kind="tenant", name=tenant, body=None if body is None else body.encode())
        else:
            tenant, queue, body = pick.choice(CONFIGS)
            document = Document(tenant=tenant, kind="queue", name=queue, body=None if body is None else body.encode())
        with contextlib.suppress(InvalidValue):
            await self.store.put_document(document, expect=pick.choice([None, None, None, 0, 1]))

    async def read(self) -> None:
        pick = self.rng
        if self.refs:
            refs = [pick.choice(self.refs[-20:]) for _ in range(3)] + [(pick.choice(TENANTS), self.id())]
            await self.store.get(refs, Reading(explain=pick.random() < 0.7))
        where = JobFilter(
            tenant=pick.choice([None, *TENANTS]),
            queue=pick.choice([None, None, *QUEUES]),
            states=pick.choice([None, (State.PENDING,), (State.RUNNING, State.FAILED)]),
            labels=pick.choice([{}, {}, {"team": "x"}]),
            dead_letter=pick.choice([None, None, Disposition.OPEN]),
        )
        await self.store.query(where, limit=pick.choice([5, 1000]))

    async def freeze(self) -> None:
        if self.rng.random() < 0.15:
            await self.store.freeze()
            await self.enqueue()
            await self.settle()
            await self.sweep()
        await self.store.thaw()

    async def move(self) -> None:
        pick = self.rng
        by = pick.choice([1, 1, 5, 10, 11, 100, 101, 105, 1000, 1010, 5_001, 65_000, 3_600_000, DAY, -1, -1000])
        self.clock.advance(by)
        self.store.note("clock", now=self.clock.now)

    async def follow(self) -> None:
        page = await self.store.events(after=self.at)
        self.at = getattr(page, "cursor", self.at)
        if self.rng.random() < 0.05:
            await self.store.events(after=None)
        if self.rng.random() < 0.1:
            await self.store.events(tenant=self.rng.choice(TENANTS))

    async def run(self, steps: int) -> None:
        steps_and_weights = {
            self.enqueue: 22,
            self.claim: 18,
            self.settle: 14,
            self.exchange: 6,
            self.renew: 5,
            self.command: 10,
            self.sweep: 8,
            self.purge: 1,
            self.configure: 5,
            self.read: 5,
            self.freeze: 1,
            self.move: 12,
        }
        chosen = self.rng.choices(list(steps_and_weights), list(steps_and_weights.values()), k=steps)
        for step in chosen:
            await step()
            await self.follow()


async def transfer(script: Script) -> None:
    """Everything moves to another store, and the client with it."""
    old, new = script.store, RecordingStore(MemoryStore(clock=script.clock), script.checker.feed, "moved", script.clock)
    await old.freeze()
    await new.freeze()
    after: str | None = None
    while True:
        page = await old.dump(after=after, limit=50)
        assert isinstance(page, DumpPage)
        await new.load(page.items)
        after = page.cursor
        if after is None:
            break
    await new.thaw()
    script.store, script.at = new, None


async def run_script(seed: int, steps: int, *, sequential: bool = True) -> Checker:
    clock = ManualClock()
    checker = Checker(sequential=sequential)
    store = MemoryStore(clock=clock)
    await store.migrate()
    await Script(store, clock, seed, checker).run(steps)
    return checker


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_memory_store_keeps_the_contract_under_random_calls(seed: int, sequential: bool) -> None:
    checker = asyncio.run(run_script(seed, 250, sequential=sequential))

    summary = checker.finish()

    assert summary.feed_complete or not sequential
    assert summary.claimed > 0
    assert summary.lost == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_transferred_store_goes_on_as_it_was(seed: int) -> None:
    async def run() -> Checker:
        clock = ManualClock()
        checker = Checker(sequential=True)
        script = Script(MemoryStore(clock=clock), clock, seed, checker)
        for _ in range(3):
            await script.run(80)
            await transfer(script)
        await script.run(80)
        return checker

    assert asyncio.run(run()).finish().feed_complete
