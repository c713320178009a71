"""A fleet that is being upgraded: programs of this tree beside those of the next, which has one migration more."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import tenure
from tenure import Jobs, Tenure
from tenure.domain.calls import Enqueued
from tenure.domain.errors import SchemaTooNew, StoreUnavailable
from tenure.stores.sql.postgres import PostgresStore, store
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.migrate import SCHEMA, Step, steps
from tenure.stores.sql.postgres.patience import PatientConnection
from tests.upgrade.jobs import job_id, produced

PATIENCE = 60.0

ADDED = """\
-- needs: 1
-- What a migration may do beside programs that don't know of it.
ALTER TABLE tenure.job ADD COLUMN note text;
ALTER TABLE tenure.ready ADD COLUMN hint bigint;
ALTER TABLE tenure.running ADD COLUMN host text DEFAULT 'unknown';
CREATE TABLE tenure.remark (seq bigint PRIMARY KEY, body text NOT NULL);
"""
INDEXED = """\
-- needs: 1
-- apart
-- What is looked for by what.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_kind ON tenure.job (job_type);
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_age ON tenure.job (enqueued_at);
"""
REMARKED = "-- needs: 1\nCREATE TABLE tenure.remark (seq bigint PRIMARY KEY);\n"
REMINDED = "-- needs: 1\nCREATE TABLE tenure.reminder (tenant text PRIMARY KEY);\n"
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'v')"
UNSECURED = """
SELECT relname FROM pg_class AS c WHERE relnamespace = %s::regnamespace AND relkind = 'r' AND relname <> 'migration'
AND NOT (relforcerowsecurity AND relrowsecurity AND EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid))
"""
RENAMED = "ALTER TABLE tenure.job RENAME COLUMN spec TO specification;\n"
CHANGED = "ALTER TABLE tenure.remark DROP COLUMN body;\n"

AT_ONCE = """
import asyncio, sys
from tenure.stores.sql.postgres import store

store.MIGRATE_SECONDS = 0.0
asyncio.run(store.PostgresStore(sys.argv[1]).migrate())
"""

WORK = """
import asyncio, json, sys
from tenure import Tenure

app = Tenure(sys.argv[1])

@app.job
async def double(number: int) -> int:
    return 2 * number

async def main():
    async with app, app.worker():
        handles = await app.enqueue_many([double.build(number) for number in range(30)])
        print(json.dumps([await one.result(timeout=60) for one in handles]))

asyncio.run(main())
"""

jobs = Jobs()


@jobs.job
async def double(number: int) -> int:
    return 2 * number


@pytest.fixture
def url(postgres_url: str) -> Iterator[str]:
    schema = f"u{uuid4().hex}"
    yield f"{postgres_url}?schema={schema}"
    with psycopg.connect(postgres_url) as db:
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


class Tree:
    """This package as it will be after some more migrations."""

    def __init__(self, folder: Path, *migrations: str) -> None:
        self._folder = folder
        assert tenure.__file__ is not None
        shutil.copytree(Path(tenure.__file__).parent, folder / "tenure", ignore=shutil.ignore_patterns("__pycache__"))
        home = folder / "tenure" / "stores" / "sql" / "postgres"
        for number, text in enumerate(migrations, SCHEMA + 1):
            (home / "migrations" / f"{number:04d}.sql").write_text(text)
        code = (home / "migrate.py").read_text()
        (home / "migrate.py").write_text(code.replace(f"SCHEMA = {SCHEMA}\n", f"SCHEMA = {SCHEMA + len(migrations)}\n"))

    def run(self, *arguments: str) -> str:
        ran = self._ran(arguments)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def refused(self, *arguments: str) -> str:
        """What a program said that failed."""
        ran = self._ran(arguments)
        assert ran.returncode, ran.stdout
        return ran.stderr

    def _ran(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *arguments]
        return subprocess.run(
            command,
            env=self._environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, *arguments], env=self._environment, cwd=self._folder)

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self._folder)}


class Building:
    """A migration that builds an index of a table in which somebody has just written: it waits for them."""

    def __init__(self, url: str, newer: Tree) -> None:
        address, _, self._schema = url.partition("?schema=")
        self._db = psycopg.connect(address, autocommit=True)
        self._writer = psycopg.connect(address)
        self._writer.execute(f"LOCK TABLE {self._schema}.job IN ROW EXCLUSIVE MODE".encode())
        self._program = newer.start("-m", "tenure", "migrate", "--url", url)
        self.backend = self._begun()

    def _begun(self) -> int:
        """It waits for the writer: before that nobody else sees the index."""
        deadline = time.monotonic() + PATIENCE
        while (found := self._at_work()) is None or not found[2].startswith("waiting for writers"):
            assert time.monotonic() < deadline
        pid, command, _ = found
        assert command == "CREATE INDEX CONCURRENTLY"
        return int(pid)

    def _at_work(self) -> Any:
        return self._db.execute(
            "SELECT pid, command, phase FROM pg_stat_progress_create_index WHERE relid = to_regclass(%s)",
            (f"{self._schema}.job",),
        ).fetchone()

    def kill(self) -> None:
        """The program; the server's process for it goes on."""
        self._program.kill()
        self._program.wait()

    def terminate(self) -> None:
        """The server's process."""
        self._db.execute("SELECT pg_terminate_backend(%s)", (self.backend,))
        self._until_ended()

    def release(self) -> None:
        """The writer ends."""
        self._writer.rollback()

    def finish(self) -> None:
        """The writer ends, and so does the server's process."""
        self.release()
        self._until_ended()

    def _until_ended(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._at_work() is not None:
            assert time.monotonic() < deadline

    def indexes(self) -> dict[str, bool]:
        """Those that the migration is to build, and whether each may be read."""
        rows = self._db.execute(
            "SELECT c.relname, i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid "
            "WHERE i.indrelid = to_regclass(%s) AND c.relname IN ('job_kind', 'job_age')",
            (f"{self._schema}.job",),
        )
        return dict(rows.fetchall())

    def close(self) -> None:
        self._writer.close()
        self._db.close()
        self.kill()


@pytest.fixture
def newer(tmp_path: Path) -> Tree:
    return Tree(tmp_path, INDEXED, REMARKED)


@pytest.fixture
def building(url: str, newer: Tree) -> Iterator[Building]:
    asyncio.run(PostgresStore(url).migrate())
    made = Building(url, newer)
    yield made
    made.close()


def test_workers_go_on_while_a_newer_tenure_migrates(url: str, tmp_path: Path) -> None:
    newer = Tree(tmp_path, ADDED)

    async def main() -> None:
        app = Tenure(url)
        app.include(jobs)
        async with app, app.worker():
            await check(app, 30)
            going = asyncio.create_task(produce(app))
            migrated = await asyncio.to_thread(newer.run, "-m", "tenure", "migrate", "--json", "--url", url)
            assert json.loads(migrated)["schema"] == SCHEMA + 1
            await check(app, 30)
            worked = await asyncio.to_thread(newer.run, "-c", WORK, url)
            assert json.loads(worked) == [2 * number for number in range(30)]
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
        late = PostgresStore(url)
        assert await late.migrate() == SCHEMA + 1
        assert await late.verify() == []
        await late.close()
        again = Tenure(url)
        again.include(jobs)
        async with again, again.worker():
            await check(again, 5)

    async def check(app: Tenure, count: int) -> None:
        handles = await app.enqueue_many([double.build(number) for number in range(count)])
        assert [await one.result(timeout=PATIENCE) for one in handles] == [2 * number for number in range(count)]

    async def produce(app: Tenure) -> None:
        """Jobs all the while, one after the other."""
        while True:
            assert await (await app.enqueue(double.build(21))).result(timeout=PATIENCE) == 42

    asyncio.run(main())


def test_a_migration_that_older_programs_cant_live_with_stops_them(url: str, tmp_path: Path) -> None:
    newer = Tree(tmp_path, ADDED, CHANGED)
    newer.run("-m", "tenure", "migrate", "--url", url)
    with pytest.raises(SchemaTooNew, match=f"has schema {SCHEMA + 2}, this Tenure knows up to {SCHEMA}"):
        asyncio.run(PostgresStore(url).migrate())


def test_a_program_that_is_running_then_is_told_to_migrate_which_says_why(url: str, tmp_path: Path) -> None:
    newer = Tree(tmp_path, RENAMED)

    async def main() -> None:
        store = PostgresStore(url)
        await store.migrate()
        assert await store.enqueue([produced(1, {})]) == [Enqueued(job_id(1))]
        await asyncio.to_thread(newer.run, "-m", "tenure", "migrate", "--url", url)
        with pytest.raises(StoreUnavailable, match=r"or one of another version: call migrate\(\) first"):
            await store.enqueue([produced(2, {})])
        with pytest.raises(SchemaTooNew, match="upgrade tenure before using it"):
            await store.migrate()
        await store.close()

    asyncio.run(main())


def test_a_migration_waits_for_a_pause_and_says_if_there_is_none(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own waiting must not make everyone wait: it gives up after a second, and asks again."""
    asyncio.run(PostgresStore(url).migrate())
    schema = url.partition("schema=")[2]
    monkeypatch.setattr(store, "MIGRATE_SECONDS", 0.0)
    with psycopg.connect(url.partition("?")[0]) as db:
        db.execute(f"SELECT * FROM {schema}.job".encode())
        with pytest.raises(StoreUnavailable, match="end long transactions"):
            asyncio.run(PostgresStore(url).migrate(row_security=True))


def test_an_index_is_built_beside_writers_and_other_migrations_wait(url: str, newer: Tree, building: Building) -> None:
    async def work() -> None:
        app = Tenure(url)
        app.include(jobs)
        async with app, app.worker():
            assert await (await app.enqueue(double.build(21))).result(timeout=PATIENCE) == 42

    asyncio.run(work())
    assert building.indexes() == {"job_kind": False}  # it still waits
    assert "another program migrates it" in newer.refused("-c", AT_ONCE, url)
    building.release()
    migrated = newer.run("-m", "tenure", "migrate", "--json", "--url", url)
    assert json.loads(migrated)["schema"] == SCHEMA + 2
    assert building.indexes() == {"job_kind": True, "job_age": True}
    asyncio.run(verified(url))


def test_a_migration_leaves_tables_alone_that_are_secured(url: str, tmp_path: Path) -> None:
    asyncio.run(PostgresStore(url).migrate(row_security=True))
    newer = Tree(tmp_path, REMARKED, REMINDED)
    address, _, schema = url.partition("?schema=")
    with psycopg.connect(address) as reader:
        for (name,) in reader.execute(TABLES, (schema,)).fetchall():
            reader.execute(f"LOCK TABLE {schema}.{name} IN ACCESS SHARE MODE".encode())
        newer.run("-c", AT_ONCE, url)
        assert reader.execute(UNSECURED, (schema,)).fetchall() == []


async def verified(url: str) -> None:
    store = PostgresStore(url)
    assert await store.migrate() == SCHEMA + 2
    assert await store.verify() == []
    await store.close()


def test_an_index_whose_build_was_ended_is_built_again(url: str, newer: Tree, building: Building) -> None:
    building.kill()
    building.terminate()
    assert building.indexes() == {"job_kind": False}
    building.release()
    newer.run("-m", "tenure", "migrate", "--url", url)
    assert building.indexes() == {"job_kind": True, "job_age": True}
    asyncio.run(verified(url))


def test_an_index_that_the_server_builds_for_nobody_is_waited_for(url: str, newer: Tree, building: Building) -> None:
    building.kill()
    assert "the server still builds" in newer.refused("-c", AT_ONCE, url)
    building.finish()
    assert building.indexes() == {"job_kind": True}
    newer.run("-m", "tenure", "migrate", "--url", url)
    assert building.indexes() == {"job_kind": True, "job_age": True}


def test_a_build_may_take_as_long_as_it_takes(url: str) -> None:
    with Server(url).connect_to_build() as connection:
        assert not isinstance(connection, PatientConnection)
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)


CREATED = re.compile(r"^CREATE TABLE tenure\.(\w+)", re.MULTILINE)
ALTERED = re.compile(r"^ALTER TABLE tenure\.(\w+)", re.MULTILINE)
INDEXES = re.compile(r"^CREATE (?:UNIQUE )?INDEX \w+ ON tenure\.(\w+)", re.MULTILINE)
APART = re.compile(
    r"CREATE (UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS \w+ ON tenure\.\w+ |"
    r"DROP INDEX CONCURRENTLY IF EXISTS tenure\.\w+$"
)


def misplaced(step: Step) -> list[str]:
    """Tables whose writers a migration would stop for as long as an index takes, or while it waits for another table;
    statements that can't stand apart.
    """
    if not step.apart:
        created = set(CREATED.findall(step.text))
        altered = sorted(set(ALTERED.findall(step.text)) - created)
        return sorted(set(INDEXES.findall(step.text)) - created) + altered[1:]
    plain = re.sub(r"--.*", "", step.text)
    statements = [statement.strip() for statement in plain.split(";\n") if statement.strip()]
    return [statement for statement in statements if not APART.match(statement)]


def test_no_migration_stops_writers_for_long() -> None:
    assert [misplaced(step) for step in steps(0)] == [[]] * SCHEMA


def test_a_migration_that_would_is_found() -> None:
    index = "CREATE INDEX job_kind ON tenure.job (job_type);\n"
    assert misplaced(Step(3, index, 1, apart=False)) == ["job"]
    assert misplaced(Step(3, f"CREATE TABLE tenure.job (job_type text);\n{index}", 1, apart=False)) == []
    assert misplaced(Step(3, ADDED, 1, apart=False)) == ["ready", "running"]
    assert misplaced(Step(3, index, 1, apart=True)) == [index.strip().rstrip(";")]
    assert misplaced(Step(3, INDEXED, 1, apart=True)) == []
