"""Keeping a lake small and lawful: compaction, vacuum, erasing a tenant, and how it stands. None of it needs Spark."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from tenure.domain.errors import NotReady
from tenure.domain.names import tenant_name
from tenure.spark.lake.lock import locked
from tenure.spark.lake.log import Log
from tenure.spark.lake.schemas import TABLES

KEEP_HOURS = 168
"""How long a version can still be read after a newer one took its place."""
MANY_FILES = 200
"""Live files of a table from which a sync compacts it: every commit and every read walks their list."""

Told = Callable[[str], None]


class TableState(msgspec.Struct, frozen=True):
    """How a table stands."""

    name: str
    version: int
    store: str
    position: int | None
    files: int
    rows: int
    bytes: int


class Cleaned(msgspec.Struct, frozen=True):
    compacted: int
    deleted: int


def state(lake: Path) -> list[TableState]:
    """Every table, bronze first."""
    logs = [Log.open(lake, table) for table in TABLES.values()]
    return [
        TableState(
            log.table.name,
            log.version,
            log.store,
            log.position,
            len(log.files),
            sum(file.rows for file in log.files),
            sum(file.size for file in log.files),
        )
        for log in logs
    ]


def vacuum(lake: Path, keep_hours: int = KEEP_HOURS, told: Told = lambda _: None) -> Cleaned:
    """Puts small files together, and deletes what no version of the last hours needs."""
    compacted = deleted = 0
    with _existing(lake):
        for table in TABLES.values():
            compacted += Log.open(lake, table).compact()
            deleted += Log.open(lake, table).vacuum(keep_hours)
            told(table.name)
    return Cleaned(compacted, deleted)


def compact_crowded(lake: Path) -> None:
    """Compacts the tables that have many files. The caller holds the lake's lock."""
    for table in TABLES.values():
        log = Log.open(lake, table)
        if len(log.files) > MANY_FILES:
            log.compact()


def erase(lake: Path, tenant: str, told: Told = lambda _: None) -> int:
    """Takes a tenant's rows out of every table, and the files of all older versions with them."""
    tenant_name(tenant)
    rows = 0
    with _existing(lake):
        for table in TABLES.values():
            rows += Log.open(lake, table).erase(tenant)
            Log.open(lake, table).vacuum(0)
            told(table.name)
    return rows


def _existing(lake: Path) -> AbstractContextManager[None]:
    if not lake.is_dir():
        raise NotReady(f"{lake} isn't there: make a lake with tenure lake sync --to {lake}")
    return locked(lake)
