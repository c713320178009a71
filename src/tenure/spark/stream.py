"""`spark.readStream.format("tenure")`: the store-wide feed, followed.

An offset is a position in the feed of one store. Chunks never change once they are there, so any range of them can be
read again, and gives the same events: Spark's checkpoint is all that a query needs to go on where it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tenure.domain.calls import FeedSpan
from tenure.domain.errors import EventsLost, InvalidValue
from tenure.domain.store import Snapshot
from tenure.spark.feed import batches, of_tenant
from tenure.spark.given import Given
from tenure.spark.opening import snapshot_store
from tenure.spark.options import MOST_PARTITIONS
from tenure.spark.tables import EVENTS, chosen

KNOWN = ("url", "table", "tenant", "maxEventsPerTrigger", "startingPosition", "partitions")
ONLY_FOLLOWED = ("maxeventspertrigger", "startingposition")
PARTITIONS = 2
MOST_EVENTS = 1_000_000_000
EARLIEST, LATEST = "earliest", "latest"


class StreamOptions(msgspec.Struct, frozen=True):
    """Options of `spark.readStream.format("tenure")`."""

    url: str
    table: str = "events"
    tenant: str | None = None
    """Whose events; None: everyone's."""
    max_events: int | None = None
    """Events that a trigger takes, as far as whole chunks allow; None: all there are."""
    starting: str = EARLIEST
    """Where a query without a checkpoint begins: `earliest`, `latest` or a position."""
    partitions: int = PARTITIONS
    """Tasks that read a trigger's events."""


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Raises `InvalidValue` that says what to change."""
    asked = Given(given)
    asked.check(KNOWN)
    if given.get("table", "events") != "events":
        raise InvalidValue(
            f"option table={given['table']!r:.80}: only events can be followed; read the others as tables"
        )
    starting = given.get("startingposition", EARLIEST)
    if starting not in (EARLIEST, LATEST) and not (starting.isascii() and starting.isdigit()):
        raise InvalidValue(f"option startingPosition={starting!r:.80}: give earliest, latest or a position of the feed")
    most = given.get("maxeventspertrigger")
    return StreamOptions(
        url=asked.url(),
        tenant=asked.tenant(),
        max_events=None if most is None else asked.number("maxEventsPerTrigger", 1, MOST_EVENTS),
        starting=starting,
        partitions=asked.number("partitions", PARTITIONS, MOST_PARTITIONS),
    )


class FeedRange(InputPartition):
    """Chunks after one position, up to another."""

    def __init__(self, after: int, until: int) -> None:
        super().__init__((after, until))
        self.after = after
        self.until = until


class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the feed, chunk by chunk."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options = options
        self._columns = chosen("events", EVENTS.spark, schema)
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        with snapshot_store(self._options.url).snapshot() as snapshot:
            span, store = snapshot.feed(), snapshot.identity()
        match self._options.starting:
            case "earliest":
                position = span.floor
            case "latest":
                position = span.head
            case text:
                position = int(text)
                _check(position, span, "startingPosition")
        return {"store": store, "position": position}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_events
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        with snapshot_store(self._options.url).snapshot() as snapshot:
            self._target = snapshot.feed().head

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with snapshot_store(self._options.url).snapshot() as snapshot:
            position = _position(start, snapshot)
            head = snapshot.feed().head if self._target is None else max(self._target, position)
            if isinstance(limit, ReadMaxRows):
                head = _cut(snapshot, position, head, limit.max_rows)
        return {**start, "position": head}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return split(start["position"], end["position"], self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        assert isinstance(partition, FeedRange)
        with snapshot_store(self._options.url).snapshot() as snapshot:
            _check(partition.after, snapshot.feed(), "this query")
            for batch in batches(snapshot.chunks(partition.after, partition.until)):
                yield of_tenant(batch, self._options.tenant).select(self._columns)


def split(after: int, until: int, parts: int) -> list[FeedRange]:
    """A range of the feed in even parts, none of them empty."""
    parts = min(parts, until - after)
    edges = [after + (until - after) * part // parts for part in range(parts + 1)] if parts else []
    return [FeedRange(first, last) for first, last in pairwise(edges)]


def _cut(snapshot: Snapshot, after: int, head: int, most: int) -> int:
    """Where a trigger of at most so many events ends: at the border of a chunk, and after one at least."""
    count = 0
    last = after
    for position, body in snapshot.chunks(after, head):
        count += body.count(b"\n")
        if count > most and last > after:
            return last
        last = position
        if count >= most:
            return last
    return head


def _position(start: dict[str, Any], snapshot: Snapshot) -> int:
    if start["store"] != snapshot.identity():
        raise InvalidValue(
            f"this query's checkpoint is of another store ({start['store']}), not of {snapshot.identity()}: "
            "give the query a checkpointLocation of its own"
        )
    position = int(start["position"])
    _check(position, snapshot.feed(), "this query")
    return position


def _check(position: int, span: FeedSpan, who: str) -> None:
    if position < span.floor:
        raise EventsLost(
            f"{who} stands at position {position} of the feed, and retention has taken everything up to {span.floor}: "
            "events are lost to it; start with a new checkpointLocation to go on with what is left"
        )
    if position > span.head:
        raise InvalidValue(
            f"{who} stands at position {position} of the feed, which ends at {span.head}: "
            "the store is older than that, perhaps restored from a backup"
        )
