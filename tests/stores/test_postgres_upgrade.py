"""A fleet that is being upgraded: programs of this tree beside those of the next, which has one migration more."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import tenure
from tenure import Jobs, Tenure
from tenure.domain.errors import SchemaTooNew, StoreUnavailable
from tenure.stores.sql.postgres import PostgresStore, store
from tenure.stores.sql.postgres.migrate import SCHEMA

PATIENCE = 60.0

ADDED = """\
-- needs: 1
-- What a migration may do beside programs that don't know of it.
ALTER TABLE tenure.job ADD COLUMN note text;
ALTER TABLE tenure.ready ADD COLUMN hint bigint;
ALTER TABLE tenure.running ADD COLUMN host text DEFAULT 'unknown';
CREATE TABLE tenure.remark (seq bigint PRIMARY KEY, body text NOT NULL);
"""
CHANGED = "ALTER TABLE tenure.remark DROP COLUMN body;\n"

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
        environment = {**os.environ, "PYTHONPATH": str(self._folder)}
        ran = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=self._folder, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


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
