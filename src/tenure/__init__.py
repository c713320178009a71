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
    from tenure.engine.app import Tenure
    from tenure.engine.context import Context
    from tenure.engine.definition import Call, Definition, Jobs
    from tenure.engine.durations import Backoff
    from tenure.engine.handle import CancelResult, Handle, Job
    from tenure.engine.options import Priority, content_key
    from tenure.engine.settings import Settings
    from tenure.engine.signals import Fail, Retry, Snooze

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
    "Fail",
    "Handle",
    "IdempotencyMismatch",
    "InvalidValue",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "Jobs",
    "OutcomeUnknown",
    "Priority",
    "QueueFull",
    "Refused",
    "ResultGone",
    "ResultTimeout",
    "Retry",
    "Settings",
    "Snooze",
    "StoreError",
    "Tenure",
    "TenureError",
    "Unsupported",
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
    "Fail": "tenure.engine.signals",
    "Handle": "tenure.engine.handle",
    "IdempotencyMismatch": "tenure.domain.errors",
    "InvalidValue": "tenure.domain.errors",
    "Job": "tenure.engine.handle",
    "JobCancelled": "tenure.domain.errors",
    "JobFailed": "tenure.domain.errors",
    "JobNotFound": "tenure.domain.errors",
    "Jobs": "tenure.engine.definition",
    "OutcomeUnknown": "tenure.domain.errors",
    "Priority": "tenure.engine.options",
    "QueueFull": "tenure.domain.errors",
    "Refused": "tenure.domain.errors",
    "ResultGone": "tenure.domain.errors",
    "ResultTimeout": "tenure.domain.errors",
    "Retry": "tenure.engine.signals",
    "Settings": "tenure.engine.settings",
    "Snooze": "tenure.engine.signals",
    "StoreError": "tenure.domain.errors",
    "Tenure": "tenure.engine.app",
    "TenureError": "tenure.domain.errors",
    "Unsupported": "tenure.domain.errors",
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
