"""A claim of few plain jobs by one statement answers and writes what the model would, or does nothing and leaves it to
the usual way.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenure.domain.calls import Claim, Claimed, Document, Release, Retry, Settle, Succeed
from tenure.domain.config import QUEUE, TENANT, QueueConfig, TenantConfig
from tenure.domain.errors import Refused, StoreFrozen
from tenure.domain.job import Failure, NewJob, Parent, Spec, Token
from tenure.domain.rate import Rate
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import Unique
from tenure.stores import records
from tenure.stores.records import PLAIN_END
from tenure.stores.sql.postgres import PostgresStore, claim_direct
from tenure.stores.sql.postgres import store as module
from tenure.stores.sql.postgres.claim_direct import FEW, claim_few
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory
from tenure.testing.machine.lockstep import Lockstep

STEPS = 250
SEEDS = (1, 2, 3, 4)


def ident(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


def job(number: int, **fields: Any) -> NewJob:
    plain = {"tenant": "acme", "id": ident(number), "queue": "mail", "job_type": "send", "payload": b"{}"}
    return NewJob(**{**plain, **fields})


def claim(number: int, n: int = 10, **fields: Any) -> Claim:
    return Claim(**{"claim_id": number.to_bytes(16), "worker": "w", "queues": (("mail", None),), "n": n, **fields})


def configured(config: QueueConfig | TenantConfig, tenant: str = "acme") -> Document:
    kind, name = (QUEUE, "mail") if isinstance(config, QueueConfig) else (TENANT, tenant)
    return Document(tenant=tenant, kind=kind, name=name, body=msgspec.json.encode(config))


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """How claims went: `jobs` or `none` by one statement, `usual` where that was tried in vain."""
    counted: Counter[str] = Counter()

    def spied(*args: Any) -> Claimed | None:
        claimed = claim_few(*args)
        counted["usual" if claimed is None else "jobs" if claimed.jobs else "none"] += 1
        return claimed

    monkeypatch.setattr(module, "claim_few", spied)
    monkeypatch.setattr(claim_direct, "REST", 0)  # tried as often as can be
    return counted


# In lockstep with the model


class Story:
    """What a small worker and its neighbours do to one queue."""

    def __init__(self, lockstep: Lockstep, seed: int) -> None:
        self._pair = lockstep
        self._chance = random.Random(seed)
        self._made = self._claims = 0
        self._cursor: Any = claim(0).cursor
        self._held: list[Token] = []
        self._last: Claim | None = None

    async def step(self) -> None:
        steps = (self.enqueue, self.claim, self.settle, self.pass_time, self.configure, self.repeat, self.others)
        (step,) = self._chance.choices(steps, (30, 40, 25, 6, 3, 3, 2))
        await step()
        await self._pair.follow()

    async def enqueue(self) -> None:
        (count,) = self._chance.choices((1, 2, 5, FEW + 2), (12, 4, 2, 1))
        await self._pair.call("enqueue", [self._job() for _ in range(count)])

    def _job(self) -> NewJob:
        self._made += 1
        odd: list[dict[str, Any]] = [
            {"labels": {"of": "x"}},
            {"lease": 30_000},
            {"grace": 1_000},
            {"expires": 40_000},
            {"delay": 5_000},
            {"delay": 90_000},
            {"key": f"k{self._made % 3}", "unique": Unique.RETAINED},
            {"tenant": "zoo"},
            {"tenant": "abc", "delay": 5_000},
        ]
        fields = self._chance.choice(odd) if self._chance.random() < 0.08 else {}
        job_type, priority = self._chance.choice(("send", "send", "call")), self._chance.choice((0, 0, 0, 5, -5))
        payload = b"{}" if self._chance.random() < 0.8 else b'"%s"' % (b"x" * self._chance.randrange(300))
        return job(self._made, **{"job_type": job_type, "priority": priority, "payload": payload, **fields})

    async def claim(self) -> None:
        self._claims += 1
        n = self._chance.choice((1, 2, 10, 10, FEW, FEW + 1, 100))
        at_most = self._chance.choice((None, None, None, 1, 3, 200))
        self._last = claim(self._claims, n, queues=(("mail", at_most),), cursor=self._cursor)
        claimed = await self._pair.call("claim", self._last)
        if isinstance(claimed, Claimed):
            self._cursor = claimed.cursor
            self._held += [one.token for one in claimed.jobs]

    async def repeat(self) -> None:
        """A claim whose reply was lost."""
        if self._last is not None:
            await self._pair.call("claim", self._last)

    async def settle(self) -> None:
        self._chance.shuffle(self._held)
        count = self._chance.choice((1, 1, 3, 100))
        ended, self._held = self._held[:count], self._held[count:]
        outcomes = (Succeed(), Succeed(b"1", "json"), Retry(Failure("E", "e"), 0), Retry(Failure("E", "e"), 5_000))
        ends = [self._chance.choices((*outcomes, Release()), (20, 5, 1, 1, 1))[0] for _ in ended]
        if ended:
            await self._pair.call("settle", [Settle(*one) for one in zip(ended, ends, strict=True)])

    async def pass_time(self) -> None:
        self._pair.clock.advance(self._chance.choice((1, 100, 5_000, 70_000)))
        await self._pair.call("sweep", 0)

    async def configure(self) -> None:
        """Then back to the plain queue, mostly."""
        odd: list[QueueConfig | TenantConfig] = [
            QueueConfig(paused=True),
            QueueConfig(limit=2),
            QueueConfig(rate=Rate(1, 1_000)),
            QueueConfig(lease=20_000),
            TenantConfig(paused=True),
            TenantConfig(weight=3),
        ]
        chosen = self._chance.choice(odd)
        for config in (chosen, type(chosen)()):
            await self._pair.call("put_document", configured(config))
            for _ in range(self._chance.randrange(3)):
                await self.claim()

    async def others(self) -> None:
        """From now on, or no longer, over another client, which knows nothing of what this one has seen."""
        if self._pair.other is None:
            await self._pair.open_other()
        other = self._pair.other
        self._pair.client = other if other and self._pair.client is self._pair.store else self._pair.store


def test_they_are_what_the_model_says(postgres_url: str, ways: "Counter[str]") -> None:
    async def main(seed: int) -> None:
        lockstep = Lockstep(PostgresFactory(postgres_url))
        await lockstep.open()
        try:
            story = Story(lockstep, seed)
            for _ in range(STEPS):
                await story.step()
            await lockstep.verify()
            for store in (lockstep.model, lockstep.store):
                await store.freeze()
            await lockstep.compare_dumps(500)
        finally:
            await lockstep.close()

    for seed in SEEDS:
        asyncio.run(main(seed))
    assert min(ways["jobs"], ways["none"], ways["usual"]) > STEPS * len(SEEDS) // 50, ways


# One thing at a time


class Told:
    """A store whose last claim found a few plain jobs."""

    def __init__(self, store: PostgresStore, clock: ManualClock, ways: "Counter[str]", url: str) -> None:
        self.store = store
        self.clock = clock
        self.ways = ways
        self.url = url
        self._claims = 1_000

    async def begin(self) -> None:
        await self.store.enqueue([job(1_000)])
        assert await self.claimed() == [ident(1_000)]
        assert self.store._opened().place.few

    async def answer(self, n: int = 10, **fields: Any) -> Claimed | Refused:
        self._claims += 1
        return await self.store.claim(claim(self._claims, n, **fields))

    async def claimed(self, n: int = 10, **fields: Any) -> list[str]:
        answer = await self.answer(n, **fields)
        assert isinstance(answer, Claimed)
        return [one.token.job_id for one in answer.jobs]

    async def went(self, way: str, wanted: list[str], n: int = 10) -> None:
        """Claims once: by which way, and what that gives."""
        before = Counter(self.ways)
        assert await self.claimed(n) == wanted
        assert self.ways - before == Counter({way: 1})

    def sql(self, text: str) -> None:
        schema = self.store._server.schema
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(text.replace("tenure.", f"{schema}.").encode())


Tells = Callable[[Callable[[Told], Awaitable[None]]], None]


@pytest.fixture
def tells(postgres_url: str, ways: "Counter[str]") -> Tells:
    def run(story: Callable[[Told], Awaitable[None]]) -> None:
        async def main() -> None:
            factory, clock = PostgresFactory(postgres_url), ManualClock()
            store = await factory.create(clock)
            assert isinstance(store, PostgresStore)
            try:
                told = Told(store, clock, ways, postgres_url)
                await told.begin()
                await story(told)
            finally:
                await factory.destroy(store)

        asyncio.run(main())

    return run


def test_the_next_job_is_taken_by_one_statement(tells: Tells) -> None:
    async def story(told: Told) -> None:
        await told.went("none", [])
        await told.store.enqueue([job(1), job(2, job_type="call"), job(3, priority=5)])
        await told.went("jobs", [ident(3), ident(1)], n=2)
        await told.went("jobs", [ident(2)])

    tells(story)


@pytest.mark.parametrize(
    "fields",
    [{"labels": {"a": "b"}}, {"lease": 9_000}, {"grace": 9}, {"expires": 9_000}, {"tenant": "abc"}, {"tenant": "zoo"}],
    ids=lambda fields: next(iter(fields)),
)
def test_a_job_that_isnt_plain_goes_the_usual_way(tells: Tells, fields: dict[str, Any]) -> None:
    async def story(told: Told) -> None:
        await told.store.enqueue([job(1), job(2, **fields)])
        await told.went("usual", [ident(1), ident(2)] if fields != {"tenant": "abc"} else [ident(2), ident(1)])

    tells(story)


def test_many_go_the_usual_way(tells: Tells) -> None:
    async def story(told: Told) -> None:
        await told.store.enqueue([job(number) for number in range(1, FEW + 2)])
        await told.went("usual", [ident(number) for number in range(1, FEW + 2)], n=100)
        assert not told.store._opened().place.few

    tells(story)


def test_what_was_in_vain_isnt_tried_again_at_once(tells: Tells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_direct, "REST", 3)

    async def story(told: Told) -> None:
        await told.store.enqueue([job(1, labels={"a": "b"})])
        await told.went("usual", [ident(1)])
        tried = []
        for number in range(2, 7):
            await told.store.enqueue([job(number)])
            assert await told.claimed() == [ident(number)]
            tried.append(told.ways["jobs"])
        assert tried == [0, 0, 1, 2, 3]

    tells(story)


def test_as_many_as_are_wanted_are_all(tells: Tells) -> None:
    async def story(told: Told) -> None:
        await told.store.enqueue([job(number) for number in range(1, 2 * FEW)])
        await told.went("jobs", [ident(number) for number in range(1, FEW + 1)], n=FEW)

    tells(story)


def test_a_due_job_is_moved_first(tells: Tells) -> None:
    async def story(told: Told) -> None:
        await told.store.enqueue([job(1, delay=5_000)])
        answer = await told.answer()
        assert isinstance(answer, Claimed)
        assert (answer.wake_after, told.ways["none"]) == (5_000, 1)
        told.clock.advance(5_000)
        await told.went("usual", [ident(1)])

    tells(story)


def test_whose_job_comes_next_is_looked_at(tells: Tells) -> None:
    """Its queue may be paused, and then it is no reason to wake up."""

    async def story(told: Told) -> None:
        await told.store.put_document(configured(QueueConfig(paused=True), "abc"))
        await told.store.enqueue([job(1)])
        await told.went("jobs", [ident(1)])  # the enqueue has learnt of it
        await told.store.enqueue([job(2, tenant="abc", delay=5_000), job(3, delay=9_000)])
        answer = await told.answer()
        assert isinstance(answer, Claimed)
        assert (answer.wake_after, told.ways) == (9_000, Counter(jobs=1, usual=1))

    tells(story)


def test_a_clock_that_goes_back(tells: Tells) -> None:
    """A job that was due isn't any more, and stands among those that are."""

    async def story(told: Told) -> None:
        await told.store.enqueue([job(1, delay=5_000), job(2, delay=5_000)])
        told.clock.advance(5_000)
        assert await told.claimed(1) == [ident(1)]
        told.clock.advance(-2_000)
        answer = await told.answer()
        assert isinstance(answer, Claimed)
        assert (answer.jobs, answer.wake_after) == ((), 2_000)

    tells(story)


def test_a_frozen_store_gives_nothing(tells: Tells) -> None:
    async def story(told: Told) -> None:
        await told.store.enqueue([job(1)])
        await told.store.freeze()
        assert await told.answer() == StoreFrozen()

    tells(story)


@pytest.mark.parametrize(
    "config",
    [QueueConfig(paused=True), QueueConfig(limit=1), TenantConfig(paused=True)],
    ids=["queue", "limit", "tenant"],
)
def test_a_queue_that_somebody_else_configured(tells: Tells, config: QueueConfig | TenantConfig) -> None:
    async def story(told: Told) -> None:
        other = PostgresStore(told.store._server.url, told.clock)
        await other.put_document(configured(config))
        await other.close()
        await told.store.enqueue([job(1), job(2)])
        await told.went("usual", [])  # of a limit of one, somebody has it

    tells(story)


def test_an_id_that_is_known_takes_no_more(tells: Tells) -> None:
    async def story(told: Told) -> None:
        await told.store.enqueue([job(1), job(2)])
        first = await told.store.claim(claim(1, 1))
        again = await told.store.claim(claim(1, 1))
        assert isinstance(first, Claimed)
        assert isinstance(again, Claimed)
        assert [one.token for one in again.jobs] == [one.token for one in first.jobs]
        assert told.ways == Counter(jobs=1, usual=1)

    tells(story)


def test_what_others_hold_is_passed_over(tells: Tells) -> None:
    async def story(told: Told) -> None:
        await told.store.enqueue([job(1), job(2)])
        with psycopg.connect(told.url) as connection:
            schema = told.store._server.schema
            connection.execute(f"SELECT * FROM {schema}.ready ORDER BY seq LIMIT 1 FOR UPDATE".encode())
            await told.went("jobs", [ident(2)])
        await told.went("jobs", [ident(1)])

    tells(story)


def test_a_record_that_cant_be_read_stops_nobody(tells: Tells) -> None:
    """It was taken before anybody saw that."""

    async def story(told: Told) -> None:
        await told.store.enqueue([job(1), job(2)])
        told.sql(f"UPDATE tenure.job SET spec = '\\xc1'::bytea || '\\x{PLAIN_END.hex()}' WHERE id = '{ident(1)}'")
        assert await told.claimed() == [ident(2)]
        assert told.ways["jobs"] == 0
        (fault,) = await told.store.verify()
        assert "rows set aside" in fault

    tells(story)


def test_what_a_claim_walks_is_counted(tells: Tells) -> None:
    """Dead rows before the first job: from then on claims keep frontiers."""

    async def story(told: Told) -> None:
        with psycopg.connect(told.url) as holding:
            holding.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holding.execute("SELECT count(*) FROM pg_class")
            told.sql(
                "INSERT INTO tenure.ready SELECT 'mail', 'acme', '', 0, number, number, NULL, 1 "
                "FROM generate_series(1, 40000) AS number"
            )
            told.sql("DELETE FROM tenure.ready")
            await told.store.enqueue([job(1)])
            await told.went("jobs", [ident(1)])
            assert told.store._opened().place.frontiers.needed
            await told.store.enqueue([job(2)])
            await told.went("usual", [ident(2)])

    tells(story)


# How a plain spec ends

NUMBERS = st.one_of(st.none(), st.integers(0, 2**63 - 1))
TEXTS = st.one_of(st.none(), st.text(max_size=9))
SPECS = st.builds(
    Spec,
    tenant=st.just("acme"),
    id=st.just(ident(1)),
    seq=st.integers(0, 2**63 - 1),
    queue=st.just("mail"),
    job_type=st.just("send"),
    codec=st.just("json"),
    fingerprint=st.binary(min_size=32, max_size=32),
    payload_size=st.integers(0, 2**32),
    enqueued_at=st.integers(0, 2**63 - 1),
    max_attempts=st.integers(1, 99),
    retry=st.just(RetryPolicy()),
    timeout=st.integers(0, 2**63 - 1),
    result_ttl=st.integers(0, 2**63 - 1),
    key=TEXTS,
    unique=st.sampled_from(Unique),
    unique_for=NUMBERS,
    group=TEXTS,
    labels=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    lease=NUMBERS,
    grace=NUMBERS,
    expires_at=NUMBERS,
    parents=st.lists(st.builds(Parent, st.just(ident(2))), max_size=2).map(tuple),
    replay_of=TEXTS,
    root_id=TEXTS,
)


def ends_plainly(spec: Spec) -> bool:
    several = (spec.unique_for, spec.group, spec.lease, spec.grace, spec.expires_at, spec.replay_of, spec.root_id)
    return (
        spec.unique is Unique.ACTIVE
        and not spec.labels
        and not spec.parents
        and not any(one is not None for one in several)
    )


@given(SPECS)
def test_only_a_plain_spec_ends_like_one(spec: Spec) -> None:
    assert records.encode(spec).endswith(PLAIN_END) == ends_plainly(spec)


@pytest.mark.parametrize("field", ["lease", "grace", "expires_at"])
@pytest.mark.parametrize("size", range(1, 9))
def test_no_number_looks_like_the_end(field: str, size: int) -> None:
    """One whose bytes are just those that a plain spec has there."""
    own = Spec.__struct_fields__.index(field) - Spec.__struct_fields__.index("root_id") - 1
    number = int.from_bytes(PLAIN_END[own - size : own])
    assert not records.encode(replace(PLAIN, **{field: number})).endswith(PLAIN_END)


PLAIN = Spec("acme", ident(1), 1, "mail", "send", "json", bytes(32), 2, 1, 3, RetryPolicy(), 1, 1)
