"""`spark.read.format("tenure")`: jobs, attempts, events, dead letters and results as tables."""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from msgspec.structs import replace
from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tenure.domain.calls import JobFilter
from tenure.domain.errors import Unsupported
from tenure.domain.store import SharingStore, Snapshot, SnapshotStore, Span
from tenure.spark import sink
from tenure.spark.bodies import with_bodies
from tenure.spark.feed import events_of
from tenure.spark.filters import Nothing, pushed
from tenure.spark.opening import snapshot_store
from tenure.spark.options import KNOWN, ReadOptions, read_options
from tenure.spark.owner import owner
from tenure.spark.stream import ONLY_FOLLOWED, FeedReader, stream_options
from tenure.spark.tables import EVENTS, STATES, TABLES, JobTable, Table, chosen


class TenureSource(DataSource):
    """What Spark makes for `format("tenure")`."""

    @classmethod
    def name(cls) -> str:
        return "tenure"

    def schema(self) -> StructType:
        if self._followed:
            url, schema = stream_options(self.options).url, EVENTS.spark
        else:
            options = read_options(self.options)
            url, schema = options.url, table_of(options).spark
        with snapshot_store(url).snapshot():
            pass  # a store that can't be read is refused before anything is planned
        return schema

    @property
    def _followed(self) -> bool:
        """Whether these are a stream's options: Spark doesn't say what the schema is for."""
        of_events = self.options.get("table") == "events"
        read = {name.lower() for name in KNOWN}
        return any(key in ONLY_FOLLOWED or (of_events and key not in read) for key in self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FeedReader(stream_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> sink.TenureWriter:
        return sink.writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> sink.TenureStreamWriter:
        return sink.stream_writer(self.options, schema, overwrite)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options)
        return (PushingReader if options.pushdown else TableReader)(options, schema)


class Part(InputPartition):
    """A part of the jobs. Without a handle, of the store as it is when the part is read."""

    def __init__(self, span: Span | None = None, handle: str | None = None) -> None:
        super().__init__(None)
        self.span = span
        self.handle = handle


class TableReader(DataSourceReader):
    """Reads one table: in one part from one view of the store, in several from one view that is kept for them."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = chosen(options.table, table_of(options).spark, schema)
        self._where: JobFilter | None = _where(options)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        if options.partitions == 1 or self._where is None:
            return [Part()]
        store = snapshot_store(options.url)
        if not options.consistent:
            with store.snapshot() as snapshot:
                return [Part(span) for span in snapshot.split(options.partitions)]
        shared = _sharing(store)
        handle = shared.share(options.snapshot_seconds, owner())
        with shared.open_shared(handle) as snapshot:
            return [Part(span, handle) for span in snapshot.split(options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        part = cast(Part, partition)
        if self._where is None:
            return
        store = snapshot_store(self._options.url)
        with store.snapshot() if part.handle is None else _sharing(store).open_shared(part.handle) as snapshot:
            yield from self._batches(snapshot, self._where, part.span)

    def _batches(self, snapshot: Snapshot, where: JobFilter, span: Span | None) -> Iterator[RecordBatch]:
        table = table_of(self._options)
        if isinstance(table, Table):
            for batch in events_of(snapshot, where.tenant):
                yield batch.select(self._columns)
            return
        fields = table.fields(self._columns)
        for page in snapshot.scan(where, fields, span=span, limit=self._options.rows):
            yield table.batch(page, self._columns)


class PushingReader(TableReader):
    """Has the store evaluate what it can of Spark's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """All go back to Spark too: they are cheap, and it can't be wrong then. The feed knows its tenants only."""
        listed = [one for one in filters if self._options.table != "events" or _column(one) == ("tenant",)]
        if self._where is not None:
            try:
                self._where = pushed(self._where, listed)
            except Nothing:
                self._where = None
        return filters


def _column(one: Filter) -> tuple[str, ...]:
    return getattr(one, "attribute", ())


def table_of(options: ReadOptions) -> Table | JobTable:
    """The table that is asked for, its bodies as they are asked for."""
    table = TABLES[options.table]
    return table if isinstance(table, Table) else with_bodies(table, options)


def _where(options: ReadOptions) -> JobFilter | None:
    """What the options ask for within the states of the table; None when no job can be both."""
    where = options.where
    about = STATES.get(options.table)
    if about is None:
        return where
    states = tuple(state for state in about if where.states is None or state in where.states)
    return replace(where, states=states) if states else None


def _sharing(store: SnapshotStore) -> SharingStore:
    if not hasattr(store, "share"):
        raise Unsupported(
            f"the {store.capabilities.name} store can't keep one view for several readers: "
            "read it in one partition, or with consistent=false"
        )
    return cast(SharingStore, store)
