"""The supervisor: starts worker processes, renews their leases, ends those that hang and starts others."""

import asyncio
import logging
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from tenure.domain.calls import Outcome, Release, Renewal, Renewed, Retry, Settle, Settled
from tenure.domain.errors import JobCancelled, Refused, StoreError
from tenure.domain.job import Failure, Progress, Token
from tenure.domain.names import MAX_BATCH
from tenure.domain.store import Store
from tenure.engine.importing import PATH, environment
from tenure.engine.worker.away import Away
from tenure.engine.worker.cancels import hear
from tenure.engine.worker.clock import boottime
from tenure.engine.worker.hand import Ending
from tenure.engine.worker.logged import Attempt, log_end
from tenure.engine.worker.supervisor.child import MISUSED, ChildOptions
from tenure.engine.worker.supervisor.wire import (
    STOP_AT_ONCE,
    Deadlines,
    Done,
    Hello,
    Message,
    Said,
    Terms,
    Told,
    Took,
    frame,
    read_frame,
)
from tenure.stores.opening import open_store

RESTART_SECONDS = (0.1, 30.0)
"""How long to wait before a child that died is replaced: first, and at most."""
LIVED_SECONDS = 10.0
"""A child that lived so long has done nothing wrong: the next one starts at once."""
LOOK_SECONDS = 0.2
STOP_SECONDS = 10.0
"""How long beyond its own graces a child that was told to stop may take."""
SETTLE_SECONDS = 30.0

log = logging.getLogger("tenure.supervisor")


class Held:
    """A lease that a child has in hand."""

    __slots__ = ("asked_at", "generation", "job_id", "progress", "progress_at", "renew_at", "slot", "terms", "told")

    def __init__(self, terms: Terms, slot: int, generation: int, job_id: str) -> None:
        self.terms = terms
        self.slot = slot
        self.generation = generation
        self.job_id = job_id
        self.renew_at = terms.renew_at
        self.asked_at = terms.renew_at - terms.ttl_seconds / 3
        """When the store was last asked about it: at its claim."""
        self.progress: Progress | None = None
        self.progress_at = 0.0
        """When the next progress may be sent."""
        self.told: tuple[Ending, float] | None = None
        """What its handler was told, and when."""

    @property
    def token(self) -> Token:
        return Token(self.terms.tenant, self.job_id, self.terms.lease_seq, self.terms.secret)

    @property
    def attempt(self) -> Attempt:
        terms = self.terms
        return Attempt(self.job_id, terms.job_type, terms.tenant, terms.queue, terms.attempt)

    @property
    def kept(self) -> bool:
        """Whether it is still to be renewed."""
        return self.told is None or self.told[0] is Ending.REQUESTED


class Child:
    """One worker process and what it has in hand."""

    def __init__(self, process: asyncio.subprocess.Process, line: socket.socket, deadlines: Deadlines) -> None:
        self.process = process
        self.line = line
        self.deadlines = deadlines
        self._held: dict[int, Held] = {}
        self._took: list[Took] = []
        self._done: set[int] = set()
        """What it said since somebody last asked what it has: most leases end before anybody does."""
        self.hello: Hello | None = None
        self.started_at = boottime()
        self.guilty: tuple[int, Ending] | None = None
        """The lease it was killed for."""
        self.stopped = False
        """Whether it ended, or was ended, because it was told to stop."""
        self._writer: asyncio.StreamWriter | None = None

    async def listen(self, heard: "Supervisor") -> None:
        """Reads what it says, until it is gone."""
        reader, self._writer = await asyncio.open_connection(sock=self.line)
        while (messages := await read_frame(reader)) is not None:
            for message in messages:
                self._note(message, heard)
        self._writer.close()

    def _note(self, message: Message, heard: "Supervisor") -> None:
        match message:
            case Took():
                self._took.append(message)
                heard.took(message.terms)
            case Done():
                self._done.update(message.generations)
            case Said():
                if message.generation in self.held:
                    self.held[message.generation].progress = Progress(message.fraction, message.message)
                    heard.look()
            case Hello():
                self.hello = message
                heard.greeted(message)

    @property
    def held(self) -> dict[int, Held]:
        """The leases that it has in hand, by their generations."""
        took, self._took = self._took, []
        done, self._done = self._done, set()
        for message in took:
            for generation, (slot, job_id) in enumerate(zip(message.slots, message.jobs, strict=True), message.first):
                if generation not in done:
                    self._held[generation] = Held(message.terms, slot, generation, job_id)
        for generation in done & self._held.keys():
            del self._held[generation]
        return self._held

    def tell(self, held: Held, ending: Ending, *, cancel: bool) -> None:
        held.told = (ending, boottime())
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame([Told(held.generation, ending.value, cancel)]))

    def terminate(self, *, at_once: bool) -> None:
        """Tells it to stop, or to stop at once."""
        with suppress(ProcessLookupError):
            self.process.send_signal(STOP_AT_ONCE if at_once else signal.SIGTERM)

    def hang_up(self) -> None:
        """It is gone: what it said is still heard, and nobody who has its end of the line by a fork is waited for."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RD)

    def kill(self, held: Held, ending: Ending) -> None:
        """Ends it for one job that wouldn't."""
        if self.guilty is None:
            self.guilty = (held.generation, ending)
            with suppress(ProcessLookupError):
                self.process.kill()


class Supervisor:
    """Keeps `processes` children at work until it is told to stop."""

    def __init__(
        self, options: ChildOptions, processes: int = 1, signalled: Callable[[int], None] | None = None
    ) -> None:
        self._options = options
        self._processes = processes
        self._signalled = signalled
        """Told how many signals have asked it to stop."""
        self._children: set[Child] = set()
        self._store: Store | None = None
        self._away = Away()
        self._wake = asyncio.Event()
        self._next = float("inf")
        """When leases are looked at next, while nothing wakes the supervisor."""
        self._hearing: asyncio.Task[None] | None = None
        self._cancelled_at = float("-inf")
        """When some job, of whatever worker, was last heard to be cancelled."""
        self._stopping = asyncio.Event()
        self._signals = 0
        self._code = 0
        self._cancel_grace = 10.0

    async def run(self) -> int:
        """Until SIGTERM or SIGINT; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        renewing = [asyncio.create_task(self._renew_loop()), asyncio.create_task(self._watch_loop())]
        try:
            await asyncio.gather(*(self._keep_one(self._name(place)) for place in range(self._processes)))
        finally:
            renewing += [self._hearing] if self._hearing else []
            for task in renewing:
                task.cancel()
            await asyncio.gather(*renewing, return_exceptions=True)
            if self._store is not None:
                await self._store.close()
        return self._code

    def stop(self) -> None:
        """Tells the children to stop; asked again, to stop at once."""
        self._signals += 1
        self._stopping.set()
        if self._signalled is not None:
            self._signalled(self._signals)
        for child in self._children:
            child.terminate(at_once=self._signals > 1)

    def look(self, by: float = 0.0) -> None:
        """Something is to be renewed by then: looks again, unless it will have by itself."""
        if by < self._next:
            self._wake.set()

    def took(self, terms: Terms) -> None:
        """A child has leases: one that was claimed before a cancel was heard may be the cancelled one."""
        self.look(0.0 if terms.renew_at - terms.ttl_seconds / 3 <= self._cancelled_at else terms.renew_at)

    def _cancelled(self) -> None:
        self._cancelled_at = boottime()
        self.look()

    def greeted(self, hello: Hello) -> None:
        self._cancel_grace = hello.cancel_grace
        if self._store is None:
            self._store = open_store(hello.url)
            self._hearing = asyncio.create_task(hear(self._store, self._cancelled))
        log.info("worker %s is at work", hello.worker)

    # Children

    def _name(self, place: int) -> str:
        return self._options.name if self._processes == 1 else f"{self._options.name}.{place + 1}"

    async def _keep_one(self, name: str) -> None:
        """One place: a child, and after it the next, under the same name."""
        wait, longest = RESTART_SECONDS
        while not self._stopping.is_set():
            child = await self._start(name)
            self._children.add(child)
            if self._stopping.is_set():  # told while the child was being started
                child.terminate(at_once=self._signals > 1)
            try:
                await self._outlive(child)
            finally:
                self._children.discard(child)
                child.deadlines.close()
            if child.process.returncode == MISUSED and child.hello is None:
                self._code = MISUSED
                self.stop()
                return
            lived = boottime() - child.started_at >= LIVED_SECONDS
            wait = RESTART_SECONDS[0] if lived else min(2 * wait, longest)
            if not self._stopping.is_set():
                log.warning("a worker process ended (%s); another starts in %.1f s", _ending(child), wait)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), wait * random.uniform(0.5, 1))

    async def _start(self, name: str) -> Child:
        ours, theirs = socket.socketpair()
        memory = Deadlines.create(self._options.slots)
        options = msgspec.structs.replace(
            self._options, name=name, python_path=os.environ.get(PATH), processes=self._processes
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tenure.engine.worker.supervisor.child",
            str(theirs.fileno()),
            str(memory),
            msgspec.json.encode(options).decode(),
            pass_fds=(theirs.fileno(), memory),
            env=environment(),
        )
        theirs.close()
        ours.setblocking(False)
        child = Child(process, ours, Deadlines(memory, self._options.slots))
        os.close(memory)
        return child

    async def _outlive(self, child: Child) -> None:
        """Until it is gone and everything it said was heard; then its jobs are seen to."""
        listening = asyncio.create_task(child.listen(self))
        stopping = asyncio.create_task(self._kill_if_it_hangs(child))
        try:
            await child.process.wait()
            child.hang_up()
            await listening
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
        child.stopped = child.stopped or (self._stopping.is_set() and child.process.returncode == 0)
        if child.held:
            await self._see_to(child)

    async def _kill_if_it_hangs(self, child: Child) -> None:
        await self._stopping.wait()
        await asyncio.sleep(self._stop_seconds)
        log.error("a worker process doesn't stop: it is killed")
        child.stopped = True
        with suppress(ProcessLookupError):
            child.process.kill()

    @property
    def _stop_seconds(self) -> float:
        return self._options.shutdown_grace + self._cancel_grace + STOP_SECONDS

    async def _see_to(self, child: Child) -> None:
        """Ends the leases of a process that is gone: nobody has to wait for them to run out."""
        left = [(held, outcome) for held in child.held.values() if (outcome := _left(child, held))]
        log.warning("%d jobs were in hand of a worker process that is gone (%s)", len(left), _ending(child))
        deadline, wait = boottime() + SETTLE_SECONDS, 0.1
        while left and self._store is not None and boottime() < deadline:
            try:
                await _settle(self._store, left[:MAX_BATCH])
                del left[:MAX_BATCH]
                continue
            except StoreError as error:
                log.warning("their leases couldn't be ended yet: %s", error)
            await asyncio.sleep(wait)
            wait = min(2 * wait, 2.0)

    # Leases

    async def _renew_loop(self) -> None:
        while True:
            self._wake.clear()
            now = boottime()
            due = [
                (child, held) for child in self._children for held in child.held.values() if self._due(held, now) <= now
            ]
            if due and self._store is not None:
                await self._renew(self._store, due[:MAX_BATCH])
                continue
            upcoming = min(
                (self._due(held, now) for child in self._children for held in child.held.values()), default=now + 5
            )
            self._next = min(now + 5.0, max(now + 0.01, upcoming))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._next - now)
            self._next = float("inf")  # while it looks, whoever comes has it look once more

    def _due(self, held: Held, now: float) -> float:
        """When a lease is next to be renewed; never again past its job's time, or when its holder was told to end."""
        if not held.kept or now >= held.terms.timeout_at:
            return float("inf")
        if held.asked_at <= self._cancelled_at:
            return 0.0
        return held.renew_at if held.progress is None else min(held.renew_at, held.progress_at)

    async def _renew(self, store: Store, due: list[tuple[Child, Held]]) -> None:
        renewals = [Renewal(held.token, held.progress) for _, held in due]
        sent = boottime()
        for _, held in due:
            held.progress, held.asked_at = None, sent
        try:
            replies = await store.renew(renewals)
        except Exception as error:  # whatever it is, a loop that ends would cost every lease
            if isinstance(error, StoreError):
                self._away.failed("renewals", error)
            else:
                log.warning("%d leases couldn't be renewed: %s", len(due), error)
            for (_, held), renewal in zip(due, renewals, strict=True):
                held.renew_at = held.progress_at = sent + min(1.0, held.terms.ttl_seconds / 10)
                if isinstance(error, StoreError):  # else it may be the progress that breaks it
                    held.progress = held.progress or renewal.progress
            return
        self._away.answered()
        for (child, held), reply in zip(due, replies, strict=True):
            self._note(child, held, reply, sent)

    @staticmethod
    def _note(child: Child, held: Held, reply: Renewed | Refused, sent: float) -> None:
        ttl = held.terms.ttl_seconds
        if isinstance(reply, Refused):
            ending = Ending.CANCELLED if isinstance(reply, JobCancelled) else Ending.LOST
            if held.generation in child.held:
                child.tell(held, ending, cancel=True)
            return
        child.deadlines.write(held.slot, held.generation, sent + ttl)
        held.renew_at = sent + ttl / 3
        if reply.cancel_requested and held.told is None:
            child.tell(held, Ending.REQUESTED, cancel=False)

    async def _watch_loop(self) -> None:
        """Ends a child that outlives a job's timeout, or the grace of one that was told to end."""
        while True:
            now = boottime()
            for child in self._children:
                for held in child.held.values():
                    if now >= held.terms.timeout_at + self._cancel_grace:
                        child.kill(held, Ending.TIMEOUT)
                    elif not held.kept and held.told is not None and now >= held.told[1] + self._cancel_grace:
                        child.kill(held, held.told[0])
            await asyncio.sleep(LOOK_SECONDS)


def _left(child: Child, held: Held) -> Outcome | None:
    """What becomes of a job whose process is gone."""
    terms = held.terms
    if child.guilty is None and not child.stopped:
        failure = Failure("Crashed", f"the worker process ended while the job ran ({_ending(child)})")
        return Retry(failure, terms.retry.delay(terms.attempt, random.uniform), "crashed")
    told = held.told[0] if held.told is not None else None
    if child.guilty == (held.generation, Ending.TIMEOUT):
        failure = Failure("Timeout", f"the handler hadn't ended after {terms.timeout / 1_000:g} s")
        return Retry(failure, terms.retry.delay(terms.attempt, random.uniform), "timeout")
    if told is Ending.LOST:
        return None
    if told is Ending.CANCELLED:
        return Release(reason="cancelled")
    return Release(reason="shutdown" if child.stopped else "restart")


async def _settle(store: Store, left: Sequence[tuple[Held, Outcome]]) -> None:
    replies = await store.settle([Settle(held.token, outcome) for held, outcome in left])
    for (held, outcome), reply in zip(left, replies, strict=True):
        if isinstance(reply, Settled):
            log_end(held.attempt, outcome, reply.state)


def _ending(child: Child) -> str:
    code = child.process.returncode
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
