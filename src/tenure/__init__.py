"""Tenure: a job queue with leases, fencing tokens and tenants, and one semantics on every store.

The contract is `docs/semantics.md`; sections are cited as §n throughout the code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.blobs import BlobDamaged, BlobNotFound, BlobRef, open_blobs
    from tenure.domain.errors import (
        AlreadyReplayed,
        BatchRefused,
        CursorExpired,
        EnqueueFailed,
        EventsLost,
        FlowTooLarge,
        GroupNeedsKeyed,
        GroupRequired,
        IdConflict,
        IdempotencyMismatch,
        InvalidValue,
        JobCancelled,
        JobFailed,
        JobFinished,
        JobNotFound,
        KeyHeld,
        KeyWaits,
        LeaseExpired,
        LeaseLost,
        ModeConflict,
        NotDeadLettered,
        NotFrozen,
        NotPending,
        NotReady,
        OutcomeUnknown,
        ParentCycle,
        ParentNotFound,
        QueueFull,
        Refused,
        ResultGone,
        ResultTimeout,
        SchemaTooNew,
        SnapshotExpired,
        StoreAway,
        StoreCorrupt,
        StoreError,
        StoreFrozen,
        StoreFull,
        StoreNotEmpty,
        StoreUnavailable,
        TenureError,
        Unsupported,
        VersionConflict,
        WriteFailed,
    )
    from tenure.domain.event import Event
    from tenure.domain.job import Failure, Progress
    from tenure.domain.retry import RetryPolicy
    from tenure.domain.states import EventKind, State, Status
    from tenure.engine.app import Tenant, Tenure
    from tenure.engine.context import Context
    from tenure.engine.dead_letters import Summary
    from tenure.engine.definition import Call, Definition, Jobs
    from tenure.engine.durations import Backoff
    from tenure.engine.flows import Flow, Parents
    from tenure.engine.handle import Attempt, CancelResult, Handle, Job, Traceback
    from tenure.engine.hooks import Next, Told
    from tenure.engine.options import Priority, content_key
    from tenure.engine.queue import Queue
    from tenure.engine.schedules import Schedule
    from tenure.engine.settings import Settings
    from tenure.engine.signals import Fail, Retry, Snooze
    from tenure.engine.worker.worker import Worker

__all__ = [
    "AlreadyReplayed",
    "Attempt",
    "Backoff",
    "BatchRefused",
    "BlobDamaged",
    "BlobNotFound",
    "BlobRef",
    "Call",
    "CancelResult",
    "Context",
    "CursorExpired",
    "Definition",
    "EnqueueFailed",
    "Event",
    "EventKind",
    "EventsLost",
    "Fail",
    "Failure",
    "Flow",
    "FlowTooLarge",
    "GroupNeedsKeyed",
    "GroupRequired",
    "Handle",
    "IdConflict",
    "IdempotencyMismatch",
    "InvalidValue",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFinished",
    "JobNotFound",
    "Jobs",
    "KeyHeld",
    "KeyWaits",
    "LeaseExpired",
    "LeaseLost",
    "ModeConflict",
    "Next",
    "NotDeadLettered",
    "NotFrozen",
    "NotPending",
    "NotReady",
    "OutcomeUnknown",
    "ParentCycle",
    "ParentNotFound",
    "Parents",
    "Priority",
    "Progress",
    "Queue",
    "QueueFull",
    "Refused",
    "ResultGone",
    "ResultTimeout",
    "Retry",
    "RetryPolicy",
    "Schedule",
    "SchemaTooNew",
    "Settings",
    "SnapshotExpired",
    "Snooze",
    "State",
    "Status",
    "StoreAway",
    "StoreCorrupt",
    "StoreError",
    "StoreFrozen",
    "StoreFull",
    "StoreNotEmpty",
    "StoreUnavailable",
    "Summary",
    "Tenant",
    "Tenure",
    "TenureError",
    "Told",
    "Traceback",
    "Unsupported",
    "VersionConflict",
    "Worker",
    "WriteFailed",
    "content_key",
    "open_blobs",
]

__version__ = "0.1.0"

_HOMES = {
    "Attempt": "tenure.engine.handle",
    "AlreadyReplayed": "tenure.domain.errors",
    "Backoff": "tenure.engine.durations",
    "BatchRefused": "tenure.domain.errors",
    "BlobDamaged": "tenure.blobs",
    "BlobNotFound": "tenure.blobs",
    "BlobRef": "tenure.blobs",
    "Call": "tenure.engine.definition",
    "CancelResult": "tenure.engine.handle",
    "Context": "tenure.engine.context",
    "CursorExpired": "tenure.domain.errors",
    "Definition": "tenure.engine.definition",
    "EnqueueFailed": "tenure.domain.errors",
    "Event": "tenure.domain.event",
    "EventKind": "tenure.domain.states",
    "EventsLost": "tenure.domain.errors",
    "Fail": "tenure.engine.signals",
    "Failure": "tenure.domain.job",
    "Flow": "tenure.engine.flows",
    "FlowTooLarge": "tenure.domain.errors",
    "GroupNeedsKeyed": "tenure.domain.errors",
    "GroupRequired": "tenure.domain.errors",
    "Handle": "tenure.engine.handle",
    "IdConflict": "tenure.domain.errors",
    "IdempotencyMismatch": "tenure.domain.errors",
    "InvalidValue": "tenure.domain.errors",
    "Job": "tenure.engine.handle",
    "JobCancelled": "tenure.domain.errors",
    "JobFailed": "tenure.domain.errors",
    "JobFinished": "tenure.domain.errors",
    "JobNotFound": "tenure.domain.errors",
    "Jobs": "tenure.engine.definition",
    "KeyHeld": "tenure.domain.errors",
    "KeyWaits": "tenure.domain.errors",
    "LeaseExpired": "tenure.domain.errors",
    "LeaseLost": "tenure.domain.errors",
    "ModeConflict": "tenure.domain.errors",
    "Next": "tenure.engine.hooks",
    "NotDeadLettered": "tenure.domain.errors",
    "NotFrozen": "tenure.domain.errors",
    "NotPending": "tenure.domain.errors",
    "NotReady": "tenure.domain.errors",
    "OutcomeUnknown": "tenure.domain.errors",
    "ParentCycle": "tenure.domain.errors",
    "ParentNotFound": "tenure.domain.errors",
    "Parents": "tenure.engine.flows",
    "Priority": "tenure.engine.options",
    "Progress": "tenure.domain.job",
    "Queue": "tenure.engine.queue",
    "QueueFull": "tenure.domain.errors",
    "Refused": "tenure.domain.errors",
    "ResultGone": "tenure.domain.errors",
    "ResultTimeout": "tenure.domain.errors",
    "Retry": "tenure.engine.signals",
    "RetryPolicy": "tenure.domain.retry",
    "Schedule": "tenure.engine.schedules",
    "SchemaTooNew": "tenure.domain.errors",
    "Settings": "tenure.engine.settings",
    "SnapshotExpired": "tenure.domain.errors",
    "Snooze": "tenure.engine.signals",
    "State": "tenure.domain.states",
    "Status": "tenure.domain.states",
    "StoreAway": "tenure.domain.errors",
    "StoreCorrupt": "tenure.domain.errors",
    "StoreError": "tenure.domain.errors",
    "StoreFrozen": "tenure.domain.errors",
    "StoreFull": "tenure.domain.errors",
    "StoreNotEmpty": "tenure.domain.errors",
    "StoreUnavailable": "tenure.domain.errors",
    "Summary": "tenure.engine.dead_letters",
    "Tenant": "tenure.engine.app",
    "Tenure": "tenure.engine.app",
    "TenureError": "tenure.domain.errors",
    "Told": "tenure.engine.hooks",
    "Traceback": "tenure.engine.handle",
    "Unsupported": "tenure.domain.errors",
    "VersionConflict": "tenure.domain.errors",
    "Worker": "tenure.engine.worker.worker",
    "WriteFailed": "tenure.domain.errors",
    "content_key": "tenure.engine.options",
    "open_blobs": "tenure.blobs",
}
"""Where each public name lives. Looked up when it is first asked for: whoever needs the domain alone loads no more."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tenure' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    """The public names, and what Python keeps of any module: no import of this file."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
