"""What a call reads doesn't grow with the store, whatever the planner believed when it made its plans.

Rows that the server read are counted, not time: by its own statistics, sent at once.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import msgspec
import psycopg
import pytest

from tenure.domain.calls import (
    Cancel,
    Claim,
    Cursor,
    Document,
    Fail,
    JobFilter,
    Reading,
    Renewal,
    Retry,
    Settle,
    Succeed,
)
from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.job import Failure, NewJob, Token
from tenure.domain.states import Mode
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres import store as postgres_store
from tenure.stores.sql.postgres.frontier import Frontiers
from tenure.stores.sql.postgres.lending import OwnConnections
from tenure.stores.sql.postgres.runners import OwnRunner
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory

FEW, MANY = 10, 12_000


@pytest.fixture(scope="module")
def postgres_url(quiet_postgres_url: str) -> str:
    return quiet_postgres_url


MOST = 60
"""Rows that a call may read for each of its jobs, fixed costs included. One wrong index reads them all."""

READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = %(schema)s)
     + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = %(schema)s)
"""


def uuid(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


class Counted:
    """A store with one connection, and what its calls read."""

    def __init__(self, store: PostgresStore, url: str, schema: str) -> None:
        self.store = store
        self.url = url
        self.schema = schema
        self.made = 0
        self.claims = 0
        self.fed: str | None = None

    async def connect(self) -> None:
        body = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1_000))
        await self.store.put_document(Document(tenant="*", kind=QUEUE, name="calls", body=body))
        await self.store.get([("t0", uuid(0))])

    def connection(self) -> "psycopg.Connection[Any]":
        lender = self.store._opened().connections
        assert isinstance(lender, OwnConnections)
        (tables,) = lender.idle
        return tables.connection

    async def reads(self, call: Awaitable[Any]) -> int:
        self.connection().execute("SELECT pg_stat_force_next_flush()")
        before = self._read()
        await call
        self.connection().execute("SELECT pg_stat_force_next_flush()")
        self.connection().execute("SELECT 1")
        return self._read() - before

    def _read(self) -> int:
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(READ, {"schema": self.schema}).fetchone()
        assert row is not None
        return int(row[0])

    def vacuum(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"SET search_path = {self.schema}".encode())
            tables = connection.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace", (self.schema,)
            ).fetchall()
            for (table,) in tables:
                connection.execute(f"VACUUM (ANALYZE) {table}".encode())

    def jobs(self, count: int, queue: str = "mail", **fields: Any) -> list[NewJob]:
        numbers = range(self.made, self.made + count)
        self.made += count
        return [
            NewJob(tenant=f"t{n % 3}", id=uuid(n), queue=queue, job_type="send", payload=b"{}", **fields)
            for n in numbers
        ]

    def claim(self, n: int = FEW, queue: str = "mail") -> Claim:
        self.claims += 1
        return Claim(
            claim_id=self.claims.to_bytes(16),
            worker="w",
            queues=((queue, None),),
            n=n,
            ttl=60_000,
            grace=5_000,
            cursor=Cursor(),
        )

    async def tokens(self, n: int = FEW) -> list[Token]:
        claimed: Any = await self.store.claim(self.claim(n))
        return [job.token for job in claimed.jobs]


Story = Callable[[Counted], Awaitable[None]]


async def in_thread(opened: Any, what: Callable[..., Any], *values: Any) -> Any:
    """Where all other calls are, so that they share a connection."""
    return await asyncio.wrap_future(opened.pool.submit(what, *values))


def told(url: str, story: Story, patience: int | None = None) -> None:
    """All calls on one connection, whose reads are counted."""

    async def main() -> None:
        factory, clock = PostgresFactory(url, patience=patience), ManualClock()
        store = await factory.create(clock)
        assert isinstance(store, PostgresStore)
        try:
            await story(Counted(store, url, factory.schema_of(store)))
        finally:
            await factory.destroy(store)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_store._Open, "on_loop", in_thread)
        asyncio.run(main())


async def everything(counted: Counted) -> dict[str, int]:
    """Each call once, for a few jobs: what it read."""
    store, found = counted.store, {}
    new = counted.jobs(FEW)
    found["enqueue"] = await counted.reads(store.enqueue(new))
    found["enqueue again"] = await counted.reads(store.enqueue(new))
    found["enqueue keys"] = await counted.reads(store.enqueue(keyed := counted.jobs(FEW, key="k", expires=99_000)[:1]))
    found["enqueue later"] = await counted.reads(store.enqueue(counted.jobs(FEW, delay=86_400_000)))
    found["claim"] = await counted.reads(store.claim(counted.claim()))
    await store.enqueue([*counted.jobs(FEW, priority=4), *counted.jobs(FEW, priority=1)])
    found["claim by priority"] = await counted.reads(store.claim(counted.claim(2 * FEW)))
    await store.enqueue(counted.jobs(2 * FEW))
    tokens = await counted.tokens()
    found["settle"] = await counted.reads(store.settle([Settle(token, Succeed(b"1", "json")) for token in tokens]))
    tokens = await counted.tokens()
    found["renew"] = await counted.reads(store.renew([Renewal(token) for token in tokens]))
    failed = Retry(Failure("E", "e"), 0)
    found["retry"] = await counted.reads(store.settle([Settle(token, failed) for token in tokens]))
    tokens = await counted.tokens()
    found["exchange"] = await counted.reads(
        store.exchange([Settle(token, Succeed()) for token in tokens], counted.claim())
    )
    grouped = counted.jobs(FEW, queue="calls", group="g")
    found["enqueue in a group"] = await counted.reads(store.enqueue(grouped))
    found["claim of groups"] = await counted.reads(store.claim(counted.claim(queue="calls")))
    found["cancel"] = await counted.reads(store.command([Cancel(tenant=job.tenant, id=job.id) for job in keyed]))
    found["get"] = await counted.reads(store.get([(job.tenant, job.id) for job in new], Reading(explain=True)))
    found["query"] = await counted.reads(store.query(JobFilter(tenant="t1"), limit=FEW))
    found["sweep"] = await counted.reads(store.sweep(0))
    found["feed"] = await counted.reads(store.events(after=counted.fed, limit=1))
    return found


@pytest.mark.parametrize("stale", [True, False], ids=["planned on empty tables", "planned anew"])
def test_what_a_call_reads_doesnt_grow(postgres_url: str, stale: bool) -> None:
    async def story(counted: Counted) -> None:
        await counted.connect()
        counted.vacuum()  # statistics say that every table is empty
        before = await everything(counted)
        jobs = counted.jobs(MANY)
        for start in range(0, MANY, 500):
            await counted.store.enqueue(jobs[start : start + 500])
        await counted.store.enqueue(counted.jobs(500, delay=3_600_000))
        for group in ("a", "g", "z"):
            await counted.store.enqueue(counted.jobs(500, queue="calls", group=group))
        tokens = await counted.tokens(500)
        await counted.store.settle([Settle(token, Succeed()) for token in tokens])
        if not stale:
            counted.vacuum()
        await everything(counted)  # whoever comes first marks dead rows as such
        after = await everything(counted)
        grown = {name: (before[name], reads) for name, reads in after.items() if reads > before[name] + FEW * MOST}
        assert grown == {}
        assert all(after[name] > 0 for name in ("claim", "settle", "get"))

    told(postgres_url, story)


DEAD = 20_000
MAKE_DEAD = f"""
INSERT INTO ready (queue, tenant, grp, prio_neg, run_at, seq, version)
SELECT 'mail', 't' || g % 3, '', -(g % 5), g, 1000000 + g, 1 FROM generate_series(1, {DEAD}) AS g;
INSERT INTO scheduled (queue, tenant, grp, prio_neg, run_at, seq, version)
SELECT 'mail', 't' || g % 3, '', 0, g, 1000000 + g, 1 FROM generate_series(1, {DEAD}) AS g;
INSERT INTO running (seq, queue, tenant, grp, token, deadline, live, version, limited)
SELECT 1000000 + g, 'mail', 't1', '', '', 0, '', 1, false FROM generate_series(1, {DEAD}) AS g;
INSERT INTO claimed (token, deadline, seqs) SELECT int8send(g), g, '{{}}' FROM generate_series(1, {DEAD}) AS g;
INSERT INTO inbox (tenant, at, body) SELECT 't1', 1, '' FROM generate_series(1, {DEAD}) AS g;
DELETE FROM ready; DELETE FROM scheduled; DELETE FROM running; DELETE FROM claimed; DELETE FROM inbox;
ANALYZE ready, scheduled, running, claimed, inbox
"""
"""Tables that are empty, and that statistics know to be so, and that have many dead rows at their beginnings."""


def dead(counted: Counted) -> None:
    with psycopg.connect(counted.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {counted.schema}".encode())
        for statement in MAKE_DEAD.split(";"):
            connection.execute(statement.encode())


@contextmanager
def held(url: str) -> Iterator[None]:
    """Nothing that dies in the block is cleared away."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield


@pytest.mark.parametrize("patience", [0, None], ids=["always from a frontier", "as it comes"])
def test_what_a_call_reads_doesnt_grow_while_somebody_holds_a_transaction(
    postgres_url: str, patience: int | None
) -> None:
    async def story(counted: Counted) -> None:
        await counted.connect()
        await everything(counted)
        before = await everything(counted)
        with held(counted.url):
            dead(counted)
            await everything(counted)  # walks what died since, once
            after = await everything(counted)
        grown = {name: (before[name], reads) for name, reads in after.items() if reads > before[name] + FEW * MOST}
        grown.pop("query", None)  # a list may read what it likes
        assert grown == {}

    told(postgres_url, story, patience)


def test_without_a_frontier_it_would(postgres_url: str) -> None:
    """What the test above would see."""

    async def story(counted: Counted) -> None:
        await counted.connect()
        place = counted.store._opened().place
        place.frontiers = Frontiers(None)
        with held(counted.url):
            dead(counted)
            await everything(counted)
            assert await counted.reads(counted.store.claim(counted.claim())) > DEAD
            for call in (counted.store.events(), counted.store.sweep(0)):
                place.borders.clear()
                assert await counted.reads(call) > DEAD

    told(postgres_url, story)


LINE = "queue = tenant = grp = run_at <="
"""A line from its beginning on."""
HOLDING = {("running_group", "queue = tenant = grp ="), ("slot_lane", "queue = tenant = grp =")}
WALKED = {
    "claim_look": {
        ("ready_pkey", "queue = tenant >"),
        ("scheduled_pkey", "queue = run_at <="),
        ("claimed_pkey", "token ="),
    },
    "lines": {("ready_pkey", LINE), ("job_pkey", "seq =")},
    "line": {
        ("ready_pkey", "queue = tenant = grp = ROW(prio_neg, run_at, seq) > run_at <="),
        ("job_pkey", "seq ="),
    },
    "groups": {("ready_pkey", "queue = tenant = grp >")},
    "group_starts": {("ready_pkey", LINE), ("job_pkey", "seq ="), *HOLDING},
    "group_counts": HOLDING,
    "arrive_one": set(),
    "arrive_alike": set(),
    "arrive_numbered": set(),
    "arrive_at_once": set(),
    "take_ready": set(),
    "claim_from": {
        ("ready_xid", "xid >= xid <"),
        ("ready_xid", "xid = ANY"),
        ("ready_pkey", "queue = tenant = grp = prio_neg = ROW(run_at, seq) >= run_at <="),
        ("ready_pkey", "queue = tenant = grp = prio_neg = ROW(run_at, seq) >="),
        ("ready_pkey", "queue = tenant ="),  # of a keyed queue, whether anybody is there
        ("scheduled_xid", "xid >= xid <"),
        ("scheduled_xid", "xid = ANY"),
        ("scheduled_pkey", "queue = ROW(run_at, seq) >="),
        ("job_pkey", "seq ="),
        ("claimed_pkey", "token ="),
    },
    "claim_few": {
        ("ready_pkey", "queue = tenant <"),
        ("ready_pkey", "queue = tenant >"),
        ("ready_pkey", LINE),
        ("scheduled_pkey", "queue ="),
        ("job_pkey", "seq ="),
        ("claimed_pkey", "token ="),
    },
    "claim_discover": {
        ("ready_pkey", "queue ="),
        ("ready_pkey", "queue = ROW(tenant, grp, prio_neg) >"),
        ("ready_pkey", "queue = tenant >"),
        ("scheduled_pkey", "queue ="),
    },
    "promote": {("scheduled_pkey", "queue = run_at <= ROW(run_at, seq) >=")},
    "lease_at_once": set(),
    "finish_at_once": {("running_pkey", "seq = ANY")},
    "sequence": {
        ("inbox_xid", "xid >= xid <"),
        ("inbox_xid", "xid = ANY"),
        ("inbox_pkey", "seq >="),
        ("inbox_pkey", "seq = ANY"),
    },
    "lost": {("claimed_deadline", "deadline < deadline >="), ("running_pkey", "seq ="), ("job_pkey", "seq =")},
    "clean_claims": {
        ("claimed_deadline", "deadline < deadline >="),
        ("running_pkey", "seq ="),
        ("claimed_pkey", "token = ANY"),
    },
    "dump_result": {("result_pkey", "ROW(expires_at, seq) >"), ("job_pkey", "seq =")},
    "dump_attached": {("attached_pkey", "seq >= ROW(seq, member) > family ="), ("job_pkey", "seq =")},
    "first_claimed": {
        ("claimed_xid", "xid >= xid <"),
        ("claimed_xid", "xid = ANY"),
        ("claimed_deadline", "deadline >="),
    },
}
"""Statement → the indexes by which it finds rows of tables that may be full of dead ones, and by what."""
WHOLE = {"arrive_alike", "arrive_at_once"}
"""Statements whose optional parts have parameters of their own: with these left out, their types wouldn't be known."""
OPTIONAL = re.compile(r"/\* \w+ \*/ .*?/\* end \*/ ", re.DOTALL)
"""Parts of a statement that plain jobs don't need."""


JOINS = ("off", "on")

Plans = dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def plans(postgres_url: str) -> Plans:
    """By statement and joins, all over the tables of one store: to be planned changes nothing."""
    found: Plans = {}

    async def story(counted: Counted) -> None:
        await counted.connect()
        with held(counted.url):
            dead(counted)
            for statement, joins in product(WALKED, JOINS):
                text = counted.store._opened().place.sql[statement].text
                for kind in ("hash", "merge"):
                    counted.connection().execute(f"SET enable_{kind}join = {joins}".encode())
                plan = generic_plan(counted.connection(), text if statement in WHOLE else OPTIONAL.sub("", text))
                found[statement, joins] = plan

    told(postgres_url, story)
    return found


@pytest.mark.parametrize("joins", JOINS)
@pytest.mark.parametrize("statement", WALKED)
def test_plans_over_empty_tables_full_of_dead_rows(plans: Plans, statement: str, joins: str) -> None:
    """Hash and merge joins are off on the store's own connections; on a user's they may be on, and nothing changes."""
    plan = plans[statement, joins]
    assert " Seq Scan on meta" in plan or " Seq Scan" not in plan, plan
    assert scans(plan) == WALKED[statement], plan


def generic_plan(connection: "psycopg.Connection[Any]", text: str) -> str:
    """The plan that a connection of the store keeps."""
    values = max(int(number) for number in re.findall(r"\$(\d+)", text))
    connection.execute(f"PREPARE shown AS {text}".encode())
    rows = connection.execute(f"EXPLAIN (COSTS OFF) EXECUTE shown ({', '.join(['NULL'] * values)})".encode())
    connection.execute("DEALLOCATE shown")
    return "\n".join(row[0] for row in rows.fetchall())


def scans(plan: str) -> set[tuple[str, str]]:
    """(index, columns and operators of its condition) of every index scan; but of a table with one row, or one end."""
    found = re.findall(r"Index (?:Only )?Scan (?:Backward )?using (\w+) on [^\n]*\n(?:\s+Index Cond: ([^\n]*))?", plan)
    return {(index, condition(shown)) for index, shown in found if index not in ("meta_pkey", "feed_pkey")}


def condition(shown: str) -> str:
    """What an index condition compares, without the values."""
    parts = re.findall(r"(ROW\([^)]*\)|\b\w+) (>=|<=|=|<|>|IS NOT NULL)( ANY)?", shown)
    return " ".join(f"{column} {operator}{many}" for column, operator, many in parts)


Asked = list[tuple[str, Sequence[Any]]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Every statement that is run, with its values."""
    found: Asked = []
    run = OwnRunner.run

    def recorded(runner: OwnRunner, text: str, values: Sequence[Any]) -> Any:
        found.append((text, values))
        return run(runner, text, values)

    monkeypatch.setattr(OwnRunner, "run", recorded)
    return found


def test_labels_are_put_by_place(postgres_url: str, asked: Asked) -> None:
    """Compared with each job of their batch, a thousand labels would take a million comparisons."""

    async def story(counted: Counted) -> None:
        await counted.store.enqueue(counted.jobs(1))  # connects
        asked.clear()
        labelled = [counted.jobs(FEW // 2, labels={"team": team, "region": "eu"}) for team in ("crm", "erp")]
        await counted.store.enqueue([job for jobs in labelled for job in jobs])
        ((text, values),) = asked
        plan = "\n".join(row[0] for row in counted.connection().execute(f"EXPLAIN {text}".encode(), values).fetchall())
        assert "Insert on label" in plan
        assert "Join Filter" not in plan
        page = await counted.store.query(JobFilter(labels={"region": "eu"}), limit=2 * FEW)
        assert len(page.jobs) == 2 * (FEW // 2)

    told(postgres_url, story)


def test_how_often_a_list_asks_doesnt_grow(postgres_url: str, asked: Asked) -> None:
    """Results and dead letters of many jobs come together."""

    async def story(counted: Counted) -> None:
        store, jobs = counted.store, counted.jobs(20)
        await store.enqueue(jobs)
        tokens = await counted.tokens(20)
        await store.settle([Settle(token, Succeed(b"1", "json")) for token in tokens[:10]])
        await store.settle([Settle(token, Fail(Failure("E", "e"))) for token in tokens[10:]])
        refs = [(job.tenant, job.id) for job in jobs]
        counts = []
        for call in (store.get(refs), store.get(refs[:2]), store.query(JobFilter(), limit=20)):
            asked.clear()
            await call
            counts.append(len(asked))
        assert max(counts) <= 8, counts

    told(postgres_url, story)


def test_how_often_a_claim_asks_doesnt_grow_with_its_groups(postgres_url: str, asked: Asked) -> None:
    """Groups are tried for, counted and begun together."""

    async def story(counted: Counted) -> None:
        body = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1))
        await counted.store.put_document(Document(tenant="*", kind=QUEUE, name="mail", body=body))
        await counted.store.enqueue([job for number in range(60) for job in counted.jobs(3, group=f"g{number:02}")])
        await counted.tokens(1)  # learns what is configured
        counts = []
        for n in (3, 90):
            asked.clear()
            assert len(await counted.tokens(n)) == n
            counts.append(len(asked))
        assert counts[1] <= counts[0] + 6, counts

    told(postgres_url, story)


def test_a_list_looks_up_where_jobs_are_however_empty_that_seems(postgres_url: str) -> None:
    """Emptied tables keep their pages, and seem to cost nothing to read: with all the dead rows of those to come."""

    async def story(counted: Counted) -> None:
        await counted.store.enqueue(counted.jobs(500))
        tokens = await counted.tokens(500)
        await counted.store.settle([Settle(token, Succeed()) for token in tokens[:250]])
        with psycopg.connect(counted.url, autocommit=True) as connection:
            connection.execute(f"DELETE FROM {counted.schema}.running".encode())
            connection.execute(f"DELETE FROM {counted.schema}.finished".encode())
            connection.execute(f"DELETE FROM {counted.schema}.job".encode())
        counted.vacuum()
        where = "tenant COLLATE \"POSIX\" = 't1'"
        listed = f"SELECT * FROM {counted.schema}.record WHERE {where} ORDER BY (seq + 0) DESC LIMIT 9"
        plan = [row[0].strip() for row in counted.connection().execute(f"EXPLAIN (COSTS OFF) {listed}".encode())]
        for table in ("running", "finished"):
            (at,) = (number for number, line in enumerate(plan) if f"using {table}_pkey" in line)
            assert plan[at + 1] == "Index Cond: (seq = job.seq)", plan

    told(postgres_url, story)
