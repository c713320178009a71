"""The worker's side: a few warm processes. One that is told to end and doesn't is killed, with what it runs."""

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import msgspec

from tenure.domain.calls import ClaimedJob
from tenure.domain.job import Token
from tenure.engine.context import Context
from tenure.engine.definition import Definition
from tenure.engine.signals import Fail, InvalidResult, Retry, Snooze, Stopped
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

    @classmethod
    async def start(cls) -> "Process":
        ours, theirs = socket.socketpair()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tenure.engine.worker.processes.child",
            str(theirs.fileno()),
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        )
        theirs.close()
        ours.setblocking(False)
        started = cls(process, *await asyncio.open_connection(sock=ours))
        if not isinstance(await started.hear(), Ready):
            raise started.died()
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

    async def kill(self) -> None:
        self._writer.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class Processes:
    """Runs handlers in up to `most` processes, kept warm for the next."""

    def __init__(self, most: int, cancel_grace: float) -> None:
        self._room = asyncio.Semaphore(most)
        self._warm: list[Process] = []
        self._cancel_grace = cancel_grace

    async def execute(self, hand: Hand, _: dict[str, Any]) -> Returned:
        """What the handler returned, encoded. Raises what it raised, or `ProcessDied`."""
        definition, context = hand.definition, hand.context
        module = definition.function.__module__
        if context is None or module == "__main__":
            raise Fail(f"job {definition.name} is declared in __main__, where no other process finds it: use a module")
        async with self._room:
            process = await self._process()
            try:
                process.say(Run(module, definition.name, _without_secret(hand.claimed), limits_of(definition)))
                return await self._answer(process, context)
            finally:
                await self._put_back(process)

    async def _process(self) -> Process:
        while self._warm:
            process = self._warm.pop()
            if process.alive:
                return process
        return await Process.start()

    async def _put_back(self, process: Process) -> None:
        if process.alive:
            self._warm.append(process)
        else:
            await asyncio.shield(process.kill())

    async def _answer(self, process: Process, context: Context) -> Returned:
        hearing = asyncio.ensure_future(self._ending(process, context))
        try:
            return await asyncio.shield(hearing)
        except asyncio.CancelledError:
            process.say(Stop(context.cancelled.reason or "stopped"))
            done, _ = await asyncio.wait([hearing], timeout=self._cancel_grace)
            if not done:
                log.warning("a handler's process didn't stop in %.1f s: it is killed", self._cancel_grace)
                await process.kill()
                await asyncio.wait([hearing])
            with suppress(Exception, Stopped):
                hearing.result()
            raise

    async def _ending(self, process: Process, context: Context) -> Returned:
        while True:
            message = await process.hear()
            match message:
                case None:
                    raise process.died()
                case Said():
                    context.report(message.fraction, message.message)
                case Returned():
                    return message
                case Raised():
                    raise _as_raised(message)

    async def close(self) -> None:
        await asyncio.gather(*(process.kill() for process in self._warm))


def _without_secret(claimed: ClaimedJob) -> ClaimedJob:
    token = claimed.token
    return msgspec.structs.replace(claimed, token=Token(token.tenant, token.job_id, token.lease_seq, b""))


def limits_of(definition: Definition[Any, Any]) -> Limits:
    """What the job type was declared with."""
    memory, cpu = definition.limits
    return Limits(None if memory is None else memory * 1024 * 1024, cpu)


def _as_raised(raised: Raised) -> BaseException:
    match raised.kind:
        case "fail":
            return Fail(raised.message)
        case "retry":
            return Retry(raised.message, after=raised.after_seconds)
        case "snooze":
            return Snooze(raised.message, after=raised.after_seconds or 0)
        case "stopped":
            return Stopped(raised.message)
        case "invalid_result":
            return InvalidResult(raised.message)
    if raised.trace:
        log.info("a handler failed in its process:\n%s", raised.trace)
    return HandlerError(raised.family, raised.message)
