"""`tenure doctor`."""

import asyncio
import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tenure import Tenure
from tenure.domain.calls import Document
from tenure.domain.names import SYSTEM
from tenure.engine.declared import Declarations
from tenure.engine.schedules import Schedules
from tenure.engine.worker.presence import WORKER
from tenure.service.cli.checks import Check, Level
from tenure.service.cli.doctor import clock_check, store_checks
from tenure.service.cli.place import sqlite_check
from tenure.service.cli.unserved import listed
from tenure.service.cli.workers import cards_of
from tenure.stores.clock import system_clock
from tenure.stores.sql.sqlite import SqliteStore
from tenure.stores.sql.sqlite.file import SCHEMA
from tests.cli.kit import Cli, Shop

NOBODY = 65534
HOUR = 3_600_000


def checks(cli: Cli, code: int = 0) -> dict[str, Any]:
    """What was found, by the name of the check."""
    ran = cli("doctor", "--json")
    assert ran.code == code, ran
    assert ran.document["healthy"] is (code == 0)
    return {one["name"]: one for one in ran.document["checks"]}


def problem(cli: Cli, name: str, found: str, advice: str) -> None:
    """One problem, with what to do; the exit code says so too."""
    check = checks(cli, 1)[name]
    assert check["level"] == "problem"
    assert found in check["found"]
    assert advice in check["advice"]


def warning(cli: Cli, name: str, found: str, advice: str) -> None:
    check = checks(cli)[name]
    assert check["level"] == "warning"
    assert found in check["found"]
    assert advice in check["advice"]


def test_a_healthy_store(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    found = checks(cli)
    assert {one["level"] for one in found.values()} == {"ok"}
    assert list(found) == [
        *("url", "sqlite", "folder", "filesystem", "file", "beside", "room", "log", "lock", "schema", "store", "clock")
    ]
    assert found["schema"]["found"] == f"schema {SCHEMA}"
    assert found["beside"]["found"] == "jobs.db-lock"
    assert "the lock file stays" in found["lock"]["found"]
    lines = cli.done("doctor").lines
    assert lines[0].split() == ["verdict", "check", "what"]
    assert all(line.startswith("ok ") for line in lines[1:])


async def looked(app: Tenure) -> dict[str, Check]:
    """What is found while a worker is there that serves queue slow."""
    async with asyncio.timeout(30), app.worker(["slow"]):
        while not await cards_of(await app.store()):
            await asyncio.sleep(0.01)  # until the worker has said that it is there
        return {one.name: one for one in await store_checks(str(app.url))}


def test_jobs_in_a_queue_that_no_worker_serves_are_named(cli: Cli, shop: Shop) -> None:
    shop.enqueue(2)
    assert "queues" not in checks(cli)  # no worker at all: the store's line says so
    found = shop.use(looked)
    assert "types" not in found
    check = found["queues"]
    assert check.level == "warning"
    assert check.found == "jobs are ready in mail, and no worker serves that"
    assert "tenure jobs --queue NAME" in check.advice


def test_an_older_job_is_seen_behind_many(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.service.cli.unserved.PAGE", 2)
    shop.enqueue()
    shop.enqueue(5, "silent", queue="slow", delay=60)
    assert shop.use(looked)["queues"].found == "jobs are ready in mail, and no worker serves that"


def test_types_that_no_worker_knows_are_named(cli: Cli, shop: Shop) -> None:
    """Given back every 30 s they look like any job that waits for its time."""
    shop.enqueue(2, "sned", queue="slow", delay=30)
    shop.enqueue(1, "silent", queue="slow", delay=30)
    assert "types" not in checks(cli)
    found = shop.use(looked)
    assert "queues" not in found
    check = found["types"]
    assert (check.level, check.found) == ("warning", "jobs of sned wait, and no worker knows that type")
    assert "tenure jobs --type NAME" in check.advice


def test_a_worker_that_doesnt_say_what_it_knows_may_know_all(shop: Shop) -> None:
    """Of a version before this one."""
    shop.enqueue(1, "sned", queue="slow")

    async def with_another(app: Tenure) -> dict[str, Check]:
        old = (
            b'{"name":"old","host":"h","pid":1,"started_at":0,"queues":["mail"],"concurrency":1,"running":0,"jobs":[]}'
        )
        await (await app.store()).put_document(Document(tenant=SYSTEM, kind=WORKER, name="old", body=old))
        return await looked(app)

    assert "types" not in shop.use(with_another)


def test_schedules_whose_job_no_worker_knows_are_named(shop: Shop) -> None:
    async def schedule(app: Tenure) -> dict[str, Check]:
        other = Tenure(app.url)

        @other.job
        async def report() -> None: ...

        async with other:
            for tenant in ("acme", "default"):
                await other.tenant(tenant).schedule("nightly", 3_600, report.build())
            await other.tenant("acme").schedule("fine", 3_600, app.definitions["silent"].build())
            await other.tenant("bolt").schedule("resting", 3_600, report.build())
            await other.tenant("bolt").pause_schedule("resting")
        return await looked(app)

    check = shop.use(schedule)["schedules"]
    assert check.level == "warning"
    assert check.found == (
        "no worker knows the job of nightly of tenant acme (job report), nightly of tenant default (job report)"
    )
    assert "tenure schedules remove NAME" in check.advice


def test_schedules_that_no_worker_declares_are_named(cli: Cli, shop: Shop) -> None:
    async def declare(app: Tenure) -> None:
        @app.job(every=60)
        async def often() -> None: ...

        await Declarations(app).look()
        await Schedules(app).drop("often")

    shop.use(declare)
    warning(
        cli, "undeclared", "no worker has declared often of tenant default for 24 hours: paused", "schedules remove"
    )


def test_names_are_few() -> None:
    assert listed("abc") == "a, b, c"
    assert listed("gfedcba") == "a, b, c, d, e and 2 more"


def test_a_store_that_isnt_there_is_not_created(cli: Cli, shop: Shop) -> None:
    problem(cli, "file", "doesn't exist", "tenure migrate")
    assert not shop.path.exists()
    assert "problem  file        " in cli("doctor").out
    shop.path.parent.joinpath("deeper").mkdir()
    shop.path.mkdir()
    problem(cli, "file", "is no file", "give the path of a file")


def test_a_folder_that_isnt_there(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", f"sqlite:///{shop.path.parent}/no/jobs.db")
    problem(cli, "folder", "doesn't exist", "mkdir -p")


def test_who_may_read_and_write(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.enqueue()
    shop.path.chmod(0o644)
    warning(cli, "file", "(mode 644): others may read or write it", "chmod 600")
    shop.path.parent.chmod(0o777)
    warning(cli, "folder", "anyone may replace files there", "chmod o-w")
    shop.path.parent.chmod(0o1777)
    assert checks(cli)["folder"]["level"] == "ok"
    monkeypatch.setattr("os.geteuid", lambda: NOBODY)
    warning(cli, "file", f"{shop.path} belongs to", "run as its owner")


@pytest.mark.parametrize(
    ("end", "name", "said"),
    [
        ("", "file", "may not read and write it"),
        ("-lock", "beside", "may not use it"),
        (None, "folder", "may not write"),
    ],
)
def test_what_may_not_be_used(
    cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch, end: str | None, name: str, said: str
) -> None:
    shop.enqueue()
    closed = shop.path.parent if end is None else Path(f"{shop.path}{end}")
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != closed)
    problem(cli, name, said, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_owner(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    os.chown(f"{shop.path}-lock", NOBODY, NOBODY)
    warning(cli, "beside", f"{shop.path}-lock belongs to", f"chown root {shop.path}-lock")


def test_an_empty_file_and_an_empty_database(cli: Cli, shop: Shop) -> None:
    shop.path.touch(0o600)
    problem(cli, "schema", "the file is empty", "tenure migrate")
    connection = sqlite3.connect(shop.path)
    connection.execute("PRAGMA user_version = 0")
    connection.execute("VACUUM")
    connection.close()
    problem(cli, "schema", f"schema 0, this Tenure's is {SCHEMA}", "tenure migrate")
    cli.done("migrate")
    checks(cli)


def test_a_schema_from_the_future_and_another_programs_file(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    connection = sqlite3.connect(shop.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    problem(cli, "schema", f"has schema 99, this Tenure knows up to {SCHEMA}", "")
    shop.path.unlink()
    connection = sqlite3.connect(shop.path)
    connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.close()
    problem(cli, "schema", "of another program", "give Tenure a file of its own")


def test_filesystems(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.enqueue()
    folder = shop.path.parent.resolve()
    mounts = folder / "mounts"
    monkeypatch.setattr("tenure.service.cli.place.MOUNTS", mounts)
    mounts.write_text(f"30 22 0:26 / {folder} rw - tmpfs none rw\n")
    warning(cli, "filesystem", "tmpfs: it may be gone after a restart", "move the file")
    mounts.unlink()
    assert "doesn't tell" in checks(cli)["filesystem"]["found"]
    text = f"30 22 0:26 / {folder} rw - nfs4 server:/export rw\n"
    monkeypatch.setattr("tenure.stores.sql.sqlite.file._mounts", lambda: text)
    problem(cli, "filesystem", "network filesystem (nfs4)", "local disk")


def test_a_log_that_grows_and_a_device_that_is_nearly_full(
    cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.enqueue()
    monkeypatch.setattr("tenure.service.cli.place.LARGE_WAL", -1)
    monkeypatch.setattr("tenure.service.cli.place.LITTLE_ROOM", 1 << 62)
    warning(cli, "log", "a long reader keeps it", "end its transaction")
    warning(cli, "room", "MiB left on the device", "make room")


def test_a_lock_that_isnt_let_go(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.enqueue()
    monkeypatch.setattr("tenure.service.cli.place.LOCK_SECONDS", 0.0)
    with open(f"{shop.path}-lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        problem(cli, "lock", "another process holds the lock", f"fuser {shop.path}-lock")
    checks(cli)
    Path(f"{shop.path}-lock").unlink()
    assert checks(cli)["lock"]["found"] == "nobody has written yet"


def test_a_store_that_another_program_holds(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.enqueue()
    monkeypatch.setattr("tenure.stores.sql.sqlite.file.BUSY_MS", 10)
    other = sqlite3.connect(shop.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        problem(cli, "store", "held by another program's transaction", "")
    finally:
        other.close()


def test_a_clock_that_went_back(cli: Cli, shop: Shop) -> None:
    """Something was written two hours from now: the store's time can't go back behind it."""

    async def write() -> None:
        store = SqliteStore(shop.path, clock=lambda: system_clock() + 2 * HOUR)
        await store.migrate()
        await store.sweep(0)
        await store.freeze()
        await store.thaw()
        await store.close()

    asyncio.run(write())
    problem(cli, "clock", "ahead of this host's", "NTP")


@pytest.mark.parametrize(
    ("store", "level", "said"),
    [
        (10_900, Level.OK, "900 ms apart"),
        (9_500, Level.OK, "500 ms apart"),
        (13_000, Level.WARNING, "3.0 s ahead of"),
        (1_000, Level.WARNING, "9.0 s behind"),
        (80_000, Level.PROBLEM, "70.0 s ahead of"),
    ],
)
def test_clocks_apart(store: int, level: Level, said: str) -> None:
    check = clock_check(store, 10_000)
    assert check.level is level
    assert said in check.found


def test_a_frozen_store(cli: Cli, shop: Shop) -> None:
    async def freeze(app: Tenure) -> None:
        await (await app.store()).freeze()

    shop.use(freeze)
    warning(cli, "store", "frozen for a transfer", "thaw it")


def test_an_old_sqlite() -> None:
    check = sqlite_check((3, 37, 2))
    assert (check.level, check.found) == (Level.PROBLEM, "SQLite 3.37.2 is too old")


def test_memory(cli: Cli) -> None:
    ran = cli.done("doctor", "--url", "memory://")
    assert ran.lines[2].startswith("warning  memory  jobs live in one process and end with it")
    assert ran.err == ""


def test_the_apps_store_is_looked_at(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    assert cli.done("doctor", "--app", "tests.cli.shop:app", "--json").document["url"] == shop.url
