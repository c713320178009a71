"""What came of a write. Spark lets a sink return nothing, so it is kept in the store, under the batch's id."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from msgspec.structs import replace
from pyspark.sql.datasource import WriterCommitMessage

from tenure.domain import names
from tenure.domain.calls import Document
from tenure.domain.errors import Refused
from tenure.domain.store import Store
from tenure.spark.write_options import WriteOptions

BATCH = "batch"
"""Document kind of a summary; its name is the batch's id."""
KEPT = 30 * names.DAY
EXAMPLES = 20
REASON = 300


class Rejected(msgspec.Struct, frozen=True):
    """A row that became no job."""

    partition: int
    row: int
    """Its place in the partition, from 0."""
    key: str | None
    reason: str

    def __str__(self) -> str:
        key = "" if self.key is None else f", key {self.key!r}"
        return f"partition {self.partition} row {self.row}{key}: {self.reason}"


@dataclass
class TaskDone(WriterCommitMessage):
    """What one task did."""

    enqueued: int = 0
    duplicate: int = 0
    rejected: int = 0
    examples: list[Rejected] = field(default_factory=list)

    def reject(self, partition: int, row: int, key: str | None, reason: object) -> None:
        self.rejected += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(Rejected(partition, row, key, f"{reason!s:.{REASON}}"))


class BatchSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a write, by its rows."""

    batch: str
    job_type: str
    state: Literal["writing", "written", "failed"]
    """A write that failed can be run again: what is in stays, and isn't enqueued twice."""
    enqueued: int = 0
    """Rows that became a job."""
    duplicate: int = 0
    """Rows whose job was there: from a write before, from an attempt of a task that died, from the same row again."""
    rejected: int = 0
    examples: tuple[Rejected, ...] = ()
    """Up to twenty of the rejected rows, with their reasons."""
    micro_batch: int | None = None
    """The last one of a stream that is counted here."""

    @property
    def rows(self) -> int:
        return self.enqueued + self.duplicate + self.rejected

    def __str__(self) -> str:
        counts = f"{self.enqueued} enqueued, {self.duplicate} duplicate, {self.rejected} rejected"
        lines = [f"batch {self.batch} ({self.job_type}, {self.state}): {counts}", *map(str, self.examples)]
        return "\n".join(lines)


def started(options: WriteOptions) -> BatchSummary:
    return BatchSummary(batch=options.batch, job_type=options.job_type, state="writing")


def summed(summary: BatchSummary, messages: Iterable[WriterCommitMessage | None]) -> BatchSummary:
    """The summary with what tasks did. Those that failed have no message."""
    done = [message for message in messages if isinstance(message, TaskDone)]
    return replace(
        summary,
        enqueued=summary.enqueued + sum(one.enqueued for one in done),
        duplicate=summary.duplicate + sum(one.duplicate for one in done),
        rejected=summary.rejected + sum(one.rejected for one in done),
        examples=(*summary.examples, *(example for one in done for example in one.examples))[:EXAMPLES],
    )


async def keep(store: Store, summary: BatchSummary) -> None:
    """Writes it down. Raises what the store refused it with."""
    body = msgspec.json.encode(summary)
    document = Document(tenant=names.SYSTEM, kind=BATCH, name=summary.batch, body=body)
    reply = await store.put_document(document, ttl=KEPT)
    if isinstance(reply, Refused):
        raise reply


async def kept(store: Store, batch: str) -> BatchSummary | None:
    """What was written down of a batch; None when nothing was, or not any more."""
    for document in await store.list_documents(names.SYSTEM, BATCH, prefix=batch):
        if document.name == batch and document.body is not None:
            return msgspec.json.decode(document.body, type=BatchSummary)
    return None
