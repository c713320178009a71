"""What goes into a store and what comes out: requests, outcomes, commands and their replies.

Every request is a frozen value, valid once made; sending an equal one again gets the same answer. A reply per item is
either the value named here or a `Refused`.
"""

from typing import ClassVar

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue, Refused
from tenure.domain.event import Event
from tenure.domain.job import Failure, Job, NewJob, Progress, Result, Token, Traceback, distinct
from tenure.domain.names import MINUTE, SECOND, Ms
from tenure.domain.states import Disposition, Gate, State, Status

# Enqueue


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """The job is in the store. Of a duplicate (`created` False): the job that holds the key, its state and result."""

    id: str
    created: bool = True
    state: State | None = None
    result: Result | None = None


# Claim


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a worker's rotation over tenants stands. Opaque to the worker: it sends back what it got."""

    tenant: str = ""
    used: int = 0
    round: int = 0


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's wish for up to `n` jobs of `queues` [(name, at most)].

    `claim_id` is 16 random bytes and the secret of the tokens given out; a claim id already in use takes nothing new.
    """

    claim_id: bytes
    worker: str
    queues: tuple[tuple[str, int | None], ...]
    n: int
    ttl: Ms = MINUTE
    grace: Ms = 5 * SECOND
    cursor: Cursor = Cursor()
    tenants: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.claim_id, bytes) or len(self.claim_id) != 16:
            raise InvalidValue("claim_id: give 16 random bytes")
        names.name("worker", self.worker)
        names.integer("n", self.n, 1, names.MAX_BATCH)
        names.integer("ttl", self.ttl, 1, names.DAY)
        names.integer("grace", self.grace, 0, names.DAY)
        if not self.queues or len(self.queues) > names.MAX_BATCH:
            raise InvalidValue(f"queues: give 1 to {names.MAX_BATCH}")
        distinct("queues", (queue for queue, _ in self.queues))
        for queue, at_most in self.queues:
            names.name("queue", queue)
            if at_most is not None:
                names.integer(f"at most of {queue}", at_most, 0, names.MAX_BATCH)
        for tenant in self.tenants or ():
            names.tenant_name(tenant)


class ClaimedJob(msgspec.Struct, frozen=True, gc=False):
    """A job in the hands of a worker. `epoch` and the token's lease_seq are its fence."""

    job: Job
    payload: bytes
    token: Token
    epoch: int


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """What a claim gave, in the order taken; `now` is the store's time.

    `wake_after` (only when fewer than asked were given) is how long nothing new can become claimable by time alone.
    """

    jobs: tuple[ClaimedJob, ...]
    cursor: Cursor
    now: Ms
    wake_after: Ms | None = None


# Renew


class Renewal(msgspec.Struct, frozen=True, gc=False):
    """Keep this lease, and tell how far the job is."""

    token: Token
    progress: Progress | None = None


class Renewed(msgspec.Struct, frozen=True, gc=False):
    """The lease holds until then; `cancel_requested` asks the handler to stop."""

    lease_until: Ms
    cancel_requested: bool


# Settle


class Succeed(msgspec.Struct, frozen=True, gc=False):
    """The job is done. The jobs it carries are enqueued in the same operation."""

    tag: ClassVar[str] = "succeed"

    result: bytes | None = None
    codec: str = "json"
    jobs: tuple[NewJob, ...] = ()

    def __post_init__(self) -> None:
        if self.codec != "json":
            names.name("codec", self.codec)
        if self.result is not None:
            names.size("result", self.result, names.MAX_RESULT)
        if len(self.jobs) > names.MAX_BATCH:
            raise InvalidValue(f"jobs: at most {names.MAX_BATCH} can be carried")


class Retry(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed; the job may be tried again after `delay`, if attempts are left."""

    tag: ClassVar[str] = "retry"

    error: Failure
    delay: Ms = 0
    reason: str = "error"
    traceback: Traceback | None = None

    def __post_init__(self) -> None:
        names.duration("delay", self.delay)
        names.name("reason", self.reason)


class Fail(msgspec.Struct, frozen=True, gc=False):
    """The job can't succeed: it gets a dead letter at once."""

    tag: ClassVar[str] = "fail"

    error: Failure
    reason: str = "permanent"
    traceback: Traceback | None = None

    def __post_init__(self) -> None:
        names.name("reason", self.reason)


UNKNOWN_TYPE = "unknown_type"
UNKNOWN_ARGUMENT = "unknown_argument"
RELEASES_AT_MOST = {"snooze": 100, UNKNOWN_TYPE: 120, UNKNOWN_ARGUMENT: 120}
"""How often a reason may give a job back with a delay. What only another worker can run waits an hour at 30 s each."""


class Release(msgspec.Struct, frozen=True, gc=False):
    """The worker gives the job back and the attempt is refunded.

    Without delay it keeps its place (a shutdown). With one it waits, counted per reason; beyond `at_most` it fails.
    """

    tag: ClassVar[str] = "release"

    delay: Ms = 0
    reason: str = "shutdown"
    at_most: int | None = None

    def __post_init__(self) -> None:
        names.duration("delay", self.delay)
        names.name("reason", self.reason)
        if self.at_most is not None:
            names.integer("at_most", self.at_most, 0, 1_000_000)

    @property
    def most(self) -> int:
        return RELEASES_AT_MOST.get(self.reason, 100) if self.at_most is None else self.at_most


Outcome = Succeed | Retry | Fail | Release


class Settle(msgspec.Struct, frozen=True, gc=False):
    """End this lease, so."""

    token: Token
    outcome: Outcome


class Settled(msgspec.Struct, frozen=True, gc=False):
    """This token ended its lease, now or before; the job went to `state` then."""

    state: State


class Exchanged(msgspec.Struct, frozen=True, gc=False):
    """The answers of settles, then of the claim that followed them."""

    settled: list[Settled | Refused]
    claimed: Claimed | Refused


# Commands


class JobCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Something asked of one job by its tenant or an admin."""

    tenant: str
    id: str

    def __post_init__(self) -> None:
        names.tenant_name(self.tenant)
        names.job_id(self.id)


class Cancel(JobCommand, frozen=True, kw_only=True):
    """End the job now; a running one's token is dead at once and its slot drains. Answers `Cancelled`."""


class RequestCancel(JobCommand, frozen=True, kw_only=True):
    """Ask a running job to stop; a waiting one is cancelled. Answers `Cancelled` or `CancelRequested`."""


class Reschedule(JobCommand, frozen=True, kw_only=True):
    """Move a pending job in time: to `run_at`, or `delay` from now. Answers `Rescheduled`."""

    run_at: Ms | None = None
    delay: Ms | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.run_at is None) == (self.delay is None):
            raise InvalidValue("give run_at or delay, one of them")
        if self.run_at is not None:
            names.instant("run_at", self.run_at)
        if self.delay is not None:
            names.duration("delay", self.delay)


class Reprioritise(JobCommand, frozen=True, kw_only=True):
    """Give a pending job another priority. Answers `Reprioritised`."""

    priority: int

    def __post_init__(self) -> None:
        super().__post_init__()
        names.integer("priority", self.priority, -100, 100)


class Replay(JobCommand, frozen=True, kw_only=True):
    """Make a new job of a failed one, under `new_id`, its payload optionally edited. Answers `Replayed`."""

    new_id: str
    payload: bytes | None = None
    codec: str | None = None
    again: bool = False
    """Make another one although it was replayed before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names.job_id(self.new_id, "new_id")
        if self.payload is not None:
            names.size("payload", self.payload, names.MAX_PAYLOAD)
        if self.codec is not None:
            names.name("codec", self.codec)
            if self.payload is None:
                raise InvalidValue("codec goes with an edited payload")


class Discard(JobCommand, frozen=True, kw_only=True):
    """Close a dead letter for good. Answers `Discarded`."""


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """The job is cancelled; a handler that was running is being told and may still run for a while."""

    was_running: bool


class CancelRequested(msgspec.Struct, frozen=True, gc=False):
    """The running job was asked to stop; the first terminal transition wins."""


class Rescheduled(msgspec.Struct, frozen=True, gc=False):
    """The job runs at `run_at` at the earliest."""

    run_at: Ms


class Reprioritised(msgspec.Struct, frozen=True, gc=False):
    """The job has `priority` now."""

    priority: int


class Replayed(msgspec.Struct, frozen=True, gc=False):
    """The failed job goes on as `new_id`; `created` False: it already did."""

    new_id: str
    created: bool = True


class Discarded(msgspec.Struct, frozen=True, gc=False):
    """The dead letter is closed."""


AnyCommand = Cancel | RequestCancel | Reschedule | Reprioritise | Replay | Discard
CommandReply = Cancelled | CancelRequested | Rescheduled | Reprioritised | Replayed | Discarded


# Sweep and purge


class SweptCounts(msgspec.Struct, frozen=True, gc=False):
    """How many of each a sweep dealt with; one that reached the limit has more to do."""

    cascaded: int = 0
    lost: int = 0
    expired: int = 0
    drained: int = 0


class SweptJob(msgspec.Struct, frozen=True, gc=False):
    """A job that a sweep failed: nobody else learns of it."""

    tenant: str
    id: str
    job_type: str
    queue: str
    attempt: int
    reason: str


class Swept(msgspec.Struct, frozen=True, gc=False):
    """Whether this call got the turn, and what it did; `now` is the store's time.

    `failed` are the jobs whose last lease it took, in the order of the sweep: no more than its limit.
    """

    turn: bool
    now: Ms
    counts: SweptCounts = SweptCounts()
    failed: tuple[SweptJob, ...] = ()


class Retention(msgspec.Struct, frozen=True, gc=False):
    """How long records stay after the UTC day they ended in."""

    succeeded: Ms = 7 * names.DAY
    cancelled: Ms = 7 * names.DAY
    failed: Ms = 30 * names.DAY

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            names.duration(field, getattr(self, field))


class Purged(msgspec.Struct, frozen=True, gc=False):
    """The records of one (day, state) that are gone now."""

    day: str
    state: State
    count: int


# Reading


class Reading(msgspec.Struct, frozen=True):
    """What `get` reads of each job besides its record."""

    explain: bool = False
    """The gates that hold it."""
    tracebacks: bool = False
    """The exceptions of its last failed attempts."""


class JobView(msgspec.Struct, frozen=True, gc=False):
    """A job as it stands: its record, what it is shown as, its result, and what else was asked for (`Reading`)."""

    job: Job
    status: Status
    payload: bytes
    result: Result | None = None
    gates: tuple[Gate, ...] = ()
    dead_letter: Disposition | None = None
    replayed_as: str | None = None
    tracebacks: tuple[tuple[int, Traceback], ...] = ()
    """(lease_seq, traceback), oldest first."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; None asks for any. Tenant None is the fleet's view."""

    tenant: str | None = None
    queue: str | None = None
    job_type: str | None = None
    states: tuple[State, ...] | None = None
    labels: dict[str, str] = {}
    enqueued_from: Ms | None = None
    enqueued_before: Ms | None = None
    dead_letter: Disposition | None = None

    def __post_init__(self) -> None:
        if self.tenant is not None:
            names.tenant_name(self.tenant)
        if self.queue is not None:
            names.name("queue", self.queue)
        if self.job_type is not None:
            names.name("job_type", self.job_type)
        for state in self.states or ():
            if not isinstance(state, State):
                raise InvalidValue(f"state {state!r:.80}: give one of {', '.join(State)}")
        if self.labels:
            names.labels(self.labels)


class JobPage(msgspec.Struct, frozen=True, gc=False):
    """Jobs, newest first, and the cursor of the next page (None: this was the last)."""

    jobs: tuple[JobView, ...]
    cursor: str | None


class EventPage(msgspec.Struct, frozen=True, gc=False):
    """Events in feed order, up to the end of a chunk, and the cursor to go on from.

    `cursors` has the cursor after each event: a reader may stop anywhere.
    """

    events: tuple[Event, ...]
    cursor: str
    cursors: tuple[str, ...] = ()


class FeedSpan(msgspec.Struct, frozen=True):
    """Which chunks the feed holds: those after `floor`, up to `head`."""

    floor: int
    head: int


# Documents


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A named JSON body of one kind. Kinds `queue` and `tenant` configure the store; body None deletes."""

    tenant: str
    kind: str
    name: str
    body: bytes | None
    version: int = 0
    expires_at: Ms | None = None

    def __post_init__(self) -> None:
        if self.tenant not in (names.EVERYONE, names.SYSTEM):
            names.tenant_name(self.tenant)
        names.name("kind", self.kind)
        names.name("document", self.name)
        if self.body is not None:
            names.size("document", self.body, names.MAX_DOCUMENT)


class Stored(msgspec.Struct, frozen=True, gc=False):
    """The document stands at `version` (0: it is gone)."""

    version: int


# Transfer


class DumpItem(msgspec.Struct, frozen=True, array_like=True):
    """One thing a store keeps, by kind, as opaque bytes that any store can load."""

    kind: str
    body: bytes


class DumpPage(msgspec.Struct, frozen=True, gc=False):
    """Part of a dump in stable order; cursor None ends it."""

    items: tuple[DumpItem, ...]
    cursor: str | None


class Epoch(msgspec.Struct, frozen=True, gc=False):
    """The store's epoch, the high half of every fence."""

    epoch: int
