"""Rows beside records in the SQL stores: their table is read and written for nothing else, and they go with their job,
whoever deletes it.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure.domain.calls import (
    Claim,
    Claimed,
    Discard,
    Fail,
    JobFilter,
    JobView,
    Outcome,
    Reading,
    Renewal,
    Retry,
    Settle,
    Succeed,
)
from tenure.domain.errors import StoreUnavailable
from tenure.domain.job import Failure, NewJob, Token, Traceback
from tenure.domain.names import DAY, MAX_TRACEBACK
from tenure.stores.base import ModelStore
from tenure.stores.sql.postgres import PostgresStore, migrate
from tenure.stores.sql.sqlite import SqliteStore, file
from tenure.testing.clock import ManualClock
from tests.schemas import new_schema

TRACE = Traceback("shop.errors.Declined", "no", "x" * MAX_TRACEBACK)
AGAIN = Retry(Failure("Declined"), traceback=TRACE)

Shell = Callable[[str], list[Any]]
"""Runs a statement as any program would, and answers its rows."""


def ident(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


def job(number: int, **fields: Any) -> NewJob:
    return NewJob(tenant="acme", id=ident(number), queue="mail", job_type="send", payload=b"1", **fields)


class Place:
    """Where a store is, and how others get at it."""

    def __init__(self, open: Callable[..., ModelStore], shell: Shell) -> None:
        self.open = open
        self.shell = shell


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        path = tmp_path / "jobs.db"
        yield Place(lambda *clock: SqliteStore(path, *clock), lambda text: _in_sqlite(path, text))
        return
    with new_schema(request.getfixturevalue("postgres_url")) as url:
        yield Place(lambda *clock: PostgresStore(url, *clock), lambda text: _in_postgres(url, text))


def _in_sqlite(path: Path, text: str) -> list[Any]:
    with sqlite3.connect(path) as connection:
        found = connection.execute(text).fetchall()
    connection.close()
    return found


def _in_postgres(url: str, text: str) -> list[Any]:
    address, _, schema = url.partition("?schema=")
    with psycopg.connect(address) as connection:
        connection.execute(f"SET search_path = {schema}".encode())
        cursor = connection.execute(text.encode())
        return [] if cursor.description is None else cursor.fetchall()


async def claim(store: ModelStore, n: int = 1) -> list[Token]:
    claimed = await store.claim(Claim(claim_id=os.urandom(16), worker="w", queues=(("mail", None),), n=n))
    assert isinstance(claimed, Claimed)
    return [one.token for one in claimed.jobs]


async def fail_each(store: ModelStore, *numbers: int) -> None:
    """An attempt of each job fails, in their order."""
    await store.enqueue([job(number) for number in numbers])
    await store.settle([Settle(token, AGAIN) for token in await claim(store, len(numbers))])


def test_nothing_but_a_failure_and_who_asks_touches_their_table(place: Place) -> None:
    """So a claim, a success, a list and a sweep work where there is none."""

    async def main() -> None:
        store = place.open()
        await store.migrate()
        await store.enqueue([job(number, max_attempts=9) for number in range(6)])
        place.shell("DROP TABLE attached")
        embedded = isinstance(store, SqliteStore)
        place.shell("DROP TRIGGER job_gone" if embedded else "DROP TRIGGER purge_attached ON finished")
        first, second, third, fourth = await claim(store, 4)
        await store.renew([Renewal(first)])
        await store.settle([Settle(first, Succeed(b"1"))])
        request = Claim(claim_id=os.urandom(16), worker="w", queues=(("mail", None),), n=1)
        await store.exchange([Settle(second, Succeed()), Settle(third, Retry(Failure("E")))], request)
        await store.settle([Settle(fourth, Fail(Failure("E")))])
        await store.query(JobFilter(tenant="acme"))
        await store.get([("acme", ident(0))], Reading(explain=True))
        await store.events()
        await store.sweep(0)
        await store.purge()
        for call in (
            store.get([("acme", ident(0))], Reading(tracebacks=True)),
            store.settle([Settle(token, AGAIN) for token in await claim(store)]),
        ):
            with pytest.raises(StoreUnavailable, match=r"call migrate\(\)"):
                await call
        await store.close()

    asyncio.run(main())


def test_they_go_with_their_job_when_a_program_purges_that_doesnt_know_of_them(place: Place) -> None:
    """One of an older schema deletes what it knows: that is enough, however the job ended."""

    async def main() -> None:
        clock = ManualClock()
        store = place.open(clock)
        await store.migrate()
        await fail_each(store, 1, 2, 3, 4)
        outcomes: list[Outcome] = [Succeed(), Fail(Failure("E")), Fail(Failure("E"))]
        last = zip(await claim(store, 3), outcomes, strict=True)
        await store.settle([Settle(token, outcome) for token, outcome in last])
        await store.command([Discard(tenant="acme", id=ident(2))])
        assert place.shell("SELECT count(*) FROM attached") == [(4,)], "a job that is discarded keeps its own"
        clock.advance(90 * DAY)
        while await store.purge():
            pass
        left = place.shell("SELECT job.id FROM attached JOIN job ON job.seq = attached.seq ORDER BY job.id")
        assert left == [(ident(3),), (ident(4),)], "an open dead letter, and one that waits"
        assert place.shell("SELECT count(*) FROM attached") == [(2,)]
        await store.close()

    for text in (*_statements("sqlite"), *_statements("postgres"), *_statements("")):
        assert "purge_attached" not in text
    asyncio.run(main())


def _statements(dialect: str) -> Iterator[str]:
    for one in (resources.files("tenure.stores.sql") / dialect / "statements").iterdir():
        yield one.read_text()


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Migrations end with schema 2 until it is undone."""
    monkeypatch.setattr(file, "SCHEMA", 2)
    monkeypatch.setattr(migrate, "SCHEMA", 2)
    return monkeypatch


def test_a_store_of_schema_2_gets_their_table_while_others_are_at_work(place: Place, older: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        going = place.open()
        assert await going.migrate() == 2
        await going.enqueue([job(1), job(2)])
        (token,) = await claim(going)
        older.undo()
        newer = place.open()
        assert await newer.migrate() == 3
        await going.settle([Settle(token, Succeed())])
        await going.enqueue([job(3)])
        await newer.settle([Settle(one, AGAIN) for one in await claim(going, 2)])
        views = await newer.get([("acme", ident(number)) for number in (1, 2, 3)], Reading(tracebacks=True))
        assert [len(view.tracebacks) for view in views if isinstance(view, JobView)] == [0, 1, 1]
        assert await newer.verify() == []  # type: ignore[attr-defined]  # both can
        await going.close()
        await newer.close()

    asyncio.run(main())


def test_roles_that_may_use_jobs_may_use_what_lies_beside_them(postgres_url: str, older: pytest.MonkeyPatch) -> None:
    with new_schema(postgres_url) as url:
        asyncio.run(PostgresStore(url).migrate())
        _in_postgres(url, "DO $$ BEGIN CREATE ROLE beside NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
        _in_postgres(url, "GRANT SELECT, DELETE ON job TO beside")
        older.undo()
        asyncio.run(PostgresStore(url).migrate())
        asked = [f"has_table_privilege('beside', 'attached', '{may}')" for may in ("SELECT", "DELETE", "INSERT")]
        assert _in_postgres(url, f"SELECT {', '.join(asked)}") == [(True, True, False)]


def test_a_row_that_cant_be_read_is_set_aside_with_what_lies_beside_it(postgres_url: str) -> None:
    async def main(url: str) -> None:
        store = PostgresStore(url)
        await store.migrate()
        await fail_each(store, 1)
        _in_postgres(url, "UPDATE job SET spec = '\\xc1'")
        again = PostgresStore(url)
        assert await claim(again) == []
        ((held,),) = _in_postgres(url, "SELECT held FROM quarantine")
        assert len(held["attached"]) == len(held["job"]) == 1
        assert _in_postgres(url, "SELECT count(*) FROM attached") == [(0,)]
        await store.close()
        await again.close()

    with new_schema(postgres_url) as url:
        asyncio.run(main(url))
