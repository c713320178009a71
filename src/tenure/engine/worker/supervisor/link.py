"""The child's side: it tells of every lease, and reads what became of it."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from itertools import count

from tenure.domain.job import Job
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Ending, Hand
from tenure.engine.worker.renewer import PROGRESS_SECONDS
from tenure.engine.worker.supervisor.wire import (
    Deadlines,
    Done,
    Hello,
    Message,
    Said,
    SharedDeadline,
    Terms,
    Told,
    Took,
    frame,
    read_frame,
)

log = logging.getLogger("tenure.worker")


class Link:
    """Keeps leases by telling a supervisor of them. `gone` is called when the supervisor is."""

    def __init__(self, line: socket.socket, deadlines: Deadlines, hello: Hello, gone: Callable[[], None]) -> None:
        self._line = line
        self._deadlines = deadlines
        self._gone = gone
        self._generations = count(1)
        self._free = list(range(deadlines.slots))
        self._hands: dict[int, Hand] = {}
        self._outbox: list[Message] = [hello]
        self._done: list[int] = []
        """Leases that have ended: told together, after everything else."""
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._flushing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """From here on every lease is told of before its handler starts, which may end the process."""
        self._loop = asyncio.get_running_loop()
        reader, self._writer = await asyncio.open_connection(sock=self._line)
        self._flush()
        self._reading = asyncio.create_task(self._read(reader), name="tenure-link")

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._writer is not None:
            self._flush()
            self._writer.close()

    # Telling

    def added(self, hands: Sequence[Hand]) -> None:
        """Tells of leases. What is told in one turn of the loop leaves before any handler of it starts."""
        took: Took | None = None
        last: Job | None = None
        for hand in hands:
            slot, generation = self._free.pop() if self._free else -1, next(self._generations)
            self._hands[generation] = hand
            hand.shared_deadline = SharedDeadline(self._deadlines, slot, generation)
            job = hand.claimed.job
            if took is None or not _of_one_kind(job, last):
                terms = _terms(hand)
                if took is None or terms != took.terms:
                    took = Took(terms, generation, [], [])
                    self._outbox.append(took)
            last = job
            took.slots.append(slot)
            took.jobs.append(hand.token.job_id)
        self._flush_soon()

    def removed(self, hand: Hand) -> None:
        shared, hand.shared_deadline = hand.shared_deadline, None
        if shared is not None:
            del self._hands[shared.generation]
            if shared.slot >= 0:
                self._free.append(shared.slot)
            self._done.append(shared.generation)
            self._flush_soon()

    def reported(self, hand: Hand) -> None:
        """Progress leaves at once, at most twice a second; the last word of a burst goes with the next one."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._report, hand)  # a plain handler reports from its own thread

    def _report(self, hand: Hand) -> None:
        shared, now = hand.shared_deadline, boottime()
        if shared is None or hand.progress is None:
            return
        if now < hand.progress_at:
            asyncio.get_running_loop().call_later(hand.progress_at - now, self._report, hand)
            return
        progress, hand.progress = hand.progress, None
        hand.progress_at = now + PROGRESS_SECONDS
        self._outbox.append(Said(shared.generation, progress.fraction, progress.message))
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._done:
            self._outbox.append(Done(self._done))
            self._done = []
        if self._writer is not None and self._outbox:
            self._writer.write(frame(self._outbox))
            self._outbox = []

    # Hearing

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while (messages := await read_frame(reader)) is not None:
            for message in messages:
                hand = self._hands.get(message.generation) if isinstance(message, Told) else None
                if hand is not None and isinstance(message, Told):
                    hand.end(Ending(message.ending), cancel=message.cancel)
        log.error("the supervisor is gone: this worker ends")
        self._gone()


def _of_one_kind(job: Job, other: Job | None) -> bool:
    """Whether two jobs certainly have the same terms, if they were taken at once. Cheaper than to make both."""
    if other is None or job.lease is not other.lease:
        return False
    spec, known = job.spec, other.spec
    return (
        spec.job_type == known.job_type
        and spec.tenant == known.tenant
        and spec.queue == known.queue
        and spec.timeout == known.timeout
        and spec.retry == known.retry
        and job.attempt == other.attempt
        and job.lease_seq == other.lease_seq
    )


def _terms(hand: Hand) -> Terms:
    job, token = hand.claimed.job, hand.token
    spec = job.spec
    return Terms(
        token.tenant,
        token.lease_seq,
        token.secret,
        spec.job_type,
        spec.queue,
        hand.ttl_seconds,
        hand.renew_at,
        hand.timeout_at,
        spec.timeout,
        job.attempt,
        spec.retry,
    )
