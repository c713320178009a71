"""What supervisor and child say to each other, and the memory they share."""

import asyncio
import mmap
import os
import signal
from collections.abc import Sequence

import msgspec

from tenure.domain.names import Ms
from tenure.domain.retry import RetryPolicy
from tenure.engine.worker import frames

STOP_AT_ONCE = signal.SIGUSR2
"""After a SIGTERM. Not another one: two that a busy process hasn't come to yet are one."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """The child is ready to work."""

    url: str
    worker: str
    cancel_grace: float


class Terms(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What leases of one claim have in common. Times on the clock of `boottime`, which all processes share."""

    tenant: str
    lease_seq: int
    secret: bytes
    job_type: str
    queue: str
    ttl_seconds: float
    renew_at: float
    timeout_at: float
    timeout: Ms
    attempt: int
    retry: RetryPolicy


class Took(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="took"):
    """The child has leases in hand: of each its slot and its job. Their generations follow on the first one's."""

    terms: Terms
    first: int
    slots: list[int]
    jobs: list[str]


class Said(msgspec.Struct, frozen=True, array_like=True, tag="said"):
    """A handler told how far it is."""

    generation: int
    fraction: float
    message: str


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """The leases are settled, or given up."""

    generations: list[int]


class Told(msgspec.Struct, frozen=True, array_like=True, tag="told"):
    """From the supervisor: this handler should end."""

    generation: int
    ending: str
    cancel: bool


Message = Hello | Took | Said | Done | Told

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Message]).decode


def frame(messages: Sequence[Message]) -> bytes:
    return frames.frame(_encode(messages))


async def read_frame(reader: asyncio.StreamReader) -> list[Message] | None:
    """The next messages; None when the other side is gone."""
    body = await frames.read_body(reader)
    return None if body is None else _decode(body)


class Deadlines:
    """Until when each slot's lease is its holder's: written by the supervisor, read by the child.

    A slot has two numbers: which lease it is about, and its deadline. A reader that finds another lease there knows
    nothing; so a late write about the slot's last lease does no harm.
    """

    def __init__(self, file: int, slots: int) -> None:
        self._map = mmap.mmap(file, slots * 16)
        self._numbers = memoryview(self._map).cast("d")
        self.slots = slots

    @staticmethod
    def create(slots: int) -> int:
        """A file in memory with room for so many slots."""
        file = os.memfd_create("tenure-deadlines")
        os.ftruncate(file, slots * 16)
        return file

    def write(self, slot: int, generation: int, deadline: float) -> None:
        if 0 <= slot < self.slots:
            self._numbers[2 * slot + 1] = deadline
            self._numbers[2 * slot] = float(generation)

    def read(self, slot: int, generation: int) -> float:
        """The deadline, or 0 when the slot says nothing of this lease."""
        if not 0 <= slot < self.slots or self._numbers[2 * slot] != generation:
            return 0.0
        return self._numbers[2 * slot + 1]

    def close(self) -> None:
        self._numbers.release()
        self._map.close()


class SharedDeadline(msgspec.Struct, frozen=True, gc=False):
    """Where a lease's deadline is written down."""

    deadlines: Deadlines
    slot: int
    generation: int

    def __call__(self) -> float:
        return self.deadlines.read(self.slot, self.generation)
