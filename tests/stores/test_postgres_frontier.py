"""A claim from a frontier takes what a plain one would, whatever others do and undo meanwhile; and what makes that so.

Claims, enqueues, releases and sweeps of several processes in one thread, their transactions left open at random. Before
each claim the same claim runs without a frontier, in the same transaction, and is undone.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from tenure.domain import model
from tenure.domain.calls import Claim, Claimed, Cursor, Release, Settle
from tenure.domain.job import NewJob, Token
from tenure.domain.model import Unit
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.frontier import Frontier, Frontiers
from tenure.stores.sql.postgres.joined import run_joined
from tenure.stores.sql.postgres.migrate import migrate
from tenure.stores.sql.postgres.place import Place
from tenure.stores.sql.postgres.ring import FrontierRing
from tenure.stores.sql.postgres.runners import OwnRunner, PsycopgRunner
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.testing.clock import ManualClock
from tenure.testing.factories import PostgresFactory

STEPS = 220
SEEDS = (1, 2, 3)
TENANTS = ["a", "b", "c", "d", "e", "f"]
QUEUES = ["mail", "post"]
SCHEMA = "frontier_story"


class Differs(Exception):
    """A claim from a frontier isn't the plain one."""


class Claimer:
    """One connection of a process, with a transaction that may stay open from one step to the next."""

    def __init__(self, story: "Story", place: Place) -> None:
        self.story = story
        self.connection = story.connect()
        self.tables = PostgresTables(OwnRunner(self.connection), place)
        self.plain = PostgresTables(OwnRunner(self.connection), Place(SCHEMA, 0, patience=None))
        self.cursor = Cursor()
        self.open = False
        self.taken: list[Token] = []
        self.given: list[Token] = []

    def begin(self) -> None:
        if not self.open:
            self.connection.execute("BEGIN")
            self.tables.begin()
            self.open = True

    def end(self, well: bool) -> None:
        self.connection.execute("COMMIT" if well else "ROLLBACK")
        if not well:
            self.tables.forget()
        self.tables.end()
        self.story.running += self.taken if well else self.given
        self.open, self.taken, self.given = False, [], []

    def claim(self, request: Claim) -> None:
        self.begin()
        self.connection.execute("SAVEPOINT plain")
        self.plain.begin()
        expected = self._claimed(self.plain, request)
        self.connection.execute("ROLLBACK TO plain")
        self.plain.forget()
        self.plain.end()
        reply = self._claimed(self.tables, request)
        self.story.from_frontier += isinstance(self.tables._ring, FrontierRing)
        if shown(expected) != shown(reply):
            raise Differs(f"{shown(expected)} without a frontier, {shown(reply)} with it")
        self.cursor = reply.cursor
        self.taken += [job.token for job in reply.jobs]

    def _claimed(self, tables: PostgresTables, request: Claim) -> Claimed:
        unit = Unit(tables, self.story.clock.now)
        reply = PostgresStore._claim(unit, request)
        tables.keep(unit)
        assert isinstance(reply, Claimed)
        return reply

    def release(self, token: Token) -> None:
        """To its place, in the transaction that has claimed, or will."""
        self.begin()
        unit = Unit(self.tables, self.story.clock.now)
        model.settle(unit, [Settle(token, Release())])
        self.tables.keep(unit)
        self.given.append(token)

    def sweep(self, well: bool, tells: bool, late: Callable[[], None] = lambda: None) -> None:
        """Reads the feed's inbox and what may be lost, from their borders on; `tells` something itself, after that."""
        tables, connection, schema = self.tables, self.connection, SCHEMA
        connection.execute("BEGIN")
        late()
        tables.begin()
        tables.sequence()
        if connection.execute(f"SELECT count(*) FROM {schema}.inbox".encode()).fetchone() != (0,):
            raise Differs("the sequencer left a chunk behind")
        first = connection.execute(f"SELECT min(deadline) FROM {schema}.claimed".encode()).fetchone()
        if first != (None,) and first != (tables._first_claimed(),):
            raise Differs(f"the first claim is of {first}, not of {tables._first_claimed()}")
        tables.run("clean_claims", self.story.clock.now + 10_000_000, 2, tables._first_claimed())
        if tells:
            connection.execute(f"INSERT INTO {schema}.inbox (tenant, at, body) VALUES ('a', 1, '')".encode())
        connection.execute("COMMIT" if well else "ROLLBACK")
        if not well:
            tables.forget()
        tables.end()


def shown(claimed: Claimed) -> tuple[list[str], Cursor, int | None]:
    return [job.job.spec.id for job in claimed.jobs], claimed.cursor, claimed.wake_after


class Story:
    """Random steps of everybody."""

    def __init__(self, url: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.server = Server(f"{url}?schema={SCHEMA}")
        self.clock = ManualClock()
        self._opened: list[psycopg.Connection[Any]] = []
        with self.server.connect() as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
            migrate(connection, self.server)
        places = [Place(SCHEMA, 0, patience=0) for _ in range(2)]
        self.users = Place(SCHEMA, 0)
        self.claimers = [Claimer(self, place) for place in (places[0], places[0], places[1])]
        self.sweepers = [Claimer(self, place) for place in places]
        self.producers = [self.connect() for _ in range(5)]
        self.free = list(self.producers)
        self.late: list[tuple[psycopg.Connection[Any], list[Token]]] = []
        self.running: list[Token] = []
        self.made = self.claims = self.jobs = self.from_frontier = 0

    def connect(self) -> "psycopg.Connection[Any]":
        connection = self.server.connect()
        connection.execute("SET lock_timeout = '5s'")
        self._opened.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def exchange(self) -> None:
        """A job is given back and claimed in one transaction, the last that began: it looks newer than its snapshot."""
        claimer, connection = self.claimers[0], self.producers[0]
        connection.execute("BEGIN")
        self._joined(connection, lambda unit: model.enqueue(unit, [self._new_job("a", "mail")]))
        connection.execute("COMMIT")
        for _ in range(2):
            claimer.claim(self._request(claimer, n=1))
            claimer.end(well=True)
        token = self._one_running()
        claimer.release(token)
        reply = claimer._claimed(claimer.tables, self._request(claimer, n=1))
        if [one.token.job_id for one in reply.jobs] != [token.job_id]:
            raise Differs(f"{token.job_id} was given back, {shown(reply)} was claimed")
        claimer.end(well=False)

    def give_back_after_claim(self) -> None:
        """In a transaction that isn't the last that began: to the next claim it looks older than the snapshot."""
        claimer = self.claimers[0]
        claimer.begin()
        self._be_overtaken(claimer)
        claimer.claim(self._request(claimer, n=1))
        claimer.release(self._one_running())
        claimer.end(well=True)
        claimer.claim(self._request(claimer, n=1))
        claimer.end(well=True)

    def tell_after_sweep(self) -> None:
        """In such a transaction too: to the next sweep the chunk looks older than the snapshot."""
        sweeper = self.sweepers[0]
        sweeper.sweep(well=True, tells=True, late=lambda: self._be_overtaken(sweeper))
        sweeper.sweep(well=True, tells=False)

    def _be_overtaken(self, claimer: Claimer) -> None:
        """A transaction that began after this one ends before it."""
        for connection in (claimer.connection, self.producers[0]):
            connection.execute("SELECT pg_current_xact_id()")

    def run(self, steps: int) -> None:
        self.exchange()
        self.give_back_after_claim()
        self.tell_after_sweep()
        steps_of = [
            (30, self.enqueue),
            (12, self.end_late),
            (12, self.release),
            (14, self.end_claim),
            (5, self.release_in_claim),
            (6, self.time_passes),
            (8, self.sweep),
            (45, self.claim),
        ]
        names = [step for weight, step in steps_of for _ in range(weight)]
        for _ in range(steps):
            self.random.choice(names)()

    def enqueue(self) -> None:
        """In a user's transaction, perhaps below a savepoint, perhaps not committed for a while."""
        if not self.free:
            return
        connection = self.free.pop()
        connection.execute("BEGIN")
        part = self._new_jobs()
        if self.random.random() < 0.3:
            connection.execute("SAVEPOINT theirs")
            self._joined(connection, part)
            if self.random.random() < 0.3:
                connection.execute("ROLLBACK TO theirs")
        else:
            self._joined(connection, part)
        self._end_or_leave(connection, [])

    def _new_jobs(self) -> Callable[[Unit], Any]:
        jobs = []
        for _ in range(self.random.randrange(1, 5)):
            delay = self.random.randrange(1, 4_000) if self.random.random() < 0.2 else None
            tenant, queue = self.random.choice(TENANTS), self.random.choice(QUEUES)
            jobs.append(self._new_job(tenant, queue, priority=self.random.randrange(3), delay=delay))
        return lambda unit: model.enqueue(unit, jobs)

    def _new_job(self, tenant: str, queue: str, **fields: Any) -> NewJob:
        self.made += 1
        id = f"01900000-0000-7000-8000-{self.made:012x}"
        return NewJob(tenant=tenant, id=id, queue=queue, job_type="send", payload=b"{}", max_attempts=100, **fields)

    def _joined(self, connection: "psycopg.Connection[Any]", part: Callable[[Unit], Any]) -> None:
        run_joined(self.server, self.users, self.clock, PsycopgRunner(connection), part)

    def _end_or_leave(self, connection: "psycopg.Connection[Any]", given: list[Token]) -> None:
        if self.random.random() < 0.5:
            connection.execute("COMMIT")
            self.free.append(connection)
        else:
            self.late.append((connection, given))

    def end_late(self) -> None:
        if self.late:
            connection, given = self.late.pop(self.random.randrange(len(self.late)))
            well = self.random.random() < 0.75
            connection.execute("COMMIT" if well else "ROLLBACK")
            self.running += [] if well else given
            self.free.append(connection)

    def release(self) -> None:
        """Jobs go back to their places, by somebody else."""
        if self.free and self.running:
            connection, token = self.free.pop(), self._one_running()
            connection.execute("BEGIN")
            self._joined(connection, lambda unit: model.settle(unit, [Settle(token, Release())]))
            self._end_or_leave(connection, [token])

    def _one_running(self) -> Token:
        return self.running.pop(self.random.randrange(len(self.running)))

    def end_claim(self) -> None:
        claimer = self.random.choice(self.claimers)
        if claimer.open:
            claimer.end(well=self.random.random() < 0.6)

    def release_in_claim(self) -> None:
        if self.running:
            self.random.choice(self.claimers).release(self._one_running())

    def time_passes(self) -> None:
        self.clock.advance(self.random.randrange(2_000))

    def sweep(self) -> None:
        self.random.choice(self.sweepers).sweep(well=self.random.random() < 0.7, tells=self.random.random() < 0.5)

    def claim(self) -> None:
        claimer = self.random.choice(self.claimers)
        some = tuple(self.random.sample(TENANTS, 3)) if self.random.random() < 0.1 else None
        queues = QUEUES if self.random.random() < 0.6 else [self.random.choice(QUEUES)]
        claimer.claim(self._request(claimer, self.random.randrange(1, 9), queues, some))
        self.jobs += len(claimer.taken)

    def _request(
        self, claimer: Claimer, n: int, queues: Sequence[str] = QUEUES, tenants: tuple[str, ...] | None = None
    ) -> Claim:
        self.claims += 1
        return Claim(
            claim_id=self.claims.to_bytes(16),
            worker="w",
            queues=tuple((queue, None) for queue in queues),
            n=n,
            ttl=self.random.randrange(1_000, 3_600_000),
            cursor=claimer.cursor,
            tenants=tenants,
        )


@contextmanager
def told(url: str, seed: int) -> Iterator[Story]:
    story = Story(url, seed)
    try:
        yield story
    finally:
        story.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_claim_from_a_frontier_is_the_plain_one(postgres_url: str, seed: int) -> None:
    with told(postgres_url, seed) as story:
        story.run(STEPS)
        assert story.claims > STEPS / 4
        assert story.jobs > STEPS / 4
        assert (
            story.from_frontier > story.claims * 0.7
        )  # not so a process's first, and a transaction's with another queue


# When a frontier may be used


def kept_by(url: str, spoil: Callable[[Frontiers], None]) -> int:
    """How many frontiers are left after something happened to them, and a claim; which must find its job."""

    async def main() -> int:
        factory = PostgresFactory(url, patience=0)
        store = await factory.create(ManualClock())
        assert isinstance(store, PostgresStore)
        try:
            for number in range(3):
                id = f"01900000-0000-7000-8000-{number:012x}"
                await store.enqueue([NewJob(tenant="a", id=id, queue="mail", job_type="send", payload=b"{}")])
                if number == 2:
                    spoil(store._opened().place.frontiers)
                claimed = await store.claim(
                    Claim(claim_id=number.to_bytes(16), worker="w", queues=(("mail", None),), n=5)
                )
                assert isinstance(claimed, Claimed)
                assert [one.token.job_id for one in claimed.jobs] == [id]
            return len(store._opened().place.frontiers._kept)
        finally:
            await factory.destroy(store)

    return asyncio.run(main())


def mislead(frontiers: Frontiers) -> Frontier:
    """Whoever goes on from the only frontier that is kept finds no job."""
    (kept,) = frontiers._kept
    kept._lanes.clear()
    kept._names["mail"].clear()
    kept.snapshot = "999999999:999999999:"
    return kept


def test_a_frontier_of_another_server_is_given_up(postgres_url: str) -> None:
    def spoil(frontiers: Frontiers) -> None:
        mislead(frontiers).server = "started long ago"

    assert kept_by(postgres_url, spoil) == 0


def test_a_frontier_from_before_the_connection_is_begun_anew(postgres_url: str) -> None:
    def spoil(frontiers: Frontiers) -> None:
        mislead(frontiers).sent = 0.0

    assert kept_by(postgres_url, spoil) == 1


def test_frontiers_are_kept_for_a_minute_and_while_there_are_few_lanes(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept_by(postgres_url, lambda frontiers: None) == 1
    with monkeypatch.context() as patched:
        patched.setattr("tenure.stores.sql.postgres.tables.MOST_LANES", 0)
        assert kept_by(postgres_url, lambda frontiers: frontiers._kept.clear()) == 0
    monkeypatch.setattr("tenure.stores.sql.postgres.frontier.KEEP_SECONDS", 0.0)
    assert kept_by(postgres_url, lambda frontiers: frontiers.looked(1)) == 0


def test_a_tenant_that_turns_out_to_be_alone_gives_all_that_is_wanted(postgres_url: str) -> None:
    """The look that finds out has read its line for a claim that was to visit two."""

    async def main() -> None:
        factory = PostgresFactory(postgres_url, patience=0)
        store = await factory.create(ManualClock())
        assert isinstance(store, PostgresStore)

        async def claimed(number: int, n: int) -> list[str]:
            request = Claim(claim_id=number.to_bytes(16), worker="w", queues=(("mail", None),), n=n)
            found = await store.claim(request)
            assert isinstance(found, Claimed)
            return [one.token.job_id for one in found.jobs]

        ids = [f"01900000-0000-7000-8000-{number:012x}" for number in range(6)]
        jobs = [NewJob(tenant="a", id=id, queue="mail", job_type="send", payload=b"{}") for id in ids]
        jobs[1] = replace(jobs[1], tenant="b")
        try:
            assert await claimed(1, 1) == []  # from now on there are frontiers
            await store.enqueue(jobs[:2])
            assert await claimed(2, 10) == ids[:2]
            await store.enqueue(jobs[2:])
            assert await claimed(3, 4) == ids[2:]
        finally:
            await factory.destroy(store)

    asyncio.run(main())


@pytest.mark.parametrize(("patience", "entries", "kept"), [(100, 99, False), (100, 100, True), (None, 1 << 40, False)])
def test_frontiers_are_kept_when_they_pay(patience: int | None, entries: int, kept: bool) -> None:
    frontiers = Frontiers(patience)
    frontiers.looked(entries)
    assert (frontiers.lend(["mail"], 0.0) is not None) == kept


def test_pages_of_entries_that_are_known_to_be_dead_count_too(postgres_url: str) -> None:
    """Each claim meets those that the last one took; all others are only walked past."""

    async def main() -> bool:
        factory = PostgresFactory(postgres_url, patience=1_000)
        store = await factory.create(ManualClock())
        assert isinstance(store, PostgresStore)
        try:
            with store._server.connect() as connection:
                table = f'"{store._server.schema}".ready'
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
            ids = [f"01900000-0000-7000-8000-{number:012x}" for number in range(6_000)]
            for start in range(0, len(ids), 1_000):
                await store.enqueue(
                    [
                        NewJob(tenant="a", id=id, queue="mail", job_type="send", payload=b"{}")
                        for id in ids[start : start + 1_000]
                    ]
                )
            for number in range(60):
                request = Claim(claim_id=number.to_bytes(16), worker="w", queues=(("mail", None),), n=100)
                assert isinstance(await store.claim(request), Claimed)
            return store._opened().place.frontiers.lend(["mail"], 0.0) is not None
        finally:
            await factory.destroy(store)

    assert asyncio.run(main())
