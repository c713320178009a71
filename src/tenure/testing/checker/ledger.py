"""The checker's own account of a store, rebuilt from calls and replies of one client: the *sequential* mode.

It knows the contract in its plainest form: no index, no cleverness, one pass over the live jobs wherever the contract
says "the first". Nothing here comes from `tenure.domain`.
"""

import copy
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tenure.testing.checker.violation import Violation

Body = dict[str, Any]
Ref = tuple[str, str]
Lane = tuple[str, str]
BindingKey = tuple[str, str, str, str]

DAY = 86_400_000
KEPT_ATTEMPTS = 20
TERMINAL = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(slots=True)
class Lease:
    """Who holds a running job. Replaced, never changed."""

    worker: str
    claimed_at: int
    until: int
    ttl: int
    grace: int

    @property
    def deadline(self) -> int:
        return self.until + self.grace


@dataclass(slots=True, eq=False)
class Row:
    """One job as it must stand. Values inside are replaced, never changed, so a shallow copy is a copy."""

    tenant: str
    id: str
    seq: int
    queue: str
    job_type: str
    codec: str
    payload: Body
    priority: int
    run_at: int
    enqueued_at: int
    expires_at: int | None
    key: str | None
    unique: str
    unique_for: int | None
    group: str | None
    labels: dict[str, str]
    max_attempts: int
    own_lease: int | None
    own_grace: int | None
    timeout: int
    result_ttl: int
    parents: tuple[tuple[str, str], ...]
    replay_of: str | None = None
    root_id: str | None = None
    waits_for: frozenset[str] = frozenset()
    state: str = "pending"
    version: int = 0
    attempt: int = 0
    lease_seq: int = 0
    secret: str | None = None
    lease: Lease | None = None
    last_end: int | None = None
    settled: tuple[str, str] | None = None
    cancel_requested: bool = False
    updated_at: int = 0
    finished_at: int | None = None
    progress: Body | None = None
    last_error: Body | None = None
    releases: dict[str, int] = field(default_factory=dict)
    history: tuple[Body, ...] = ()
    tracebacks: tuple[tuple[int, Body], ...] = ()
    """(lease_seq, traceback) of the last that were told."""

    @property
    def ref(self) -> Ref:
        return (self.tenant, self.id)

    @property
    def lane(self) -> Lane:
        return (self.tenant, self.queue)

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def binding_key(self) -> BindingKey | None:
        return None if self.key is None else (self.tenant, self.queue, self.job_type, self.key)

    @property
    def body(self) -> tuple[str, str, str, str]:
        """What tells two enqueues under one id or key apart."""
        return (self.job_type, self.codec, self.payload["sha256"], self.queue)

    def same(self, other: "Row") -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def past_expiry(self, now: int) -> bool:
        """Pending, never claimed and past its time: claims pass over it, sweep cancels it."""
        return self.state == "pending" and not self.lease_seq and self.expires_at is not None and now >= self.expires_at


@dataclass(slots=True, frozen=True)
class Binding:
    """Who holds a key, and until when (None: until its policy says so)."""

    job_id: str
    body: tuple[str, str, str, str]
    expires_at: int | None = None

    def live(self, now: int) -> bool:
        return self.expires_at is None or now < self.expires_at


@dataclass(slots=True, frozen=True)
class Slot:
    """The place of a cancelled job whose handler may still run."""

    ref: Ref
    lease_seq: int
    lane: Lane
    group: str | None
    deadline: int


@dataclass(slots=True, frozen=True)
class Outcome:
    """A result. `sure` False: whether it still exists isn't fixed by the contract."""

    body: Body
    codec: str
    expires_at: int
    sure: bool = True


@dataclass(slots=True, frozen=True)
class Letter:
    """What became of a failed job."""

    disposition: str = "open"
    new_id: str | None = None
    replays: tuple[str, ...] = ()


@dataclass(slots=True)
class Expected:
    """An event that the feed must show next for its tenant."""

    kind: str
    must: Body
    """Fields and their values; None: the field is absent."""
    either: dict[str, tuple[Any, ...]]
    """Fields where more than one value keeps the contract."""
    operation: int
    free: bool = False
    """The order among the events of this operation isn't fixed."""
    optional: bool = False


@dataclass(slots=True)
class Ledger:
    """Everything a store must know, at one moment of a sequential history."""

    now: int = 0
    mark: int = 0
    """The highest time of an operation that surely wrote."""
    mark_maybe: int = 0
    """The same, of operations that may have written nothing."""
    operation: int = 0
    seq: int = 0
    frozen: bool = False
    transferred: bool = False
    """Loaded into another store since the last thaw."""
    epoch: int | None = None
    last_turn: int | None = None
    hold_until: int | None = None
    loose: bool = False
    """More happened than the contract fixes (a cascade past its budget): nothing exact can be said any more."""
    jobs: dict[Ref, Row] = field(default_factory=dict)
    lanes: dict[Lane, dict[Ref, Row]] = field(default_factory=dict)
    """Jobs that haven't ended, by (tenant, queue)."""
    bindings: dict[BindingKey, Binding] = field(default_factory=dict)
    results: dict[Ref, Outcome] = field(default_factory=dict)
    letters: dict[Ref, Letter] = field(default_factory=dict)
    slots: dict[Ref, Slot] = field(default_factory=dict)
    children: dict[Ref, tuple[Ref, ...]] = field(default_factory=dict)
    """Jobs that haven't ended and name this one as their parent, by arrival."""
    positions: dict[Lane, str] = field(default_factory=dict)
    tats: dict[tuple[str, ...], int] = field(default_factory=dict)
    documents: dict[tuple[str, str, str], Body] = field(default_factory=dict)
    rules: dict[Lane, Any] = field(default_factory=dict)
    """Effective rules worked out since the last change of configuration."""
    due: dict[str, deque[Expected]] = field(default_factory=dict)
    """Events not seen yet, by tenant."""

    def copy(self) -> "Ledger":
        """An independent ledger: rows are copied, frozen values shared."""
        twin = copy.copy(self)
        twin.jobs = {ref: copy.copy(row) for ref, row in self.jobs.items()}
        twin.lanes = {lane: {ref: twin.jobs[ref] for ref in rows} for lane, rows in self.lanes.items()}
        twin.due = {tenant: deque(events) for tenant, events in self.due.items()}
        for name in ("bindings", "results", "letters", "slots", "children", "positions", "tats", "documents", "rules"):
            setattr(twin, name, dict(getattr(self, name)))
        return twin

    def same(self, other: "Ledger") -> bool:
        """Whether two ledgers will say the same from now on."""
        small = [name for name in self.__slots__ if name not in ("jobs", "lanes", "rules", "now")]
        if any(getattr(self, name) != getattr(other, name) for name in small):
            return False
        return self.jobs.keys() == other.jobs.keys() and all(
            row.same(other.jobs[ref]) for ref, row in self.jobs.items()
        )

    def become(self, other: "Ledger") -> None:
        """Takes over everything of another ledger."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    # Time

    def begin(self, clock: int) -> None:
        """One operation starts; its time never goes back before what was written."""
        self.operation += 1
        self.now = max(clock, self.mark)

    def wrote(self) -> None:
        self.mark = max(self.mark, self.now)
        self.mark_maybe = max(self.mark_maybe, self.mark)

    def may_have_written(self) -> None:
        self.mark_maybe = max(self.mark_maybe, self.now)

    def ambiguous(self, clock: int) -> bool:
        """Whether the time of an operation now depends on what the contract doesn't fix."""
        return max(clock, self.mark) != max(clock, self.mark_maybe)

    # Rows

    def live(self, lane: Lane) -> dict[Ref, Row]:
        return self.lanes.get(lane, {})

    def all_live(self) -> list[Row]:
        return [row for rows in self.lanes.values() for row in rows.values()]

    def add(self, row: Row) -> None:
        self.jobs[row.ref] = row
        self.lanes.setdefault(row.lane, {})[row.ref] = row

    def retire(self, row: Row) -> None:
        """The job ended: it is no live one any more."""
        rows = self.lanes[row.lane]
        rows.pop(row.ref)
        if not rows:
            del self.lanes[row.lane]

    def holders(self, lane: Lane, group: str | None = None) -> int:
        """How many hold a slot of a queue, or of one of its groups: running jobs and draining slots."""
        running = sum(1 for row in self.live(lane).values() if row.state == "running" and group in (None, row.group))
        draining = sum(1 for slot in self.slots.values() if slot.lane == lane and group in (None, slot.group))
        return running + draining

    # Events

    def emit(
        self, row: Row, kind: str, *, free: bool = False, either: dict[str, Any] | None = None, **must: Any
    ) -> None:
        """The job's next event is due in the feed."""
        row.version += 1
        row.updated_at = self.now
        self.wrote()
        fields: Body = {
            "job_id": row.id,
            "version": row.version,
            "queue": row.queue,
            "job_type": row.job_type,
            "attempt": row.attempt,
            "lease_seq": row.lease_seq,
            **must,
        }
        for name in either or {}:
            fields.pop(name, None)
        self.announce(row.tenant, kind, fields, either=either, free=free)

    def announce(
        self,
        tenant: str,
        kind: str,
        must: Body,
        *,
        either: dict[str, Any] | None = None,
        free: bool = False,
        optional: bool = False,
    ) -> None:
        """An event is due; without a job it moves no version."""
        must = {"at": self.now, **must}
        expected = Expected(kind, must, either or {}, self.operation, free, optional)
        self.due.setdefault(tenant, deque()).append(expected)


def refusal(name: str, *args: Any) -> Body:
    """A refusal as replies show it."""
    return {"refused": name, "args": list(args)}


def matches(actual: Body | None, option: Body) -> bool:
    """Whether a reply is this one; what the option doesn't name is free."""
    if actual is None:
        return True
    if ("refused" in actual) != ("refused" in option):
        return False
    return all(name in actual and actual[name] == value for name, value in option.items())


def demand(property: str, actual: Body | None, *options: Body, what: str) -> Body:
    """The option that the reply is; the first where there is no reply. Raises `Violation` if it is none of them."""
    for option in options:
        if matches(actual, option):
            return option
    wanted = " or ".join(map(brief, options))
    raise Violation(property, f"{what}: must be {wanted}, the store answered {brief(actual or {})}")


def brief(reply: Body) -> str:
    """A reply in a few words."""
    if "refused" in reply:
        return f"{reply['refused']}({', '.join(map(str, reply.get('args', [])))})"
    shown = {name: value for name, value in reply.items() if name != "type"}
    return f"{reply.get('type', '')}({', '.join(f'{name}={value!r:.120}' for name, value in shown.items())})"
