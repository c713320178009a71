"""What a worker and its processes say to each other."""

from collections.abc import Callable

import msgspec

from tenure.domain.calls import ClaimedJob
from tenure.domain.job import NewJob, Traceback


class Limits(msgspec.Struct, frozen=True):
    """What a handler may use; None is whatever there is."""

    memory_bytes: int | None = None
    cpu_seconds: float | None = None


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Run this handler."""

    app: str
    """MODULE:ATTRIBUTE; empty when no module has the app."""
    module: str
    """Where the handler's function is."""
    job_type: str
    claimed: ClaimedJob
    limits: Limits = Limits()


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """The handler should end; `cancel` breaks off a coroutine where it waits."""

    reason: str
    cancel: bool


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The process waits for a job."""


class Stopping(msgspec.Struct, frozen=True, tag="stopping"):
    """The handler was told."""


class Said(msgspec.Struct, frozen=True, tag="said"):
    """The handler told how far it is."""

    fraction: float
    message: str


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """The handler gave a value, already encoded (None: nothing to keep), and jobs to carry."""

    body: bytes | None
    codec: str
    carried: tuple[NewJob, ...] = ()


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """The handler raised: `kind` is fail, retry, snooze, stopped or error; a failure has its reason too."""

    kind: str
    family: str
    message: str
    reason: str = ""
    after_seconds: float | None = None
    traceback: Traceback | None = None


ToChild = Run | Stop
FromChild = Ready | Stopping | Said | Returned | Raised

encode = msgspec.msgpack.Encoder().encode
to_child: Callable[[bytes], ToChild] = msgspec.msgpack.Decoder(ToChild).decode
from_child: Callable[[bytes], FromChild] = msgspec.msgpack.Decoder(FromChild).decode
