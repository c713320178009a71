"""The jobs a worker has in hand."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Protocol

from tenure.domain.calls import ClaimedJob
from tenure.domain.job import Progress, Token
from tenure.engine.context import Context
from tenure.engine.definition import Definition

HALVED = 400
"""With so many slots a claim fills half of them: while one half is settled and claimed, the other runs."""


class Ending(StrEnum):
    """Why a handler was told to end before it did by itself."""

    CANCELLED = "cancelled"
    """The job was cancelled and the token is dead."""
    REQUESTED = "cancel_requested"
    """The job was asked to end; it may still succeed."""
    LOST = "lease_lost"
    """The lease is someone else's, or nobody's: nothing may be settled."""
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"


class Kept(Protocol):
    """Where somebody else writes down until when they have renewed a lease, and what they know it by."""

    @property
    def slot(self) -> int: ...

    @property
    def generation(self) -> int: ...

    def __call__(self) -> float: ...


class Hand:
    """One job in hand: its lease as this worker knows it, and its handler."""

    __slots__ = (
        "_deadline",
        "_reported",
        "asked_at",
        "claimed",
        "context",
        "definition",
        "ending",
        "error",
        "forced",
        "progress",
        "progress_at",
        "renew_at",
        "shared_deadline",
        "started_at",
        "task",
        "timeout_at",
        "token",
        "ttl_seconds",
    )

    def __init__(
        self,
        claimed: ClaimedJob,
        definition: Definition[Any, Any],
        sent_at: float,
        now: float,
        reported: "Callable[[Hand], None]",
    ) -> None:
        lease = claimed.job.lease
        if lease is None:
            raise AssertionError(f"job {claimed.job.ref} was claimed without a lease")
        self.claimed = claimed
        self.definition = definition
        self.token: Token = claimed.token
        self.ttl_seconds = lease.ttl / 1_000
        self._deadline = sent_at + self.ttl_seconds
        self._reported = reported
        self.shared_deadline: Kept | None = None
        """What a supervisor that renews for this process has written down."""
        self.started_at = now
        self.timeout_at = self.started_at + claimed.job.spec.timeout / 1_000
        self.asked_at = sent_at
        """When the store was last asked about it."""
        self.renew_at = sent_at + self.ttl_seconds / 3
        self.ending: Ending | None = None
        self.forced = False
        """Whether it was cancelled, and not only told."""
        self.error: BaseException | None = None
        """What ended the attempt, for its traceback and the log: kept until the store has its end, for its frames refer
        to the hand.
        """
        self.progress: Progress | None = None
        """What the handler said last and no renewal has carried yet."""
        self.progress_at = 0.0
        """When the next progress may be sent."""
        self.context: Context | None = None
        self.task: asyncio.Task[Any] | None = None
        """What it runs in, once it has begun."""

    @property
    def deadline(self) -> float:
        """Until then the lease is certainly ours: counted from when the claim, or a renewal, was sent."""
        return self._deadline if self.shared_deadline is None else max(self._deadline, self.shared_deadline())

    def late(self, now: float) -> bool:
        """Whether the lease may be someone else's by then, so that nothing is to be settled."""
        return now >= self._deadline and now >= self.deadline

    def renewed(self, sent_at: float) -> None:
        """A renewal that was sent then was granted."""
        self._deadline = max(self._deadline, sent_at + self.ttl_seconds)
        self.renew_at = sent_at + self.ttl_seconds / 3

    def note(self, progress: Progress) -> None:
        """The handler said how far it is."""
        self.progress = progress
        self._reported(self)

    def take_progress(self) -> Progress | None:
        """What is to be sent of it; a renewal that fails puts it back."""
        progress, self.progress = self.progress, None
        return progress

    @property
    def queue(self) -> str:
        return self.claimed.job.spec.queue

    def __repr__(self) -> str:
        return f"<{self.claimed.job.spec.job_type} {self.token.job_id} of {self.token.tenant}>"

    def let_go(self) -> None:
        """Forgets the handler, which has ended. It refers to the hand in turn: a cycle a job keeps the collector busy
        (a third of the engine's time a job, 52 µs with it and 35 without).
        """
        self.context = self.task = None

    def end(self, why: Ending, *, cancel: bool = True) -> None:
        """Tells the handler to end, and cancels it unless it is only asked. The first reason that cancels it holds."""
        if self.ending not in (None, Ending.REQUESTED, Ending.SHUTDOWN):
            return
        if self.ending is None or cancel:
            self.ending = why
        if self.context is not None:
            self.context.cancelled.set(why.value)
        if cancel and self.task is not None:
            self.forced = True
            self.task.cancel()


class Hands:
    """All of them, on the worker's loop alone."""

    def __init__(self, concurrency: int, queues: dict[str, int | None]) -> None:
        self._concurrency = concurrency
        self.at_once = concurrency if concurrency < HALVED else concurrency // 2
        """How many one claim takes."""
        self._queues = queues
        self.by_queue = any(most is not None for most in queues.values())
        """Whether a queue has slots of its own."""
        self._held: dict[Hand, None] = {}
        self._by_queue: defaultdict[str, int] = defaultdict(int)
        self.empty = asyncio.Event()
        self.empty.set()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Hand]:
        return iter(list(self._held))

    def add(self, hand: Hand) -> None:
        if not self._held:
            self.empty.clear()
        self._held[hand] = None
        if self.by_queue:
            self._by_queue[hand.claimed.job.spec.queue] += 1

    def remove(self, hand: Hand) -> None:
        del self._held[hand]
        if self.by_queue:
            self._by_queue[hand.claimed.job.spec.queue] -= 1
        if not self._held:
            self.empty.set()

    @property
    def free(self) -> int:
        """How many more jobs may run at once."""
        return max(0, self._concurrency - len(self._held))

    def room(self) -> tuple[tuple[str, int | None], ...]:
        """The queues that may give jobs now, each with how many at most."""
        found = [
            (queue, None if most is None else min(1_000, most - self._by_queue[queue]))
            for queue, most in self._queues.items()
        ]
        return tuple((queue, most) for queue, most in found if most is None or most > 0)
