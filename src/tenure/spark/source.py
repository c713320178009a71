"""`spark.read.format("tenure")`: jobs, attempts, events, dead letters and results as tables."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec.structs import replace
from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tenure.domain.calls import JobFilter
from tenure.domain.errors import InvalidValue, Refused, Unsupported
from tenure.domain.store import Snapshot, SnapshotStore
from tenure.spark.filters import Nothing, pushed
from tenure.spark.options import ReadOptions, read_options
from tenure.spark.tables import STATES, TABLES, rows_of
from tenure.stores.opening import open_store


class TenureSource(DataSource):
    """What Spark makes for `format("tenure")`."""

    @classmethod
    def name(cls) -> str:
        return "tenure"

    def schema(self) -> StructType:
        options = read_options(self.options)
        with snapshot_store(options.url).snapshot():
            pass  # a store that can't be read is refused before anything is planned
        return TABLES[options.table].spark

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(read_options(self.options), schema)


class TableReader(DataSourceReader):
    """Reads one table from one view of the store, in one partition: a file gives its view to one reader."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = _columns(options.table, schema)
        self._where: JobFilter | None = replace(options.where, states=STATES.get(options.table))

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes what the store can answer. All go back to Spark too: they are cheap, and it can't be wrong then."""
        if self._where is not None and self._options.table != "events":
            try:
                self._where = pushed(self._where, filters)
            except Nothing:
                self._where = None
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        if self._where is None:
            return
        table = TABLES[self._options.table]
        with snapshot_store(self._options.url).snapshot() as snapshot:
            for rows in self._rows(snapshot, self._where):
                if rows:
                    yield table.batch(rows).select(self._columns)

    def _rows(self, snapshot: Snapshot, where: JobFilter) -> Iterator[list[Any]]:
        if self._options.table == "events":
            yield from _events(snapshot, self._options)
            return
        after = None
        while True:
            page = snapshot.query(where, after=after, limit=self._options.batch)
            yield rows_of(self._options.table, page.jobs)
            after = page.cursor
            if after is None:
                return


def _events(snapshot: Snapshot, options: ReadOptions) -> Iterator[list[Any]]:
    after = None
    while True:
        page = snapshot.events(tenant=options.tenant, after=after, limit=options.batch)
        if isinstance(page, Refused):
            raise page
        if not page.events:
            return
        yield list(page.events)
        after = page.cursor


def _columns(table: str, schema: StructType) -> list[str]:
    """The columns that are wanted. A schema of one's own may leave some out, and change nothing else."""
    known = {field.name: field.dataType for field in TABLES[table].spark}
    for field in schema:
        if field.name not in known:
            raise InvalidValue(f"column {field.name!r:.80}: table {table} has {', '.join(known)}")
        if field.dataType != known[field.name]:
            raise InvalidValue(
                f"column {field.name}: it is {known[field.name].simpleString()}, not {field.dataType.simpleString()}"
            )
    return [field.name for field in schema]


def snapshot_store(url: str) -> SnapshotStore:
    """The store at a URL, if Spark's processes can read it."""
    store = open_store(url)
    if not store.capabilities.multi_process:
        raise Unsupported(f"the {store.capabilities.name} store lives in one process: Spark's can't read it")
    if not hasattr(store, "snapshot"):
        raise Unsupported(f"the {store.capabilities.name} store can't be read by Spark")
    return cast(SnapshotStore, store)
