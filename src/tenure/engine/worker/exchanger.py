"""The one loop that claims and settles.

While a call is on its way, handlers that end collect and leave with the next one, which also claims as many jobs as
there are slots: under load one call does it all, and an idle worker settles at once. Where there is much to do a second
call goes beside the first, so that the store isn't idle while this process works, nor the other way round.
"""

import asyncio
import logging
import os
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from typing import NamedTuple

import msgspec

from tenure.domain.calls import Claim, Claimed, Cursor, Fail, Outcome, Retry, Settle, Settled, Succeed
from tenure.domain.errors import KeyWaits, LeaseExpired, Refused, StoreError
from tenure.domain.job import Failure, Job
from tenure.domain.names import Ms
from tenure.domain.store import Store, queue_topic
from tenure.engine.worker.away import Away
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.forks import forks, leave_if_forked
from tenure.engine.worker.hand import Hand, Hands
from tenure.stores.base import carries_keys

BATCH = 500
BATCH_BYTES = 4 * 1024 * 1024
"""Of results, carried jobs and tracebacks in one call."""
AT_ONCE = 2
"""Calls on their way at once. One where processes outnumber cores: they keep the store busy between them, and what a
second call of each locks is only in the others' way (four processes on two cores drained 44,973 jobs a second with two,
52,141 with one; two processes 47,265 and 44,726; medians of three runs each, in turn).
"""
MUCH = 200
"""Jobs that are worth a second call."""
SOME = 16
"""Jobs that begin before the other call may go on."""
BEGINNINGS = "0123456789abcdefghijklmnopqrstuvwxyz"
RETRY_SECONDS = (0.1, 5.0)
HELD_SECONDS = 0.4
"""Until an outcome that waits for a key is tried again, at most."""

log = logging.getLogger("tenure.worker")


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A job whose lease is to be ended so."""

    settle: Settle
    job: Job
    """As it was claimed."""
    hand: Hand | None = None
    """None when nothing of it has run: that may be said however late, for the store refuses what isn't ours."""


class ClaimTerms(NamedTuple):
    """What every claim of this worker says."""

    worker: str
    ttl: Ms
    grace: Ms
    tenants: tuple[str, ...] | None
    poll: tuple[float, float]
    """Seconds between looks while nothing comes: first, and at most."""


class Exchanger:
    """Claims at most as many jobs as there are free slots, and never prefetches."""

    def __init__(
        self,
        store: Store,
        hands: Hands,
        terms: ClaimTerms,
        queues: tuple[str, ...],
        take: Callable[[Claimed, float], list[Hand]],
        begin: Callable[[Sequence[Hand]], None],
        answered: Callable[[Ended, Settled | Refused], None],
        calls: int = AT_ONCE,
        away: Away | None = None,
    ) -> None:
        self._store = store
        self._hands = hands
        self._terms = terms
        self._topics = [queue_topic(queue) for queue in queues]
        self._take = take
        self._begin = begin
        self._answered = answered
        self._away = away or Away()
        self._ended: deque[Ended] = deque()
        self._wake = asyncio.Event()
        self._calls = calls
        """How many may be on their way at once."""
        self._cursors = [Cursor(tenant=random.choice(BEGINNINGS)) for _ in range(calls)]
        """Where claims go on, of those calls that aren't on their way: each goes round by itself, like a worker."""
        self._claiming = True
        self._closing = False
        self._due = True
        self._asked_idle = False
        self._due_at = 0.0
        self._poll = terms.poll[0]
        self._turns: list[asyncio.Task[None]] = []
        self._apart: set[asyncio.Task[None]] = set()
        """Ends that wait for a key, each by itself."""
        self._asked = 0
        """Jobs that claims on their way may bring."""
        self._plenty = False
        """Whether the last claim got as many as it asked for."""
        self._forks = forks()
        self.idle = asyncio.Event()
        """Set while the last claim came back empty and nothing is in hand."""

    def settle(self, ended: Ended) -> None:
        """Queues the end of a lease. While a call is on its way, a few wait for the next; it is due when that ends."""
        self._ended.append(ended)
        if not self._turns or len(self._ended) >= MUCH:
            self._wake.set()

    def stop_claiming(self) -> None:
        self._claiming = False
        self._wake.set()

    def claim_soon(self) -> None:
        """Slots or jobs may be there: look again."""
        self._due = True
        self._wake.set()

    def look_for_idle(self) -> None:
        """Sets `idle` by what the next claim finds; one that is on its way already says nothing."""
        self._asked_idle = True
        self.idle.clear()
        self.claim_soon()

    def close(self) -> None:
        """Lets `run` end once everything is settled. It is never cancelled: a call on its way may be taking jobs."""
        self._claiming = False
        self._closing = True
        self._wake.set()

    async def run(self) -> None:
        """Until it is closed."""
        listener = asyncio.create_task(self._listen(), name="tenure-listener")
        try:
            while True:
                await self._until_due()
                for turn in [turn for turn in self._turns if turn.done()]:
                    self._turns.remove(turn)
                    turn.result()
                if self._may_turn():
                    self._turns.append(asyncio.create_task(self._counted(), name="tenure-exchange"))
                    await asyncio.sleep(0)  # it says what it takes before another is thought of
                elif self._closing and not self._turns and not self._apart:
                    return
        finally:
            self._closing = True
            for task in (listener, *self._turns, *self._apart):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _listen(self) -> None:
        """Hints: something may have become claimable. A cancel may be lost to a hint of the same moment."""
        while not self._closing:
            try:
                if await self._store.wait(self._topics, 30):
                    self.claim_soon()
            except StoreError as error:
                log.debug("no hints: %s", error)
                await asyncio.sleep(self._terms.poll[1])

    async def _until_due(self) -> None:
        """Waits until there is something to do, or something was done."""
        while not self._may_turn() and not any(turn.done() for turn in self._turns):
            if self._closing and not self._turns and not self._apart:
                return
            self._wake.clear()
            looks = self._has_room() and not self._turns
            delay = max(0.0, self._due_at - boottime()) if looks else None
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._wake.wait()

    def _may_turn(self) -> bool:
        """Whether a call is due; a second one beside the first if it carries much."""
        if not self._turns:
            return bool(self._ended) or self._may_claim()
        if len(self._turns) == self._calls:
            return False
        return len(self._ended) >= MUCH or (self._plenty and self._has_room() and self._free >= MUCH)

    def _may_claim(self) -> bool:
        return self._has_room() and (self._due or boottime() >= self._due_at)

    def _has_room(self) -> bool:
        return self._claiming and self._free > 0 and bool(self._hands.room())

    @property
    def _free(self) -> int:
        """How many more jobs may be asked for. Where a queue has slots of its own, one claim at a time: another can't
        know which of them it takes.
        """
        return 0 if self._asked and self._hands.by_queue else self._hands.free - self._asked

    async def _counted(self) -> None:
        try:
            await self._turn()
        finally:
            self._wake.set()

    async def _turn(self) -> None:
        """One call: the ends that collected, and a claim if there is room."""
        leave_if_forked(self._forks)
        batch = self._next_batch()
        cursor = self._cursors.pop()
        request = self._request(cursor)
        try:
            if request is not None:
                self._due = self._asked_idle = False  # whoever asks from here on asks for the next one
                self._asked += request.n
            batch, sent, settled, claimed = await self._call(batch, request)
            if isinstance(claimed, Claimed):
                cursor = claimed.cursor
            for ended, reply in zip(batch, settled, strict=True):
                self._answered(ended, reply)
            if request is not None and isinstance(claimed, Claimed):
                await self._take_all(claimed, sent)
        finally:
            self._cursors.append(cursor)
            self._asked -= 0 if request is None else request.n
        if request is not None:
            self._got(request, claimed)

    def _next_batch(self) -> list[Ended]:
        """The first ends that wait: as many as one call may carry, and one at least."""
        batch = list(islice(self._ended, BATCH))
        sizes = [size_of(ended.settle.outcome) for ended in batch]
        if sum(sizes) > BATCH_BYTES:
            batch = batch[: max(1, bisect_right(list(accumulate(sizes)), BATCH_BYTES))]
        for _ in batch:
            self._ended.popleft()
        return batch

    def _request(self, cursor: Cursor) -> Claim | None:
        if not self._has_room():
            return None
        terms = self._terms
        return Claim(
            claim_id=os.urandom(16),
            worker=terms.worker,
            queues=self._hands.room(),
            n=min(self._free, self._hands.at_once),
            ttl=terms.ttl,
            grace=terms.grace,
            cursor=cursor,
            tenants=terms.tenants,
        )

    async def _call(
        self, batch: list[Ended], request: Claim | None
    ) -> tuple[list[Ended], float, list[Settled | Refused], Claimed | Refused | None]:
        """Asks until there is an answer: the same again is safe (§5a). Also says when what was answered was sent."""
        wait, longest = RETRY_SECONDS
        while True:
            batch, sent = self._in_time(batch), boottime()
            try:
                batch, settled, claimed = await self._send(batch, request)
                self._away.answered()
                return batch, sent, settled, claimed
            except KeyWaits as error:
                if request is not None or len(batch) > 1:
                    batch, before = self._without_keys(batch), batch
                    if len(batch) < len(before):
                        continue
                log.debug("an outcome waits for a key: %s", error)
                longest = HELD_SECONDS
            except StoreError as error:
                self._away.failed("claims and settles", error)
            await asyncio.sleep(wait * random.uniform(0.5, 1))
            wait = min(2 * wait, longest)

    def _without_keys(self, batch: list[Ended]) -> list[Ended]:
        """Those that needn't wait for a key that some transaction holds; the others go on by themselves."""
        for ended in batch:
            if carries_keys([ended.settle]):
                task = asyncio.create_task(self._end(ended), name="tenure-settle-key")
                self._apart.add(task)
                task.add_done_callback(self._ended_apart)
        return [ended for ended in batch if not carries_keys([ended.settle])]

    def _ended_apart(self, task: "asyncio.Task[None]") -> None:
        self._apart.discard(task)
        self._wake.set()

    async def _end(self, ended: Ended) -> None:
        batch, _, settled, _ = await self._call([ended], None)
        for one, reply in zip(batch, settled, strict=True):
            self._answered(one, reply)

    def _in_time(self, batch: list[Ended]) -> list[Ended]:
        """Those whose lease is still ours: what can't be any more isn't settled."""
        now = boottime()
        late = [ended for ended in batch if ended.hand is not None and ended.hand.late(now)]
        if not late:
            return batch
        log.warning("%d leases ended before their outcome could be settled; the jobs will run again", len(late))
        for ended in late:
            self._answered(ended, LeaseExpired())
        return [ended for ended in batch if ended.hand is None or not ended.hand.late(now)]

    async def _send(
        self, batch: list[Ended], request: Claim | None
    ) -> tuple[list[Ended], list[Settled | Refused], Claimed | Refused | None]:
        """One call, with what was really sent. A batch that breaks for its data is sent one by one, so that the guilty
        one harms nobody else.
        """
        try:
            return batch, *await self._together([ended.settle for ended in batch], request)
        except StoreError:
            raise
        except Exception:
            if not batch:
                raise
            log.exception("%d outcomes can't be settled together", len(batch))
        sent, settled = [], []
        for ended in batch:
            said, reply = await self._alone(ended)
            sent.append(said)
            settled.append(reply)
        return sent, settled, None if request is None else await self._store.claim(request)

    async def _alone(self, ended: Ended) -> tuple[Ended, Settled | Refused]:
        try:
            (reply,) = await self._store.settle([ended.settle])
        except StoreError:
            raise
        except Exception as error:
            failure = Failure.clip("InvalidOutcome", f"what came of it can't be kept: {error}")
            instead = Settle(ended.settle.token, Fail(failure, "invalid_outcome"))
            (reply,) = await self._store.settle([instead])
            return msgspec.structs.replace(ended, settle=instead), reply
        return ended, reply

    async def _together(
        self, settles: list[Settle], request: Claim | None
    ) -> tuple[list[Settled | Refused], Claimed | Refused | None]:
        if request is None:
            return (await self._store.settle(settles) if settles else []), None
        if not settles:
            return [], await self._store.claim(request)
        exchanged = await self._store.exchange(settles, request)
        return exchanged.settled, exchanged.claimed

    async def _take_all(self, claimed: Claimed, sent: float) -> None:
        """All are taken at once, and begin some at a time: in between the other call goes on, which the store would
        wait for while all of these run (a tenth of a drain's time on PostgreSQL).
        """
        hands = self._take(claimed, sent)
        if hands:
            self.idle.clear()
        for start in range(0, len(hands), SOME):
            if start:
                await asyncio.sleep(0)
            self._begin(hands[start : start + SOME])

    def _got(self, request: Claim, claimed: Claimed | Refused | None) -> None:
        if not isinstance(claimed, Claimed):
            log.warning("the store gives no jobs: %s", claimed)
            self._rest(None)
            return
        if claimed.jobs:
            self._poll = self._terms.poll[0]
        self._plenty = len(claimed.jobs) == request.n
        if len(claimed.jobs) < request.n:
            self._rest(claimed.wake_after)
        else:
            self._due = True
        if claimed.jobs or self._hands or self._ended:
            self.idle.clear()
        elif len(self._turns) > 1:
            self._due = True  # the other call may bring jobs, or isn't settled yet: look again after it
        elif not self._asked_idle:
            self.idle.set()

    def _rest(self, wake_after: Ms | None) -> None:
        """Nothing more for now: the next look is when a job is due, or a poll later; a hint comes before that."""
        delay = self._poll if wake_after is None else min(self._poll, wake_after / 1_000)
        self._due_at = boottime() + delay
        self._poll = min(2 * self._poll, self._terms.poll[1])


def size_of(outcome: Outcome) -> int:
    """About how many bytes the end of a lease carries."""
    if type(outcome) is Succeed:
        carried = sum(len(job.payload) for job in outcome.jobs) if outcome.jobs else 0
        return carried if outcome.result is None else carried + len(outcome.result)
    if isinstance(outcome, Retry | Fail) and outcome.traceback is not None:
        return len(outcome.traceback.text.encode())
    return 0
