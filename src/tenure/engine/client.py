"""The producer's side of a store: enqueues of many callers leave together, and unknown outcomes are asked again."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextvars import Context

from tenure.domain.calls import Enqueued
from tenure.domain.errors import KeyWaits, OutcomeUnknown, Refused, StoreError
from tenure.domain.job import Alike, NewJob
from tenure.domain.names import MAX_BATCH
from tenure.domain.store import Store
from tenure.engine.held import HeldKeys, Key, keys_of
from tenure.stores.inside import inside_at

FLUSH_JOBS = MAX_BATCH
FLUSH_BYTES = 4 * 1024 * 1024
WAITING_JOBS = 10_000
"""Jobs that may wait to be sent; beyond it `enqueue` waits too."""

DEADLINE_SECONDS = 30.0
"""How long an unknown outcome is asked about before the caller is told."""
RETRY_SECONDS = (0.05, 2.0)

Reply = Enqueued | Refused

log = logging.getLogger("tenure.client")


class Sending:
    """Some jobs of one caller, on their way."""

    def __init__(self, jobs: Sequence[NewJob], keys: frozenset[Key] = frozenset()) -> None:
        self.jobs = jobs
        self.keys = keys
        """What they may have to wait for."""
        self.size = sum(_sizes(jobs))
        self.replies: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()

    def fail(self, error: BaseException) -> None:
        """Tells the caller, unless it knows already. Of an unknown outcome it learns its own jobs only."""
        if not self.replies.done():
            own = OutcomeUnknown(tuple(job.id for job in self.jobs)) if isinstance(error, OutcomeUnknown) else error
            self.replies.set_exception(own)


class Enqueuer:
    """Natural batching: while one call to the store is on its way, the jobs that come collect and leave together.

    An idle process sends at once. Belongs to one event loop.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._ahead = store.capabilities.enqueues_ahead
        self._waiting: deque[Sending] = deque()
        self._jobs_waiting = 0
        self._room = asyncio.Event()
        self._room.set()
        self._flusher: asyncio.Task[None] | None = None
        self._alone: asyncio.Future[None] | None = None
        """Done when the call that a caller makes itself is."""
        self._keys_wait = store.capabilities.keys_wait
        self._held = HeldKeys(self._send)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Reply]:
        """A reply per job, in order, once all are durable or refused. A cancelled caller leaves its jobs on their way.

        Raises a `StoreError` when the store can't take them, `OutcomeUnknown` when nobody can say whether it did.
        """
        if not _fit(jobs) or inside_at() is not None:
            return await self.enqueue_parts([jobs])
        keys = self._keys(jobs)
        if self._alone is None and not self._waiting and not self._flushing and not self._held.want(keys):
            try:
                return await self._send_alone(jobs, keys)
            except KeyWaits:
                if not keys:
                    raise
            held = Sending(jobs, keys)
            self._held.wait(held)
            return await held.replies
        return await (await self._put(jobs, keys)).replies

    async def enqueue_parts(self, jobs: Iterable[Sequence[NewJob]]) -> list[Reply]:
        """The same for many jobs, of which some are on their way while the next are made.

        If those can't be made, what it is for is raised once those before are in.
        """
        parts = (part for some in jobs for part in _parts(some))
        if inside_at() is not None:  # never together with others' jobs (§5b): the store may refuse it
            return [reply for part in parts for reply in await persist(self.store, part)]
        sent: list[Sending] = []
        try:
            for part in parts:
                sent.append(await self._put(part, self._keys(part)))
                await asyncio.sleep(0)  # so that it leaves
        except Exception as error:
            if sent:
                error.add_note(_before(await _all_replies(sent)))
            raise
        return await _all_replies(sent)

    async def _send_alone(self, jobs: Sequence[NewJob], keys: frozenset[Key]) -> list[Reply]:
        """Sends at once, on the caller's own task: the way to another and back takes as long as to make the jobs."""
        alone = self._alone = asyncio.get_running_loop().create_future()
        try:
            return await persist(self.store, jobs, patient=not keys)
        except asyncio.CancelledError:
            again = Sending(jobs, keys)  # what came of it isn't known: to ask again is safe (§5a)
            again.replies.cancel()
            self._waiting.appendleft(again)
            self._jobs_waiting += len(jobs)
            raise
        finally:
            self._alone = None
            alone.set_result(None)
            self._flush_soon()

    async def atomic(self, jobs: Sequence[NewJob]) -> list[Reply]:
        """All are created, or none; never together with others' jobs."""
        return await persist(self.store, jobs, atomic=True)

    async def _put(self, jobs: Sequence[NewJob], keys: frozenset[Key]) -> Sending:
        while self._jobs_waiting >= WAITING_JOBS:
            self._room.clear()
            await self._room.wait()
        sending = Sending(jobs, keys)
        if self._held.want(keys):
            self._held.wait(sending)
            return sending
        self._waiting.append(sending)
        self._jobs_waiting += len(jobs)
        self._flush_soon()
        return sending

    def _keys(self, jobs: Sequence[NewJob]) -> frozenset[Key]:
        return keys_of(jobs) if self._keys_wait else frozenset()

    @property
    def _flushing(self) -> bool:
        return self._flusher is not None and not self._flusher.done()

    def _flush_soon(self) -> None:
        if self._waiting and self._alone is None and not self._flushing:
            # In an empty context: what it sends is of many callers, and isn't to be logged or traced as one's own.
            self._flusher = asyncio.create_task(self._flush(), name="tenure-enqueuer", context=Context())

    async def close(self) -> None:
        """Waits for what is on its way."""
        if self._alone is not None:
            await asyncio.shield(self._alone)
        if self._flusher is not None:
            await asyncio.shield(self._flusher)
        await self._held.close()

    async def _flush(self) -> None:
        under_way: set[asyncio.Task[None]] = set()
        try:
            while self._waiting or under_way:
                if self._waiting and self._may_send(len(under_way)):
                    under_way.add(asyncio.create_task(self._sent(self._take())))
                    await asyncio.sleep(0)  # it leaves before the next
                    continue
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in under_way:
                task.cancel()

    def _may_send(self, under_way: int) -> bool:
        """Whether a batch leaves now: the only one, or a full one that the store takes ahead of an answer."""
        return not under_way or (under_way < self._ahead and self._jobs_waiting >= FLUSH_JOBS)

    async def _sent(self, batch: list[Sending]) -> None:
        try:
            await self._send(batch)
        except KeyWaits:
            self._held.part(batch)  # nobody else waits for it, neither in this batch nor behind it
        except BaseException as error:
            for sending in batch:
                sending.fail(error)
            if not isinstance(error, Exception):
                raise

    def _take(self) -> list[Sending]:
        batch = [self._waiting.popleft()]
        jobs, size = len(batch[0].jobs), batch[0].size
        while self._waiting:
            following = self._waiting[0]
            jobs, size = jobs + len(following.jobs), size + following.size
            if jobs > FLUSH_JOBS or size > FLUSH_BYTES:
                break
            batch.append(self._waiting.popleft())
        self._jobs_waiting -= sum(len(sending.jobs) for sending in batch)
        self._room.set()
        return batch

    async def _send(self, batch: list[Sending]) -> None:
        """One call for all. A batch that breaks for its data is halved until whoever broke it is alone."""
        patient = not any(sending.keys for sending in batch)
        try:
            replies = await persist(self.store, batch[0].jobs if len(batch) == 1 else _joined(batch), patient=patient)
        except StoreError:
            raise
        except Exception:
            if len(batch) == 1:
                raise
            middle = len(batch) // 2
            for half in (batch[:middle], batch[middle:]):
                try:
                    await self._send(half)
                except KeyWaits:
                    self._held.part(half)
                except Exception as error:
                    for sending in half:
                        sending.fail(error)
            return
        start = 0
        for sending in batch:
            end = start + len(sending.jobs)
            if not sending.replies.done():
                sending.replies.set_result(replies[start:end])
            start = end


async def _all_replies(sent: Sequence[Sending]) -> list[Reply]:
    replies = await asyncio.gather(*(sending.replies for sending in sent))
    return [reply for part in replies for reply in part]


def _before(replies: Sequence[Reply]) -> str:
    refused = sum(isinstance(reply, Refused) for reply in replies)
    return f"{len(replies) - refused:,} jobs before it are in" + (f", {refused:,} were refused" if refused else "")


def _joined(batch: list[Sending]) -> list[NewJob]:
    return [job for sending in batch for job in sending.jobs]


def _sizes(jobs: Sequence[NewJob]) -> list[int]:
    """How large each one's payload is."""
    return list(map(len, jobs.payloads)) if type(jobs) is Alike else [len(job.payload) for job in jobs]


def _fit(jobs: Sequence[NewJob]) -> bool:
    """Whether there are some, and one flush may carry them."""
    return len(jobs) == 1 or (0 < len(jobs) <= FLUSH_JOBS and sum(_sizes(jobs)) <= FLUSH_BYTES)


def _parts(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """A caller's jobs in order, as many at a time as one flush may carry."""
    if _fit(jobs):
        yield jobs
        return
    start = total = 0
    for end, size in enumerate(_sizes(jobs)):
        if end > start and (end - start == FLUSH_JOBS or total + size > FLUSH_BYTES):
            yield jobs[start:end]
            start, total = end, 0
        total += size
    if start < len(jobs):
        yield jobs[start:]


async def persist(store: Store, jobs: Sequence[NewJob], *, atomic: bool = False, patient: bool = True) -> list[Reply]:
    """Enqueues; while the outcome is unknown, asks again with the same jobs, which is safe (§5a)."""
    hasty: dict[str, bool] = {} if patient else {"patient": False}
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    wait, longest = RETRY_SECONDS
    while True:
        try:
            return await store.enqueue(jobs, atomic=atomic, **hasty)
        except OutcomeUnknown as error:
            if loop.time() + wait > deadline:
                raise OutcomeUnknown(tuple(job.id for job in jobs)) from error
            log.warning("the outcome of an enqueue is unknown; asking again in %.2f s", wait)
        await asyncio.sleep(wait * random.uniform(0.5, 1))
        wait = min(2 * wait, longest)
