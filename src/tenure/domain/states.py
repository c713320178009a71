"""The words of the state machine: stored states, what they are shown as, gates, commands and event kinds."""

from enum import StrEnum


class State(StrEnum):
    """A stored state. What depends on time is derived from it (`Status`), so no process has to promote anything."""

    BLOCKED = "blocked"
    """Waits for other jobs to end."""
    PENDING = "pending"
    """Waits for its time, then for a worker."""
    RUNNING = "running"
    """Held by a lease."""
    SUCCEEDED = "succeeded"
    """Ended well; terminal."""
    FAILED = "failed"
    """Ended badly, with a dead letter; terminal."""
    CANCELLED = "cancelled"
    """Called off, or expired before it ever ran; terminal."""

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


class Status(StrEnum):
    """What a job is shown as, at one store instant."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    """Pending, its time is still to come, no attempt used."""
    READY = "ready"
    """Pending and due."""
    RETRYING = "retrying"
    """Pending, its time is still to come, attempts used."""
    EXPIRED = "expired"
    """Pending, never claimed and past `expires_at`: sweep will cancel it, claims pass over it."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Gate(StrEnum):
    """What holds a job back, in the order `explain` lists it."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    EXPIRED = "expired"
    TENANT_PAUSED = "tenant_paused"
    QUEUE_PAUSED = "queue_paused"
    LIMIT = "limit"
    GROUP_LIMIT = "group_limit"
    ORDERED = "ordered"
    RATE = "rate"
    GROUP_RATE = "group_rate"


class Command(StrEnum):
    """What can be done to a job: the rows of the transition table."""

    ENQUEUE = "enqueue"
    UNBLOCK = "unblock"
    PARENT_FAILED = "parent failed"
    CLAIM = "claim"
    RENEW = "renew"
    SUCCEED = "succeed"
    RETRY = "retry"
    FAIL = "fail"
    RELEASE = "release"
    LOSE = "lease lost"
    CANCEL = "cancel"
    REQUEST_CANCEL = "request cancel"
    EXPIRE = "expire"
    RESCHEDULE = "reschedule"
    REPRIORITISE = "reprioritise"
    REPLAY = "replay"
    DISCARD = "discard"


class EventKind(StrEnum):
    """What an event says happened."""

    ENQUEUED = "enqueued"
    UNBLOCKED = "unblocked"
    CLAIMED = "claimed"
    RETRY_SCHEDULED = "retry_scheduled"
    LEASE_LOST = "lease_lost"
    RELEASED = "released"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    RESCHEDULED = "rescheduled"
    REPRIORITISED = "reprioritised"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
    PROGRESS = "progress"
    PURGED = "purged"
    CONFIGURED = "configured"
    PAUSED = "paused"
    RESUMED = "resumed"
    CLOCK_JUMP = "clock_jump"


class Unique(StrEnum):
    """How long a key stays taken."""

    ACTIVE = "active"
    """Until the job ends."""
    WINDOW = "window"
    """Until `unique_for` after its success; until it ends otherwise."""
    RETAINED = "retained"
    """Until its record is purged."""


class OnParentFailure(StrEnum):
    """What happens to a blocked job when a parent fails, is cancelled or expires."""

    CANCEL = "cancel"
    FAIL = "fail"
    IGNORE = "ignore"


class Mode(StrEnum):
    """How a queue treats groups."""

    PLAIN = "plain"
    """One line per tenant; a job with a group is refused."""
    KEYED = "keyed"
    """Groups rotate, each with its own limit; a job without a group is refused."""


class Disposition(StrEnum):
    """What became of a dead letter."""

    OPEN = "open"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
