"""Plans are guarded: no hot statement may fall back to reading a whole table."""

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.stores.sql.sqlite import SqliteStore
from tenure.stores.sql.sqlite.tables import ORDER, SQL

SCANNED = {
    "lost": {"running"},  # as many rows as workers have slots
    "running_under": {"running"},
    "live_tenants": {"running"},
    "holders": {"running", "slot", "(subquery-1)", "(subquery-2)", "(subquery-3)"},
    "demote": {"ready"},  # only when the clock went back
    "demoted": {"ready"},
    "drained": {"slot"},  # cancelled jobs whose handlers still run: few
    "due_document": {"document"},
    "configuration": {"document"},  # few, and read once until one changes
    "due_bucket": {"bucket"},
    "cascades": {"cascade"},  # read by its key, in order
    "purge_results": {"result"},  # once a day and state; results live an hour
    "drop_result": {"result"},
    "dump_result": {"r"},
    "meta": {"meta"},
    "identity": {"identity"},
    "set_promoted": {"meta"},
    "put_meta": {"meta"},
    "touch_config": {"meta"},
    "has_edges": {"edge"},
    "old_chunks": {"feed", "(subquery-1)"},  # its first rows, in order
}
"""Statements that may read a table from end to end, and which."""

IGNORED = {"want", "found", "json_each", "CONSTANT"}
"""The wanted keys themselves, and what a loose scan has found."""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path: Path = tmp_path_factory.mktemp("plans") / "jobs.db"

    async def make() -> None:
        store = SqliteStore(path)
        await store.migrate()
        await store.close()

    asyncio.run(make())
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def scans(connection: sqlite3.Connection, statement: str) -> set[str]:
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", [None] * statement.count("?")).fetchall()
    return {row[3].split()[1] for row in plan if row[3].startswith("SCAN")} - IGNORED


@pytest.mark.parametrize("analysed", [False, True], ids=["fresh", "stale statistics"])
@pytest.mark.parametrize("name", SQL)
def test_no_statement_reads_a_whole_table(connection: sqlite3.Connection, name: str, analysed: bool) -> None:
    if analysed:
        connection.execute("ANALYZE")  # of an empty store: the worst advice a planner can get
    assert scans(connection, SQL[name]) <= SCANNED.get(name, set())


def test_no_mark_has_a_number() -> None:
    """Python 3.12.0 to 3.12.3 takes `?1` for a name, and warns of values that come in order."""
    assert [name for name, text in SQL.items() if re.search(r"\?\d", text)] == []
    assert ORDER["finish_alike"](("a", "b", "c")) == ("b", "c", "a")
