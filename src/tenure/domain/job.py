"""A job: what a producer sends, what the store keeps, and the lease that holds it.

None of these values can be part of a cycle, so the garbage collector needn't follow them (`gc=False`): with 20,000 jobs
in hand it took a third of a claim's time.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import overload

import msgspec
from msgspec.structs import force_setattr

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.names import HOUR, Ms
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import Disposition, OnParentFailure, State, Status, Unique

Ref = tuple[str, str]
"""(tenant, id): the same id in two tenants is two jobs."""

BindingKey = tuple[str, str, str, str]
"""(tenant, queue, job_type, key): the scope of a key."""

KEPT_ATTEMPTS = 20


class Parent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job to wait for, and what its failure does."""

    id: str
    on_failure: OnParentFailure = OnParentFailure.CANCEL

    def __post_init__(self) -> None:
        names.job_id(self.id, "parent")


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job to enqueue, valid once made: whatever can be refused without the store is refused here.

    The producer makes the id, so sending the same job again is safe. Durations in milliseconds, `run_at` in
    milliseconds since the epoch.
    """

    tenant: str
    id: str
    queue: str
    job_type: str
    payload: bytes
    codec: str = "json"
    priority: int = 0
    run_at: Ms | None = None
    delay: Ms | None = None
    expires: Ms | None = None
    """Cancelled this long after enqueue unless claimed before."""
    key: str | None = None
    unique: Unique = Unique.ACTIVE
    unique_for: Ms | None = None
    group: str | None = None
    labels: dict[str, str] = {}
    max_attempts: int = 3
    retry: RetryPolicy = RetryPolicy()
    lease: Ms | None = None
    grace: Ms | None = None
    timeout: Ms = HOUR
    result_ttl: Ms = HOUR
    parents: tuple[Parent, ...] = ()

    def __post_init__(self) -> None:
        names.tenant_name(self.tenant)
        names.job_id(self.id)
        names.name("queue", self.queue)
        names.name("job_type", self.job_type)
        names.name("codec", self.codec)
        names.size("payload", self.payload, names.MAX_PAYLOAD)
        names.integer("priority", self.priority, -100, 100)
        names.integer("max_attempts", self.max_attempts, 1, 1_000)
        names.duration("timeout", self.timeout, 1)
        names.duration("result_ttl", self.result_ttl)
        self.retry.check()
        self._check_times()
        self._check_uniqueness()
        if self.group is not None:
            names.text("group", self.group)
        if self.labels:
            names.labels(self.labels)
        if self.parents:
            self._check_parents()

    def _check_times(self) -> None:
        if self.run_at is not None and self.delay is not None:
            raise InvalidValue("run_at and delay exclude each other: give one")
        if self.run_at is not None:
            names.instant("run_at", self.run_at)
        if self.delay is not None:
            names.duration("delay", self.delay)
        if self.expires is not None:
            names.duration("expires", self.expires, 1)
        if self.lease is not None:
            names.integer("lease", self.lease, 1, names.DAY)
        if self.grace is not None:
            names.integer("grace", self.grace, 0, names.DAY)

    def _check_uniqueness(self) -> None:
        if self.key is not None:
            names.text("key", self.key)
        elif self.unique is not Unique.ACTIVE:
            raise InvalidValue(f"unique={self.unique.value!r} needs a key")
        if (self.unique is Unique.WINDOW) != (self.unique_for is not None):
            raise InvalidValue("unique_for goes with unique='window', and only with it")
        if self.unique_for is not None:
            names.duration("unique_for", self.unique_for, 1)

    def _check_parents(self) -> None:
        if len(self.parents) > names.MAX_PARENTS:
            raise InvalidValue(f"parents: at most {names.MAX_PARENTS} are allowed")
        if len({parent.id for parent in self.parents}) != len(self.parents):
            raise InvalidValue("parents: the same one is named twice")

    @property
    def fingerprint(self) -> bytes:
        return fingerprint(self.job_type, self.codec, self.payload, self.queue)

    def like(self, id: str, payload: bytes) -> "NewJob":
        """The same with another id and payload: what is valid already isn't looked at again, nor is the id."""
        other = copy(self)
        force_setattr(other, "id", id)
        force_setattr(other, "payload", names.size("payload", payload, names.MAX_PAYLOAD))
        return other


class Alike(Sequence[NewJob]):
    """New jobs that differ in id and payload alone, and whose ids all differ. They are made when somebody looks.

    Whoever treats them otherwise than a list of jobs asks for `type(jobs) is Alike`: every call does, and `isinstance`
    of an abstract class takes five times as long for what isn't one.
    """

    def __init__(self, kind: NewJob, ids: list[str], payloads: list[bytes]) -> None:
        if max(map(len, payloads), default=0) > names.MAX_PAYLOAD:
            for payload in payloads:
                names.size("payload", payload, names.MAX_PAYLOAD)
        self.kind = kind
        """One like them: its id and payload say nothing."""
        self.ids = ids
        self.payloads = payloads
        self._jobs: list[NewJob] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> NewJob: ...
    @overload
    def __getitem__(self, at: slice) -> "Alike": ...
    def __getitem__(self, at: int | slice) -> "NewJob | Alike":
        if isinstance(at, slice):
            return Alike(self.kind, self.ids[at], self.payloads[at])
        return self._all[at]

    def __iter__(self) -> Iterator[NewJob]:
        return iter(self._all)

    @property
    def _all(self) -> list[NewJob]:
        if self._jobs is None:
            like = self.kind.like
            self._jobs = [like(id, payload) for id, payload in zip(self.ids, self.payloads, strict=True)]
        return self._jobs


def fingerprint(job_type: str, codec: str, payload: bytes, queue: str) -> bytes:
    """What tells two bodies apart under one id or key."""
    return hashlib.sha256(b"\0".join((job_type.encode(), codec.encode(), queue.encode(), payload))).digest()


def fingerprinting(job_type: str, codec: str, queue: str) -> "hashlib._Hash":
    """The beginning of fingerprints: copied for each payload, where there are many."""
    return hashlib.sha256(b"\0".join((job_type.encode(), codec.encode(), queue.encode(), b"")))


def key_hash(key: str) -> str:
    """A key as events show it: keys may name people."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def secret_hash(secret: bytes) -> bytes:
    """What the store keeps of a token's secret."""
    return hashlib.sha256(secret).digest()[:16]


class Token(msgspec.Struct, frozen=True, gc=False):
    """The right to renew and settle one job under one lease. Never show the secret."""

    tenant: str
    job_id: str
    lease_seq: int
    secret: bytes

    @property
    def ref(self) -> Ref:
        return (self.tenant, self.job_id)

    def __repr__(self) -> str:
        return f"Token({self.tenant}, {self.job_id}, {self.lease_seq})"


class Spec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What never changes about a stored job."""

    tenant: str
    id: str
    seq: int
    """The order of arrival in the whole store; never shown."""
    queue: str
    job_type: str
    codec: str
    fingerprint: bytes
    payload_size: int
    enqueued_at: Ms
    max_attempts: int
    retry: RetryPolicy
    timeout: Ms
    result_ttl: Ms
    key: str | None = None
    unique: Unique = Unique.ACTIVE
    unique_for: Ms | None = None
    group: str | None = None
    labels: dict[str, str] = {}
    lease: Ms | None = None
    grace: Ms | None = None
    expires_at: Ms | None = None
    parents: tuple[Parent, ...] = ()
    replay_of: str | None = None
    root_id: str | None = None

    @property
    def ref(self) -> Ref:
        return (self.tenant, self.id)

    @property
    def lane(self) -> tuple[str, str]:
        return (self.tenant, self.queue)

    @property
    def binding_key(self) -> BindingKey | None:
        return None if self.key is None else (self.tenant, self.queue, self.job_type, self.key)


class Lease(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who holds a running job, and until when."""

    worker: str
    claimed_at: Ms
    until: Ms
    ttl: Ms
    grace: Ms

    @property
    def deadline(self) -> Ms:
        """The last instant at which the holder may act."""
        return self.until + self.grace

    def expired(self, now: Ms) -> bool:
        return now > self.deadline


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An error as data: its family (an exception's name, say) and a message."""

    family: str
    message: str = ""

    def __post_init__(self) -> None:
        names.text("error family", self.family, names.MAX_FAMILY)
        if len(self.message.encode(errors="surrogatepass")) > names.MAX_MESSAGE:
            raise InvalidValue(f"error message: at most {names.MAX_MESSAGE} bytes; Failure.clip shortens one")

    @classmethod
    def clip(cls, family: str, message: str) -> "Failure":
        """The same, cut to what fits."""
        short = message.encode(errors="replace")[: names.MAX_MESSAGE].decode(errors="ignore")
        return cls(family[: names.MAX_FAMILY] or "Error", short)

    def to_dict(self) -> dict[str, str]:
        """The same for JSON."""
        return {"family": self.family, "message": self.message}


class Traceback(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The exception that ended an attempt, as data: its class path (`shop.errors.Declined`), its message, and the
    traceback as text. Kept apart from the record; `clip` makes one that fits.
    """

    class_path: str
    message: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        names.text("class path of an exception", self.class_path)
        names.prose("exception message", self.message, names.MAX_MESSAGE)
        names.prose("traceback", self.text, names.MAX_TRACEBACK)

    @classmethod
    def clip(cls, class_path: str, message: str, text: str) -> "Traceback":
        """The same, shortened to what fits."""
        path = "".join(mark if mark.isprintable() else "?" for mark in class_path)
        return cls(
            path.encode(errors="replace")[: names.MAX_TEXT].decode(errors="ignore") or "Error",
            names.shortened(message, names.MAX_MESSAGE),
            names.shortened(text, names.MAX_TRACEBACK),
        )


class Progress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a running job says it is: 0 to 1, with a message."""

    fraction: float
    message: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise InvalidValue(f"progress {self.fraction!r}: give a number from 0 to 1")
        if len(self.message.encode(errors="surrogatepass")) > names.MAX_MESSAGE:
            raise InvalidValue(f"progress message: at most {names.MAX_MESSAGE} bytes")

    def to_dict(self) -> dict[str, float | str]:
        """The same for JSON."""
        return {"fraction": self.fraction, "message": self.message}


class Settlement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How the holder of the last lease ended it, so that the same call again gets the same answer."""

    tag: str
    state: State


class Attempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One ended lease in a job's history."""

    attempt: int
    lease_seq: int
    worker: str
    claimed_at: Ms
    ended_at: Ms
    outcome: str
    """The kind of the event that ended it."""
    reason: str
    error: Failure | None = None


class Job(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job's record, as stored. Only the transition table makes a new one from an old one."""

    spec: Spec
    state: State
    version: int
    priority: int
    run_at: Ms
    updated_at: Ms
    """When its last event was written."""
    attempt: int = 0
    lease_seq: int = 0
    token: bytes | None = None
    """Hash of the last lease's secret."""
    lease: Lease | None = None
    settled: Settlement | None = None
    cancel_requested: bool = False
    finished_at: Ms | None = None
    reason: str | None = None
    progress: Progress | None = None
    last_error: Failure | None = None
    releases: dict[str, int] = {}
    history: tuple[Attempt, ...] = ()

    @property
    def ref(self) -> Ref:
        return (self.spec.tenant, self.spec.id)

    @property
    def expires_at(self) -> Ms | None:
        """When it expires, while it still can: a job that was ever claimed, or isn't pending, can't."""
        return self.spec.expires_at if self.state is State.PENDING and self.lease_seq == 0 else None

    @property
    def result_expires_at(self) -> Ms:
        return result_expiry(self.finished_at, self.spec.result_ttl, self.spec.unique_for)

    def expired(self, now: Ms) -> bool:
        expires_at = self.expires_at
        return expires_at is not None and now >= expires_at

    def status(self, now: Ms) -> Status:
        """What it is shown as at `now`."""
        if self.state is not State.PENDING:
            return Status(self.state.value)
        return waiting_status(self.run_at, self.attempt, self.expires_at, now)


def waiting_status(run_at: Ms, attempt: int, expires_at: Ms | None, now: Ms) -> Status:
    """What a pending job is shown as; `expires_at` while it still can expire."""
    if expires_at is not None and now >= expires_at:
        return Status.EXPIRED
    if run_at <= now:
        return Status.READY
    return Status.RETRYING if attempt else Status.SCHEDULED


def result_expiry(finished_at: Ms | None, result_ttl: Ms, unique_for: Ms | None) -> Ms:
    """When the result of a succeeded job is past its time: a window key keeps it as long as itself."""
    return (finished_at or 0) + max(result_ttl, unique_for or 0)


def as_enqueued(spec: Spec, state: State, priority: int, run_at: Ms) -> Job:
    """The record of a job to which nothing has happened since it was enqueued."""
    return Job(spec, state, 1, priority, run_at, spec.enqueued_at)


class Binding(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who holds a key, with which body, and until when (None: until its policy says so)."""

    job_id: str
    fingerprint: bytes
    unique: Unique
    expires_at: Ms | None = None

    def live(self, now: Ms) -> bool:
        return self.expires_at is None or now < self.expires_at


class Edge(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A child waits for a parent. It lives until the child is terminal, so that the parent's result does too."""

    tenant: str
    parent: str
    child: str
    child_seq: int
    on_failure: OnParentFailure
    resolved: bool = False


class Slot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The place of a cancelled job whose handler may still run: it counts until confirmed or expired."""

    tenant: str
    job_id: str
    lease_seq: int
    queue: str
    group: str | None
    deadline: Ms


class Result(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a job gave back, kept apart from its record until `expires_at`."""

    body: bytes
    codec: str
    expires_at: Ms


class DeadLetter(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The open question that a failed job leaves behind."""

    tenant: str
    job_id: str
    at: Ms
    disposition: Disposition
    new_id: str | None = None


def distinct(field: str, values: Iterable[str]) -> None:
    """Refuses a sequence that names something twice."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise InvalidValue(f"{field}: {value!r:.80} is named twice")
        seen.add(value)
