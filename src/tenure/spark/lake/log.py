"""A table's Delta log: which files it consists of, and up to where in the feed they go.

The position is the table's application transaction, under the store's identity, committed with the files themselves:
there is no second truth to keep in step. A commit is made on the handle from which its position was read. delta-rs
refuses it then if another has committed a position meanwhile; it doesn't compare positions otherwise, and would let
one go back.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from tenure.domain import names
from tenure.domain.errors import NotReady, SchemaTooNew, TenureError
from tenure.spark.lake.schemas import STORE, LakeTable

Value = int | datetime


class LakeConflict(TenureError):
    """Another process committed to the same table meanwhile; nothing of this commit was kept. Sync again."""


class File(msgspec.Struct, frozen=True):
    """One file of a table."""

    path: str
    """Inside the table's folder."""
    size: int
    partition: str
    rows: int
    least: dict[str, Value] = {}
    most: dict[str, Value] = {}

    def overlaps(self, column: str, first: Value, last: Value) -> bool:
        """Whether it may hold a row with the column between these two."""
        least, most = self.least.get(column), self.most.get(column)
        return least is None or most is None or (least <= last and most >= first)  # type: ignore[operator]

    def within(self, column: str, first: Value, last: Value) -> bool:
        """Whether every row that has the column surely has it between these two."""
        least, most = self.least.get(column), self.most.get(column)
        return least is not None and most is not None and least >= first and most <= last  # type: ignore[operator]


class Log:
    """The state of one table at one version."""

    def __init__(self, table: LakeTable, root: Path, handle: DeltaTable) -> None:
        self.table = table
        self.root = root
        self._handle = handle
        self._files: list[File] | None = None

    @classmethod
    def open(cls, lake: Path, table: LakeTable) -> "Log":
        root = folder(lake, table)
        try:
            handle = DeltaTable(str(root))
        except TableNotFoundError:
            raise NotReady(f"{lake} has no table {table.name}: make it with tenure lake sync --to {lake}") from None
        unknown = [field.name for field in handle.schema().fields if field.name not in table.arrow.names]
        if unknown:
            raise SchemaTooNew(f"{lake}: {table.name} has columns of a newer Tenure ({', '.join(unknown)}): upgrade")
        return cls(table, root, handle)

    @classmethod
    def create(cls, lake: Path, table: LakeTable, configuration: Mapping[str, str]) -> "Log":
        """The table, made if absent, and given the columns that it lacks."""
        root = folder(lake, table)
        root.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            str(root),
            table.arrow,
            mode="ignore",
            partition_by=[table.partition],
            name=table.name,
            configuration=configuration,
            raise_if_key_not_exists=False,
        )
        log = cls.open(lake, table)
        have = {field.name for field in log._handle.schema().fields}
        lacking = [field for field in table.arrow if field.name not in have]
        if lacking:
            log._handle.alter.add_columns(Schema.from_arrow(pa.schema(lacking)).fields)
            log = cls.open(lake, table)
        return log

    @property
    def version(self) -> int:
        return int(self._handle.version())

    @property
    def configuration(self) -> Mapping[str, str]:
        return dict(self._handle.metadata().configuration)

    @property
    def store(self) -> str:
        """Whose history it holds."""
        return self.configuration.get(STORE, "")

    @property
    def position(self) -> int | None:
        """Up to where in the store's feed it goes; None of a table that nothing was committed to."""
        found = self._handle.transaction_version(self.store)
        return None if found is None else int(found)

    @property
    def files(self) -> list[File]:
        if self._files is None:
            self._files = [
                _file(row, self.table) for row in pa.table(self._handle.get_add_actions(flatten=True)).to_pylist()
            ]
        return self._files

    def paths(self, files: Iterable[File]) -> list[str]:
        return [str(self.root / file.path) for file in files]

    def commit(self, position: int, *, add: Sequence[File] = (), remove: Sequence[File] = ()) -> None:
        """One version more: files come and go, and the position moves, or nothing happens at all."""
        now = int(time.time() * 1_000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {self.table.partition: file.partition}, now, True, _stats(file))
            for file in add
        ]
        actions += [
            RemoveAction(file.path, True, now, file.size, {self.table.partition: file.partition}) for file in remove
        ]
        properties = CommitProperties(app_transactions=[Transaction(self.store, position)], max_commit_retries=0)
        try:
            self._handle.create_write_transaction(
                actions,
                "append",
                self._handle.schema(),
                partition_by=[self.table.partition],
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise LakeConflict(f"{self.root}: another process writes to this lake ({error})") from error

    # Upkeep

    def compact(self) -> int:
        """Puts small files of a partition together, and answers how many there are fewer."""
        done = self._handle.optimize.compact()
        return int(done["numFilesRemoved"]) - int(done["numFilesAdded"])

    def vacuum(self, hours: int) -> int:
        """Deletes files that no version of the last hours holds, and those that a run which died left behind."""
        deleted = self._handle.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        self._handle.create_checkpoint()
        return len(deleted)

    def erase(self, tenant: str) -> int:
        """Rows of a tenant that are gone from the newest version on. Older ones still have them until a vacuum."""
        done = self._handle.delete(f"tenant = '{names.tenant_name(tenant)}'")
        return int(done["num_deleted_rows"] or 0)


def folder(lake: Path, table: LakeTable) -> Path:
    return lake.joinpath(*table.name.split("."))


def written(root: Path, run: Path, table: LakeTable) -> Iterator[File]:
    """The files that a run of Spark's writer left, with what their footers say."""
    for path in sorted(run.rglob("*.parquet")):
        footer = pq.read_metadata(path)
        if footer.num_rows:
            partition = path.parent.name.removeprefix(f"{table.partition}=")
            yield File(
                str(path.relative_to(root)),
                path.stat().st_size,
                partition,
                footer.num_rows,
                *_ranges(footer, table.stats),
            )


def _ranges(footer: pq.FileMetaData, columns: Sequence[str]) -> tuple[dict[str, Value], dict[str, Value]]:
    least: dict[str, Value] = {}
    most: dict[str, Value] = {}
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    for column in columns:
        groups = [footer.row_group(group).column(places[column]).statistics for group in range(footer.num_row_groups)]
        if all(stats is not None and stats.has_min_max for stats in groups):
            least[column] = min(stats.min for stats in groups)
            most[column] = max(stats.max for stats in groups)
    return least, most


def _stats(file: File) -> str:
    ranges = ({name: _text(value) for name, value in side.items()} for side in (file.least, file.most))
    least, most = ranges
    return json.dumps({"numRecords": file.rows, "minValues": least, "maxValues": most, "nullCount": {}})


def _text(value: Value) -> int | str:
    return (
        value
        if isinstance(value, int)
        else value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    )


def _file(row: dict[str, Any], table: LakeTable) -> File:
    least = {name: row[f"min.{name}"] for name in table.stats if row.get(f"min.{name}") is not None}
    most = {name: row[f"max.{name}"] for name in table.stats if row.get(f"max.{name}") is not None}
    return File(row["path"], row["size_bytes"], row[f"partition.{table.partition}"], row["num_records"], least, most)
