"""The worker's side: a few warm processes. One that is told to end and doesn't is killed, with what it runs."""

import asyncio
import contextvars
import logging
import signal
import socket
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.domain.calls import ClaimedJob
from tenure.domain.job import Token
from tenure.engine.context import Context
from tenure.engine.definition import Definition
from tenure.engine.importing import environment
from tenure.engine.signals import Fail, Retry, Signal, Snooze, Stopped
from tenure.engine.worker.frames import frame, read_body
from tenure.engine.worker.hand import Hand
from tenure.engine.worker.processes.wire import (
    FromChild,
    Limits,
    Raised,
    Ready,
    Returned,
    Run,
    Said,
    Stop,
    ToChild,
    encode,
    from_child,
)
from tenure.engine.worker.tracebacks import Elsewhere

if TYPE_CHECKING:
    from tenure.engine.app import Tenure

log = logging.getLogger("tenure.worker")


class HandlerError(Exception):
    """What a handler raised in its process."""

    def __init__(self, family: str, message: str) -> None:
        super().__init__(message)
        self.family = family


class ProcessDied(Exception):
    """The process ended while the handler ran."""


class Process:
    """One process and the line to it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._ending = asyncio.create_task(self._hang_up(), name="tenure-process-ending")

    @classmethod
    async def start(cls) -> "Process":
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tenure.engine.worker.processes.child",
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                env=environment(),
            )
            ours.setblocking(False)
            started = cls(process, *await asyncio.open_connection(sock=ours.dup()))
        try:
            if not isinstance(await started.hear(), Ready):
                raise started.died()
        except BaseException:
            await asyncio.shield(started.kill())
            raise
        return started

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def say(self, message: ToChild) -> None:
        self._writer.write(frame(encode(message)))

    async def hear(self) -> FromChild | None:
        body = await read_body(self._reader)
        if body is None:
            await self._process.wait()
            return None
        return from_child(body)

    def died(self) -> ProcessDied:
        code = self._process.returncode or 0
        how = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
        return ProcessDied(f"the handler's process ended while it ran ({how})")

    async def _hang_up(self) -> None:
        """Once it is gone: what it said is still heard, and nobody who has its line by a fork is waited for."""
        await self._process.wait()
        with suppress(OSError):
            self._writer.get_extra_info("socket").shutdown(socket.SHUT_RD)

    async def kill(self) -> None:
        self._writer.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        await asyncio.shield(self._ending)


class Processes:
    """Runs handlers in up to `most` processes, kept warm for the next."""

    def __init__(self, most: int, cancel_grace: float) -> None:
        self._room = asyncio.Semaphore(most)
        self._warm: list[Process] = []
        self._busy: set[Process] = set()
        self._cancel_grace = cancel_grace
        self._places: dict[Tenure, str] = {}

    async def execute(self, hand: Hand, _: dict[str, Any]) -> Returned:
        """What the handler returned, encoded. Raises what it raised, or `ProcessDied`."""
        definition, context = hand.definition, hand.context
        module = definition.function.__module__
        if context is None or module == "__main__":
            raise Fail(f"job {definition.name} is declared in __main__, where no other process finds it: use a module")
        limits, claimed = limits_of(definition), _without_secret(hand.claimed)
        run = Run(self._place_of(context.app), module, definition.name, claimed, limits)
        async with self._room:
            answer = await self._answer(await self._process(), run, context)
        if isinstance(answer, Raised):
            raise _as_raised(answer)
        return answer

    def _place_of(self, app: "Tenure") -> str:
        if app not in self._places:
            self._places[app] = place_of(app)
        return self._places[app]

    async def _process(self) -> Process:
        while self._warm:
            process = self._warm.pop()
            if process.alive:
                return process
            await process.kill()
        # In an empty context: it outlives the job that first needs it, and would keep all of that job's context.
        return await asyncio.create_task(Process.start(), name="tenure-process-start", context=contextvars.Context())

    async def _answer(self, process: Process, run: Run, context: Context) -> Returned | Raised:
        """What came of a handler. A process that gave no answer isn't used again: it may still be at work."""
        process.say(run)
        self._busy.add(process)
        hearing = asyncio.create_task(_heard(process, context), name="tenure-process")
        passing_on = asyncio.create_task(_pass_on(process, context), name="tenure-process-told")
        try:
            answer = await self._ended(process, hearing, context)
            self._warm.append(process)
            return answer
        finally:
            passing_on.cancel()
            self._busy.discard(process)
            if process not in self._warm:
                await _insist(process.kill())

    async def _ended(
        self, process: Process, hearing: "asyncio.Task[Returned | Raised]", context: Context
    ) -> Returned | Raised:
        """Waits for the answer. Cancelled, it has the handler broken off, and kills it after the grace."""
        try:
            return await asyncio.shield(hearing)
        except asyncio.CancelledError:
            process.say(Stop(context.cancelled.reason or "stopped", cancel=True))
            if not await _in_time(hearing, self._cancel_grace):
                log.warning("a handler's process didn't stop in %.1f s: it is killed", self._cancel_grace)
                await _insist(process.kill())
                await _insist(hearing)
            if hearing.exception() is not None:
                raise
            return hearing.result()

    async def close(self) -> None:
        """Ends them all, with what they run."""
        await asyncio.gather(*(process.kill() for process in (*self._warm, *self._busy)))


async def _heard(process: Process, context: Context) -> Returned | Raised:
    """The answer of a process. Raises `ProcessDied` when there will be none."""
    while True:
        message = await process.hear()
        match message:
            case None:
                raise process.died()
            case Said():
                context.report(message.fraction, message.message)
            case Returned() | Raised():
                return message


async def _pass_on(process: Process, context: Context) -> None:
    """Tells a handler that it should end, as it is told elsewhere by its context."""
    reason = await context.cancelled.wait()
    process.say(Stop(reason or "stopped", cancel=False))


async def _in_time(work: "asyncio.Task[Any]", seconds: float) -> bool:
    """Whether it ended in time. Whoever cancels meanwhile is told nothing new."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not work.done() and (left := deadline - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([work], timeout=left)
    return work.done()


async def _insist(work: Awaitable[Any]) -> None:
    """Waits to the end, however often it is cancelled."""
    going = asyncio.ensure_future(work)
    while not going.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([going])


def place_of(app: "Tenure") -> str:
    """MODULE:ATTRIBUTE by which another process finds an app; empty when no module has it."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is app and name != "__main__":
                return f"{name}:{attribute}"
    return ""


def _without_secret(claimed: ClaimedJob) -> ClaimedJob:
    token = claimed.token
    return msgspec.structs.replace(claimed, token=Token(token.tenant, token.job_id, token.lease_seq, b""))


def limits_of(definition: Definition[Any, Any]) -> Limits:
    """What the job type was declared with."""
    memory, cpu = definition.limits
    return Limits(None if memory is None else memory * 1024 * 1024, cpu)


def _as_raised(raised: Raised) -> BaseException:
    error = _of_kind(raised)
    if isinstance(error, Signal):
        error.family = raised.family
    if raised.traceback is not None:
        error.__cause__ = Elsewhere(raised.traceback)
    return error


def _of_kind(raised: Raised) -> BaseException:
    match raised.kind:
        case "fail":
            fail = Fail(raised.message)
            fail.reason = raised.reason
            return fail
        case "retry":
            return Retry(raised.message, after=raised.after_seconds)
        case "snooze":
            return Snooze(raised.message, after=raised.after_seconds or 0)
        case "stopped":
            return Stopped(raised.message)
    return HandlerError(raised.family, raised.message)
