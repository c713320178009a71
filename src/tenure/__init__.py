"""Tenure: a job queue with leases, fencing tokens and tenants, and one semantics on every store.

The contract is `docs/semantics.md`; sections are cited as §n throughout the code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.blobs import BlobDamaged, BlobNotFound, BlobRef, open_blobs
    from tenure.domain.errors import (
        EnqueueFailed,
        IdempotencyMismatch,
        InvalidValue,
        JobCancelled,
        JobFailed,
        JobNotFound,
        OutcomeUnknown,
        QueueFull,
        Refused,
        ResultGone,
        ResultTimeout,
        StoreError,
        TenureError,
        Unsupported,
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
    from tenure.engine.handle import CancelResult, Handle, Job
    from tenure.engine.hooks import Next, Told
    from tenure.engine.options import Priority, content_key
    from tenure.engine.queue import Queue
    from tenure.engine.schedules import Schedule
    from tenure.engine.settings import Settings
    from tenure.engine.signals import Fail, Retry, Snooze
    from tenure.engine.worker.worker import Worker

__all__ = [
    "Backoff",
    "BlobDamaged",
    "BlobNotFound",
    "BlobRef",
    "Call",
    "CancelResult",
    "Context",
    "Definition",
    "EnqueueFailed",
    "Event",
    "EventKind",
    "Fail",
    "Failure",
    "Flow",
    "Handle",
    "IdempotencyMismatch",
    "InvalidValue",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "Jobs",
    "Next",
    "OutcomeUnknown",
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
    "Settings",
    "Snooze",
    "State",
    "Status",
    "StoreError",
    "Summary",
    "Tenant",
    "Tenure",
    "TenureError",
    "Told",
    "Unsupported",
    "Worker",
    "content_key",
    "open_blobs",
]

__version__ = "0.1.0"

_HOMES = {
    "Backoff": "tenure.engine.durations",
    "BlobDamaged": "tenure.blobs",
    "BlobNotFound": "tenure.blobs",
    "BlobRef": "tenure.blobs",
    "Call": "tenure.engine.definition",
    "CancelResult": "tenure.engine.handle",
    "Context": "tenure.engine.context",
    "Definition": "tenure.engine.definition",
    "EnqueueFailed": "tenure.domain.errors",
    "Event": "tenure.domain.event",
    "EventKind": "tenure.domain.states",
    "Fail": "tenure.engine.signals",
    "Failure": "tenure.domain.job",
    "Flow": "tenure.engine.flows",
    "Handle": "tenure.engine.handle",
    "IdempotencyMismatch": "tenure.domain.errors",
    "InvalidValue": "tenure.domain.errors",
    "Job": "tenure.engine.handle",
    "JobCancelled": "tenure.domain.errors",
    "JobFailed": "tenure.domain.errors",
    "JobNotFound": "tenure.domain.errors",
    "Jobs": "tenure.engine.definition",
    "Next": "tenure.engine.hooks",
    "OutcomeUnknown": "tenure.domain.errors",
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
    "Settings": "tenure.engine.settings",
    "Snooze": "tenure.engine.signals",
    "State": "tenure.domain.states",
    "Status": "tenure.domain.states",
    "StoreError": "tenure.domain.errors",
    "Summary": "tenure.engine.dead_letters",
    "Tenant": "tenure.engine.app",
    "Tenure": "tenure.engine.app",
    "TenureError": "tenure.domain.errors",
    "Told": "tenure.engine.hooks",
    "Unsupported": "tenure.domain.errors",
    "Worker": "tenure.engine.worker.worker",
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
    return sorted([*globals(), *__all__])
