"""The worker: what it is made of, how it starts and how it stops.

    starting  →  working  →  stopping  →  stopped
                             no new jobs; those in hand are told, and go on for the shutdown grace; then they are
                             cancelled and released with their attempt refunded

`stop` asks for that, once; asked with `hard`, the grace is over at once.
"""

import asyncio
import logging
import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.domain import names
from tenure.domain.calls import UNKNOWN_TYPE, Claimed, ClaimedJob, Release, Settle, Settled, Succeed
from tenure.domain.errors import (
    FlowTooLarge,
    GroupNeedsKeyed,
    GroupRequired,
    IdConflict,
    IdempotencyMismatch,
    InvalidValue,
    NotReady,
    ParentNotFound,
    Refused,
)
from tenure.domain.job import Lease
from tenure.domain.names import Ms
from tenure.domain.store import Store
from tenure.engine.context import CURRENT, Context
from tenure.engine.hooks import Hook, Told
from tenure.engine.settings import Settings
from tenure.engine.worker.away import Away
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.elsewhere import ELSEWHERE_MS
from tenure.engine.worker.exchanger import AT_ONCE, ClaimTerms, Ended, Exchanger
from tenure.engine.worker.executors import Executors
from tenure.engine.worker.hand import Ending, Hand, Hands
from tenure.engine.worker.logged import log_ended, log_started
from tenure.engine.worker.presence import Presence
from tenure.engine.worker.publisher import Publisher
from tenure.engine.worker.renewer import Leases, Renewer
from tenure.engine.worker.runner import Runner
from tenure.engine.worker.scheduler import Scheduler
from tenure.engine.worker.sweeper import Sweeper
from tenure.engine.worker.tracebacks import with_traceback
from tenure.engine.worker.wheel import Wheel

if TYPE_CHECKING:
    from tenure.engine.app import Tenure

ABOUT_CARRIED = (GroupNeedsKeyed, GroupRequired, IdConflict, IdempotencyMismatch, ParentNotFound, FlowTooLarge)
"""Why a success may be refused besides the lease: a job that it carries can't go in."""

log = logging.getLogger("tenure.worker")


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker serves, and on which terms. Durations in seconds."""

    queues: dict[str, int | None]
    concurrency: int
    tenants: tuple[str, ...] | None
    name: str
    lease: float
    grace: float
    settings: Settings

    @classmethod
    def checked(
        cls,
        *,
        queues: Mapping[str, int] | Sequence[str],
        concurrency: int,
        tenants: tuple[str, ...] | None,
        name: str | None,
        lease: float,
        grace: float,
        settings: Settings,
    ) -> "WorkerOptions":
        """Raises `InvalidValue` for what makes no sense."""
        if isinstance(queues, str):
            raise InvalidValue(f"queues {queues!r}: give a list of names, or a mapping of names to how many at once")
        limits: dict[str, int | None] = {}
        limits.update(queues if isinstance(queues, Mapping) else dict.fromkeys(queues))
        if not limits:
            raise NotReady("the app has no jobs, so the worker has no queues: declare a job, or give queues=")
        for queue, most in limits.items():
            names.name("queue", queue)
            if most is not None:
                names.integer(f"queue {queue}", most, 1, names.MAX_BATCH)
        names.integer("concurrency", concurrency, 1, names.MAX_BATCH)
        for tenant in tenants or ():
            names.tenant_name(tenant)
        return cls(
            queues=limits,
            concurrency=concurrency,
            tenants=tenants,
            name=names.name("worker", name or default_name()),
            lease=lease,
            grace=grace,
            settings=msgspec.structs.replace(settings, lease=lease, grace=grace),
        )


def default_name() -> str:
    """Tells workers of one machine, and of one process, apart."""
    host = re.sub(r"[^A-Za-z0-9.-]", "", platform.node())[:40]
    return f"{host or 'worker'}-{os.getpid()}-{os.urandom(2).hex()}"


class Worker:
    """Runs jobs in this process: `async with app.worker(): …`, or `await app.worker().run()`."""

    def __init__(self, app: "Tenure", options: WorkerOptions) -> None:
        self._app = app
        self.options = options
        self.name = options.name
        self._parts: _Parts | None = None
        self._stopping = asyncio.Event()
        self._hard = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._leases: Leases | None = None
        self._crowded = False

    def __repr__(self) -> str:
        return f"<worker {self.name}>"

    async def __aenter__(self) -> "Worker":
        self._main = asyncio.create_task(self._run(), name=f"tenure-worker-{self.name}")
        started = asyncio.create_task(self._started.wait())
        try:
            await asyncio.wait([self._main, started], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._main.cancel()
            await asyncio.wait([self._main])
            raise
        finally:
            started.cancel()
        if not self._started.is_set():
            await self._main  # it ended before it started: this raises why
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        if self._main is not None:
            await self._main

    async def run(self) -> None:
        """Works until `stop` is called, or this is cancelled."""
        async with self:
            await self._stopping.wait()

    def stop(self, *, hard: bool = False) -> None:
        """Asks it to stop: no new jobs, those in hand are told. `hard` ends the grace they have."""
        self._stopping.set()
        if hard:
            self._hard.set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def kept_by(self, leases: Leases, *, crowded: bool = False) -> None:
        """Lets someone else keep the leases, before it starts. Crowded: of more processes than there are cores."""
        self._leases = leases
        self._crowded = crowded

    async def idle(self) -> None:
        """Returns when the queues were found empty and nothing is in hand, or the worker stops."""
        if self._parts is None:
            raise NotReady("the worker hasn't started: use it inside `async with app.worker()`")
        self._parts.exchanger.look_for_idle()
        waits = [asyncio.create_task(self._parts.exchanger.idle.wait()), asyncio.create_task(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _run(self) -> None:
        CURRENT.set(None)  # a handler may have started it: the worker isn't part of that job
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._app)
            store = await self._app.opened()
            state = await stack.enter_async_context(self._app.state())
            parts = self._parts = _Parts(self._app, self.options, store, state, self._leases, self._crowded)
            await parts.publisher.start()
            await self._tell(Hook.WORKER_STARTED)
            await parts.start()
            self._started.set()
            log.info("worker %s serves %s", self.name, ", ".join(self.options.queues))
            try:
                await self._until_stopped(parts)
            finally:
                self._stopping.set()  # whoever waits for it to stop learns of a loop that broke, too
                await parts.stop(self._hard)
                await self._tell(Hook.WORKER_STOPPED)
                log.info("worker %s stopped", self.name)

    async def _until_stopped(self, parts: "_Parts") -> None:
        """Waits; a loop that breaks is a bug, and ends the worker loudly instead of leaving it half alive."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([stopping, *parts.loops], return_when=asyncio.FIRST_COMPLETED)
            for loop in parts.loops:
                if loop.done():
                    loop.result()
        finally:
            stopping.cancel()

    async def _tell(self, hook: Hook) -> None:
        if self._app.hooks.heard(hook):
            await self._app.hooks.tell(Told(hook=hook, worker=self.name))


class _Parts:
    """A started worker: the jobs in hand and the loops around them."""

    def __init__(
        self, app: "Tenure", options: WorkerOptions, store: Store, state: Any, leases: Leases | None, crowded: bool
    ) -> None:
        self._app = app
        self._options = options
        self._state = state
        settings, queues = options.settings, tuple(options.queues)
        self.hands = Hands(options.concurrency, options.queues)
        self._executors = Executors(options.concurrency, settings)
        self._runner = Runner(app, self._executors)
        self._wheel = Wheel(self.hands)
        away = Away()
        self._leases = leases or Renewer(store, away)
        self._sweeper = Sweeper(store, options.lease, app.blob_store, away)
        self._scheduler = Scheduler(store, options.tenants, away=away)
        self.publisher = Publisher(app, store, options.tenants, away)
        self._presence = Presence(
            store, options.name, queues, options.concurrency, self.hands, away, self.publisher.handled
        )
        terms = ClaimTerms(
            worker=options.name,
            ttl=round(options.lease * 1_000),
            grace=round(options.grace * 1_000),
            tenants=options.tenants,
            poll=(settings.poll, settings.poll_at_most),
        )
        calls = 1 if crowded else AT_ONCE
        self.exchanger = Exchanger(
            store, self.hands, terms, queues, self._take, self._begin, self._answered, calls, away
        )
        self.loops: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self._telling: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self._leases.start()
        for loop in (self.exchanger, self._sweeper, self._presence, self._scheduler, self.publisher):
            name = f"tenure-{type(loop).__name__.lower()}"
            self.loops.append(asyncio.create_task(loop.run(), name=name))

    # Jobs

    def _take(self, claimed: Claimed, sent_at: float) -> list[Hand]:
        """The jobs of a claim: each into a slot, or back if nobody here can run it."""
        now, lease, given, watched = boottime(), None, sent_at, 0.0
        hands: list[Hand] = []
        for job in claimed.jobs:
            if job.job.lease is not lease:
                lease, watched = job.job.lease, 0.0
                given = sent_at - _age(lease, claimed.now)
            hand = self._take_one(job, given, now)
            if hand is None:
                continue
            hands.append(hand)
            if hand.timeout_at != watched:  # the others of a lease end when this one does
                watched = hand.timeout_at
                self._wheel.add(hand)
        if hands:
            self._leases.added(hands)
        return hands

    def _take_one(self, claimed: ClaimedJob, sent_at: float, now: float) -> Hand | None:
        definition = self._app.definitions.get(claimed.job.spec.job_type)
        if self._stopping:
            self._give_back(claimed, Release(reason="shutdown"))
            return None
        if definition is None or not definition.handled:
            self._give_back(claimed, Release(ELSEWHERE_MS, UNKNOWN_TYPE))
            return None
        hand = Hand(claimed, definition, sent_at, now, self._leases.reported)
        if hand.late(now):
            self._give_back(claimed, Release(reason="late"))
            return None
        hand.context = Context(self._app, claimed, self._state, hand.note)
        self.hands.add(hand)
        return hand

    def _begin(self, hands: Sequence[Hand]) -> None:
        """A task each. Jobs that wait for nothing could share one for 1.3 to 1.7 µs less a job (24.3 and 23.0 µs of
        processor time on the memory store; 0.94 of the rate of a drain on PostgreSQL; medians of 11 and 13 runs in
        turn), and would share what libraries keep by it. Tasks that begin at once, as Python 3.12 can have them, save
        5 % of a job's time: not worth a second way.
        """
        for hand in hands:  # the loop holds a task until it begins, then the hand does
            _ = self._loop.create_task(self._run(hand), name=hand.definition.name)

    def _give_back(self, claimed: ClaimedJob, release: Release) -> None:
        self.exchanger.settle(Ended(Settle(claimed.token, release), claimed.job))

    async def _run(self, hand: Hand) -> None:
        """The whole of a job, in a task and a context of its own: libraries keep by them what is one caller's."""
        hand.task = asyncio.current_task()
        CURRENT.set(hand.context)
        log_started(hand.claimed.job)
        hooks = self._app.hooks
        if hooks.any and hooks.heard(Hook.JOB_STARTED):
            with suppress(asyncio.CancelledError):  # told to end before it began: the runner sees that
                await hooks.tell(self._told(Hook.JOB_STARTED, hand))
        outcome = await self._runner.run(hand)
        if hand.error is not None:
            outcome = with_traceback(outcome, hand.error)
        if hooks.any and hooks.heard(Hook.JOB_ENDED):
            with suppress(asyncio.CancelledError):
                await hooks.tell(self._told(Hook.JOB_ENDED, hand, outcome=outcome))
        settled = hand.context is not None and hand.context.settled
        hand.let_go()
        self.hands.remove(hand)
        if outcome is not None and not settled and not hand.late(boottime()):
            self.exchanger.settle(Ended(Settle(hand.token, outcome), hand.claimed.job, hand))
            return
        hand.error = None
        if not settled:
            log.warning("the lease of %r was lost: what came of it isn't settled", hand)
        self._leases.removed(hand)
        self.exchanger.claim_soon()

    def _answered(self, ended: Ended, reply: Settled | Refused) -> None:
        hand, hooks = ended.hand, self._app.hooks
        if type(reply) is Settled:
            error = None if hand is None else hand.error
            log_ended(ended.job, ended.settle.outcome, reply.state, error)
        if hand is not None:
            hand.error = None
        if type(reply) is Settled and hand is not None and not hooks.any:
            self._leases.removed(hand)
            return
        refused = reply if isinstance(reply, Refused) else None
        if hand is not None and isinstance(refused, ABOUT_CARRIED) and isinstance(ended.settle.outcome, Succeed):
            instead = Settle(hand.token, self._runner.refused(hand, refused))
            self.exchanger.settle(Ended(instead, ended.job, hand))
            return
        if hand is not None:
            self._leases.removed(hand)
        if refused is not None and (hand is None or hand.ending is not Ending.CANCELLED):
            log.warning("the outcome of job %s was refused: %s", ended.settle.token.job_id, refused)
        hook = Hook.JOB_SETTLED if refused is None else Hook.JOB_REFUSED
        if hand is not None and hooks.heard(hook):
            told = self._told(hook, hand, outcome=ended.settle.outcome, refused=refused)
            task = asyncio.create_task(self._tell_of(hand, told))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell_of(self, hand: Hand, told: Told) -> None:
        """Tells of a job whose task has ended: what listeners make is its tenant's here, too."""
        CURRENT.set(Context(self._app, hand.claimed, self._state, hand.note))
        await self._app.hooks.tell(told)

    def _told(self, hook: Hook, hand: Hand, **fields: Any) -> Told:
        job = hand.claimed.job
        return Told(
            hook=hook,
            worker=self._options.name,
            tenant=job.spec.tenant,
            job_id=job.spec.id,
            job_type=job.spec.job_type,
            queue=job.spec.queue,
            attempt=job.attempt,
            run_seconds=None if hook is Hook.JOB_STARTED else round(boottime() - hand.started_at, 6),
            **fields,
        )

    # Stopping

    async def stop(self, hard: asyncio.Event) -> None:
        """Lets go of everything, in order: claims, jobs, their last words, the loops."""
        self._stopping = True
        self.exchanger.stop_claiming()
        for hand in self.hands:
            hand.end(Ending.SHUTDOWN, cancel=False)
        if not await self._emptied(self._options.settings.shutdown_grace, hard):
            for hand in self.hands:
                hand.end(Ending.SHUTDOWN)
            if not await self._emptied(self._options.settings.cancel_grace, None):
                await self._end_by_force()
        for hand in self.hands:
            log.error("%r goes on although it was told to end: its lease will run out", hand)
        self.exchanger.close()
        exchanging = self.loops[0]
        _, unanswered = await asyncio.wait([exchanging], timeout=self._options.settings.cancel_grace)
        if unanswered:
            log.error("the store doesn't answer: what came of the last jobs isn't settled")
        for loop in self.loops:
            loop.cancel()
        await asyncio.gather(*self.loops, return_exceptions=True)
        await self._presence.leave()
        await self._leases.stop()
        self._wheel.close()
        for hand in self.hands:
            hand.end(Ending.LOST)
        await self._executors.close()
        if self._telling:
            await asyncio.gather(*self._telling)

    async def _end_by_force(self) -> None:
        """A process can be killed, and its job is then given back like any other."""
        ending = [hand.task for hand in self.hands if hand.task is not None and hand.definition.executor == "process"]
        await self._executors.kill()
        if ending:
            await asyncio.wait(ending, timeout=self._options.settings.cancel_grace)

    async def _emptied(self, seconds: float, hard: asyncio.Event | None) -> bool:
        """Whether every handler ended in time."""
        empty = asyncio.create_task(self.hands.empty.wait())
        waits = [empty] if hard is None else [empty, asyncio.create_task(hard.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return self.hands.empty.is_set()


def _age(lease: Lease | None, now: Ms) -> float:
    """Seconds since the lease was given: more than 0 when the claim was asked again and the first had arrived."""
    return 0.0 if lease is None else (now - lease.until + lease.ttl) / 1_000
