"""What a read was asked for, taken from Spark's options once, and checked before any work starts."""

from collections.abc import Mapping

import msgspec

from tenure.domain import names
from tenure.domain.calls import JobFilter
from tenure.domain.errors import InvalidValue
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.spark.given import Given

OF_JOBS = ("queue", "jobType", "state", "enqueuedFrom", "enqueuedBefore", "partitions", "app", "bodies")
"""Options that the feed doesn't have."""
KNOWN = ("url", "table", "tenant", "labels", "batch", "rows", *OF_JOBS, "consistent", "snapshotSeconds", "pushdown")
TABLES = ("jobs", "attempts", "events", "dead_letters", "results")
ROWS = 1_000
MOST_ROWS = names.MAX_BATCH
BATCH_LABEL = "batch"
"""The label of every job that came from one write."""
MOST_PARTITIONS = 10_000
SNAPSHOT_SECONDS = 600
MOST_SNAPSHOT_SECONDS = 7 * 86_400
BYTES, JSON, PARSED = "bytes", "json", "parsed"
BODIES = (BYTES, JSON, PARSED)


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of `spark.read.format("tenure")`."""

    url: str
    """Where the store is."""
    table: str = "jobs"
    tenant: str | None = None
    """Whose; None: everyone's."""
    labels: dict[str, str] = {}
    """Jobs that carry all of these."""
    rows: int = ROWS
    """Records that are read at once."""
    queue: str | None = None
    job_type: str | None = None
    states: tuple[State, ...] | None = None
    enqueued_from: Ms | None = None
    enqueued_before: Ms | None = None
    partitions: int = 1
    """Into how many parts jobs are split; each is read by a task of its own."""
    consistent: bool = True
    """Whether all parts see one state of the store."""
    snapshot_seconds: int = SNAPSHOT_SECONDS
    """How long that state is kept after its last use."""
    app: str | None = None
    """MODULE:APP, where codecs, blobs and the types of handlers are known."""
    bodies: str = BYTES
    """How payloads and results come."""
    pushdown: bool = False
    """Whether the store is asked Spark's filters."""

    @property
    def where(self) -> JobFilter:
        """What the options alone ask for."""
        return JobFilter(
            tenant=self.tenant,
            queue=self.queue,
            job_type=self.job_type,
            states=self.states,
            labels=self.labels,
            enqueued_from=self.enqueued_from,
            enqueued_before=self.enqueued_before,
        )


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises `InvalidValue` that says what to change."""
    asked = Given(given)
    asked.check(KNOWN)
    table = asked.one_of("table", TABLES, "jobs")
    labels = _with_batch(_labels(given.get("labels", "")), given.get("batch"))
    if table == "events":
        _check_events(given, labels)
    return ReadOptions(
        url=asked.url(),
        table=table,
        tenant=asked.tenant(),
        labels=labels,
        rows=asked.number("rows", ROWS, MOST_ROWS),
        queue=asked.name("queue"),
        job_type=asked.name("jobType"),
        states=asked.states("state"),
        enqueued_from=asked.time("enqueuedFrom"),
        enqueued_before=asked.time("enqueuedBefore"),
        partitions=asked.number("partitions", 1, MOST_PARTITIONS),
        consistent=asked.yes("consistent", True),
        snapshot_seconds=asked.number("snapshotSeconds", SNAPSHOT_SECONDS, MOST_SNAPSHOT_SECONDS),
        app=asked.text("app"),
        bodies=_bodies(asked),
        pushdown=asked.yes("pushdown", False),
    )


def _check_events(given: Mapping[str, str], labels: dict[str, str]) -> None:
    if labels:
        raise InvalidValue(
            "options labels, batch: events have labels only when a job is enqueued; filter the rows instead"
        )
    for name in OF_JOBS:
        if name.lower() in given:
            raise InvalidValue(f"option {name}: events are read in order and whole; filter the rows instead")


def _bodies(given: Given) -> str:
    app, job_type = given.text("app"), given.text("jobType")
    bodies = given.one_of("bodies", BODIES, BYTES if app is None else PARSED)
    if bodies == PARSED and (app is None or job_type is None):
        raise InvalidValue(
            "bodies are parsed as those of one job type: give the options app (MODULE:APP) and jobType, or bodies=json"
        )
    return bodies


def _labels(text: str) -> dict[str, str]:
    """`team=crm,region=eu`."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        if not separator or name in found:
            raise InvalidValue(f"option labels={text!r:.80}: give name=value pairs, each name once")
        found[name] = value
    return names.labels(found) if found else found


def _with_batch(labels: dict[str, str], batch: str | None) -> dict[str, str]:
    """The rows of one write are the jobs that carry its label."""
    if batch is None:
        return labels
    if BATCH_LABEL in labels:
        raise InvalidValue("option batch: it is a label, and labels has it too; give one")
    return {**labels, BATCH_LABEL: names.name("option batch", batch)}
