"""Every error Tenure raises, and every refusal a store answers.

    TenureError
    ├── InvalidValue            a value that can't be accepted, whatever the store holds
    ├── StoreError              the store itself is broken, absent or not ours
    │   ├── StoreUnavailable    can't be opened, read or written now
    │   │   └── KeyWaits        a key is held by a transaction that is still open
    │   ├── StoreFull           no room left on the device
    │   ├── StoreCorrupt        not a Tenure store, or a damaged one
    │   ├── SchemaTooNew        written by a newer Tenure
    │   └── OutcomeUnknown      a call may or may not have taken effect
    ├── Unsupported             a capability this store doesn't have
    ├── NotReady                used before it was set up, or where it can't be
    ├── EnqueueFailed           some of many jobs weren't taken in
    ├── WriteFailed             some rows of a write from Spark weren't taken in
    ├── JobFailed               a job ended badly; its result was waited for
    ├── ResultTimeout           a result didn't come in time; the job goes on
    ├── ResultGone              the job succeeded, its result is past its time
    ├── EventsLost              retention took events before a follower had read them
    ├── SnapshotExpired         a view of a store that several shared is past its time
    └── Refused                 an expected "no": stores return it as a value, one per item
        ├── about leases        JobNotFound LeaseLost JobCancelled JobFinished LeaseExpired
        ├── about enqueue       IdConflict IdempotencyMismatch GroupNeedsKeyed GroupRequired
        │                       ParentNotFound ParentCycle FlowTooLarge QueueFull BatchRefused
        ├── about commands      NotPending NotDeadLettered AlreadyReplayed KeyHeld
        ├── about documents     VersionConflict ModeConflict
        ├── about the feed      CursorExpired
        ├── about blobs         BlobNotFound (in tenure.blobs; a damaged one is a StoreError, BlobDamaged)
        └── about the store     StoreFrozen NotFrozen StoreNotEmpty

A `Refused` is a value first: two of the same type and arguments are equal. It is an exception too, so that
whoever asked for exactly one thing can raise what the store answered.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.domain.job import Failure


SHOWN_IDS = 5
"""How many jobs a message names at most."""


class TenureError(Exception):
    """Root of everything Tenure raises."""


class InvalidValue(TenureError, ValueError):
    """A value that can't be accepted: the message names the field, the value and what is allowed."""


class Unsupported(TenureError):
    """The store lacks a capability that was asked for; raised when configured, not when used."""


class NotReady(TenureError):
    """Used before it was set up, or where it can't be: the message says what to do first."""


class EnqueueFailed(TenureError):
    """Some jobs of many were refused. `results` has a handle or the refusal of each, in order.

    Of `enqueue_many` the others are in; of a flow none is, and each has its refusal.
    """

    def __init__(self, results: "list[Any]") -> None:
        refused = [result for result in results if isinstance(result, Refused)]
        reasons = "; ".join(sorted({str(reason) for reason in refused}))
        super().__init__(f"{len(refused)} of {len(results)} jobs were refused: {reasons}")
        self.results = results


class WriteFailed(TenureError):
    """Rows of a write from Spark weren't taken in: the message says which and why. The others are in, and stay."""


class JobFailed(TenureError):
    """The job ended badly. `reason` is why (error, timeout, exhausted, …), `error` what its last attempt raised."""

    def __init__(self, id: str, reason: str, error: "Failure | None" = None) -> None:
        detail = "" if error is None else f": {error.family}: {error.message}" if error.message else f": {error.family}"
        super().__init__(f"job {id} failed ({reason}){detail}")
        self.id = id
        self.reason = reason
        self.error = error


class ResultTimeout(TenureError, TimeoutError):
    """The result didn't come in time. The job isn't cancelled by that."""


class ResultGone(TenureError):
    """The job succeeded, but its result was kept only for its `result_ttl`."""


class SnapshotExpired(TenureError):
    """The shared view of a store is gone. Nothing else is read in its place: that would be another state."""


class StoreError(TenureError):
    """The store itself can't do its work."""


class StoreUnavailable(StoreError):
    """The store can't be opened, read or written now."""


class KeyWaits(StoreUnavailable):
    """A transaction that is still open holds the key of one of these jobs, or its id; nothing of the call was kept."""


class StoreAway(StoreUnavailable):
    """The store's server can't be reached, or lets nobody in yet: that passes by itself."""


class StoreFull(StoreError):
    """The device that holds the store has no room left; nothing of the call was kept."""


class StoreCorrupt(StoreError):
    """The file is no Tenure store, or a damaged one."""


class SchemaTooNew(StoreError):
    """The store was written by a newer Tenure; this one must not touch it."""


class OutcomeUnknown(StoreError):
    """The call may or may not have taken effect; sending it again with the same arguments is safe.

    `ids` are the jobs concerned.
    """

    def __init__(self, ids: tuple[str, ...] = ()) -> None:
        super().__init__(ids)
        self.ids = ids

    def __str__(self) -> str:
        shown = ", ".join(self.ids[:SHOWN_IDS])
        jobs = "" if not shown else f" (jobs {shown}{', …' if len(self.ids) > SHOWN_IDS else ''})"
        return (
            f"the store didn't answer: nobody knows whether it was done{jobs}; "
            "to send the very same again is safe, else look before you ask again"
        )


class EventsLost(TenureError):
    """Retention took events before this follower of the feed had read them: the message says which, and what to do."""


class Refused(TenureError):
    """An expected refusal. Equal to another of the same type with the same arguments."""

    says = "refused"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def __str__(self) -> str:
        return self.says.format(*self.args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.args))})"


class JobNotFound(Refused):
    """No such job in this tenant; another tenant's job answers the same."""

    says = "no such job in this tenant"


class LeaseLost(Refused):
    """The token isn't the job's current one, or the job isn't running any more."""

    says = "the lease belongs to someone else now"


class JobCancelled(Refused):
    """The job was cancelled; cancel wins over a later settle."""

    says = "the job was cancelled"


class JobFinished(Refused):
    """The job is terminal already, in `state`."""

    says = "the job already ended: {0}"

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


class LeaseExpired(Refused):
    """The lease and its grace have passed; only `sweep` may touch the job now."""

    says = "the lease has expired"


class IdConflict(Refused):
    """The id is taken by a job with another fingerprint."""

    says = "another job has this id"


class IdempotencyMismatch(Refused):
    """The key is held by job `id`, enqueued with another body."""

    says = "the key is held by job {0}, which has another body"

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id


class GroupNeedsKeyed(Refused):
    """A job with a group was sent to a plain queue, where the group's limit would be ignored."""

    says = "queue {0} is plain and would ignore the group: configure it with mode='keyed'"

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class GroupRequired(Refused):
    """A job without a group was sent to a keyed queue."""

    says = "queue {0} is keyed: give the job a group"

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class ParentNotFound(Refused):
    """Parent `id` isn't in this tenant, was purged, or stands later in the same batch."""

    says = "no such parent: {0}"

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id


class ParentCycle(Refused):
    """The job would wait for itself, through parent `id`."""

    says = "the job would wait for itself through {0}"

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id


class FlowTooLarge(Refused):
    """Parent `id` has as many waiting children as one job may have."""

    says = "job {0} already has 1,000 waiting children"

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id


class QueueFull(Refused):
    """The queue holds `max_depth` waiting jobs of this tenant."""

    says = "the queue already holds its {0} waiting jobs"

    def __init__(self, max_depth: int) -> None:
        super().__init__(max_depth)
        self.max_depth = max_depth


class BatchRefused(Refused):
    """This item was fine, but an atomic batch is refused whole when any of its items is."""

    says = "another item of the atomic batch was refused"


class NotPending(Refused):
    """Only a pending job can be moved; this one is in `state`."""

    says = "the job is {0}, not pending"

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


class NotDeadLettered(Refused):
    """Only a failed job has a dead letter; this one is in `state`."""

    says = "the job is {0}: only a failed job can be replayed or discarded"

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


class AlreadyReplayed(Refused):
    """The dead letter was replayed as `new_id` and can't be discarded any more."""

    says = "already replayed as {0}"

    def __init__(self, new_id: str) -> None:
        super().__init__(new_id)
        self.new_id = new_id


class KeyHeld(Refused):
    """The replayed job's key is held by job `id`."""

    says = "the key is held by job {0}"

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id


class VersionConflict(Refused):
    """The document stands at `version` (0: it doesn't exist), not at the expected one."""

    says = "the document stands at version {0}"

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


class ModeConflict(Refused):
    """A queue's mode can change only while the queue is empty; it is in `mode` now."""

    says = "the queue isn't empty and stays {0}"

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self.mode = mode


class CursorExpired(Refused):
    """Events after this cursor are past retention and gone."""

    says = "events after this cursor are past retention"


class StoreFrozen(Refused):
    """The store is frozen for transfer: renew and settle go on, the rest waits for thaw."""

    says = "the store is frozen"


class NotFrozen(Refused):
    """`dump`, `load` and `thaw` need a frozen store."""

    says = "the store isn't frozen"


class StoreNotEmpty(Refused):
    """`load` needs an empty store."""

    says = "the store isn't empty"
