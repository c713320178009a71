"""`tenure doctor` on a PostgreSQL store."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from tenure.service.cli import server as looked
from tenure.service.cli.checks import Level
from tenure.stores.sql.postgres import PostgresStore, connection
from tenure.stores.sql.postgres.health import Dead, Holder, examine
from tenure.stores.sql.postgres.migrate import SCHEMA
from tenure.testing.postgres import PostgresServer
from tests.cli.kit import Cli

PATIENCE = 30.0
SETTINGS = {"max_prepared_transactions": "2"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Set up as one should be: these tests look at settings."""
    made = PostgresServer(settings=SETTINGS)
    yield made
    made.remove()


@pytest.fixture
def url(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    async def migrate() -> None:
        store = PostgresStore(server.url)
        await store.migrate()
        await store.close()

    asyncio.run(migrate())
    monkeypatch.setenv("TENURE_URL", server.url)
    yield server.url
    with psycopg.connect(server.url) as db:
        db.execute("DROP SCHEMA IF EXISTS tenure CASCADE")


def checks(cli: Cli, code: int = 0) -> dict[str, Any]:
    ran = cli("doctor", "--json")
    assert ran.code == code, ran
    return {one["name"]: one for one in ran.document["checks"]}


def holders(cli: Cli) -> Any:
    found = checks(cli)["oldest view"]
    assert found["level"] == "warning"
    return found


def test_a_healthy_store(cli: Cli, url: str) -> None:
    found = checks(cli)
    assert {one["level"] for one in found.values()} == {"ok"}
    assert list(found) == [
        *("url", "server", "durability", "connections", "autovacuum", "oldest view", "schema", "dead rows"),
        *("set aside", "store", "clock"),
    ]
    assert found["schema"]["found"] == f"schema {SCHEMA}"
    assert "survives power loss; a failover may lose" in found["durability"]["found"]


def test_a_server_that_is_away_or_too_old(cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OLDEST_SERVER", 990_000)
    found = checks(cli, 1)
    assert "is too old: Tenure needs" in found["server"]["found"]
    assert "store" not in found
    monkeypatch.setenv("TENURE_URL", "postgresql://127.0.0.1:1/db")
    assert "connection failed" in checks(cli, 1)["server"]["found"]


def test_a_schema_that_is_missing_or_newer(cli: Cli, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("INSERT INTO tenure.migration (number, needs) VALUES (98, 1)")
        assert checks(cli)["schema"]["found"] == f"schema 98, which this Tenure, made for {SCHEMA}, can use"
        db.execute("INSERT INTO tenure.migration (number, needs) VALUES (99, 99)")
        found = checks(cli, 1)["schema"]
        assert (found["level"], found["found"]) == ("problem", f"schema 99, this Tenure knows up to {SCHEMA}")
        db.execute("DROP SCHEMA tenure CASCADE")
        found = checks(cli, 1)["schema"]
        assert (found["found"], found["advice"]) == (f"schema 0, this Tenure's is {SCHEMA}", "run: tenure migrate")


def test_a_session_and_a_prepared_transaction_that_hold_dead_rows(
    cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked, "OLD_SECONDS", 0.0)
    with psycopg.connect(url, application_name="lunch") as db:
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        db.execute("SELECT 1")
        found = holders(cli)
        pid = db.info.backend_pid
        assert f"session pid {pid} of tenure (lunch, idle in transaction)" in found["found"]
        assert found["advice"] == f"end it: SELECT pg_terminate_backend({pid})"
        db.rollback()
        db.execute("BEGIN")
        db.execute("SELECT pg_current_xact_id()")
        db.execute("PREPARE TRANSACTION 'forgotten'")
    try:
        found = holders(cli)
        assert "prepared transaction forgotten of tenure, for 0 s" in found["found"]
        assert found["advice"] == "end it: ROLLBACK PREPARED 'forgotten'"
    finally:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("ROLLBACK PREPARED 'forgotten'")
    assert checks(cli)["oldest view"]["level"] == "ok"


def test_a_standby_and_its_slot_that_hold_dead_rows(
    cli: Cli, server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked, "OLD_TRANSACTIONS", -1)
    telling = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1"}
    standby = PostgresServer(settings=SETTINGS | telling, primary=server)
    try:
        with psycopg.connect(url, autocommit=True) as db, psycopg.connect(standby.url, autocommit=True) as there:
            until(db, "SELECT count(*) > 0 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL")
            assert "standby walreceiver at 127.0.0.1, for" in holders(cli)["found"]
            db.execute("SELECT pg_create_physical_replication_slot('north')")
            there.execute("ALTER SYSTEM SET primary_slot_name = 'north'")
            there.execute("SELECT pg_reload_conf()")
            until(db, "SELECT count(*) > 0 FROM pg_replication_slots WHERE xmin IS NOT NULL")
            assert "replication slot north (in use), for" in holders(cli)["found"]
            standby.stop()
            until(db, "SELECT NOT active FROM pg_replication_slots")
            found = holders(cli)
            assert "replication slot north (nobody uses it), for" in found["found"]
            assert found["advice"] == "end it: SELECT pg_drop_replication_slot('north')"
            db.execute("SELECT pg_drop_replication_slot('north')")
    finally:
        standby.remove()


def until(db: "psycopg.Connection[Any]", question: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while db.execute(question.encode()).fetchone() != (True,):
        assert time.monotonic() < deadline, question
        time.sleep(0.01)


def test_a_role_that_may_not_see_others(cli: Cli, server: PostgresServer, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE ROLE clerk LOGIN CONNECTION LIMIT 3")
        db.execute("GRANT ALL ON SCHEMA tenure TO clerk; GRANT ALL ON ALL TABLES IN SCHEMA tenure TO clerk")
        db.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA tenure TO clerk")
    try:
        ran = cli("doctor", "--json", "--url", server.url.replace("tenure@", "clerk@"))
        found = {one["name"]: one for one in ran.document["checks"]}
        assert "pg_read_all_stats" in found["oldest view"]["found"]
        assert found["connections"]["level"] == "problem"
        assert "of 3 connections" in found["connections"]["found"]
    finally:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("DROP OWNED BY clerk; DROP ROLE clerk")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fsync": "off"}, "may destroy the database"),
        ({"full_page_writes": "off"}, "torn pages"),
        ({"synchronous_commit": "off"}, "loses the last moments of jobs"),
    ],
)
def test_settings_that_lose_what_was_committed(changed: dict[str, str], said: str) -> None:
    check = looked.durability_check({**SAFE, **changed})
    assert check.level is Level.WARNING
    assert said in check.found


def test_settings_that_keep_what_was_committed() -> None:
    check = looked.durability_check({**SAFE, "synchronous_standby_names": "north"})
    assert (check.level, check.found) == (Level.OK, "what is committed survives power loss, and failover to north")


def test_autovacuum_that_is_off() -> None:
    for name in ("autovacuum", "track_counts"):
        check = looked.autovacuum_check({"autovacuum": "on", "track_counts": "on", name: "off"})
        assert (check.level, check.found.split(":")[0]) == (Level.WARNING, f"{name} is off")


def test_few_connections(url: str) -> None:
    health = replace(examine(f"{url}?connections=40"), connections=100)
    assert health.wanted == 43
    assert looked.connections_check(replace(health, used=58)).level is Level.WARNING
    assert looked.connections_check(replace(health, used=57)).level is Level.OK


def test_dead_rows() -> None:
    tables = [Dead("ready", 10, 2_000_000), Dead("inbox", 3_000_000, 200_000)]
    check = looked.dead_check(tables)
    assert (check.level, check.found) == (Level.WARNING, "ready has 2,000,000 dead rows beside 10")
    assert looked.dead_check(tables[1:]).level is Level.OK


def test_age() -> None:
    """By time where the server tells it, else by transactions."""
    assert looked.is_old(Holder("session", "", 61.0, 1, ""))
    assert not looked.is_old(Holder("session", "", 59.0, 1 << 20, ""))
    assert looked.is_old(Holder("standby", "", None, 10_001, ""))
    assert not looked.is_old(Holder("standby", "", None, 10_000, ""))


SAFE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "synchronous_standby_names": ""}
