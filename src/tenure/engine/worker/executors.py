"""Where a handler runs: on the worker's loop, in a thread, or in a process."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from tenure.engine.settings import Settings
from tenure.engine.worker.forks import forks, leave_if_forked
from tenure.engine.worker.hand import Hand
from tenure.engine.worker.processes.pool import Processes

Execute = Callable[[Hand, dict[str, Any]], Awaitable[Any]]
"""Runs a job's handler with its arguments. Cancelled, it returns only when the handler has really ended."""


def inline(hand: Hand, arguments: dict[str, Any]) -> Awaitable[Any]:
    """On the worker's loop. Stopped by cancelling its task; one that catches that goes on."""
    definition = hand.definition
    running: Awaitable[Any] = (
        definition.function(hand.context, **arguments)
        if definition.signature.takes_context
        else definition.function(**arguments)
    )
    return running


class Threads:
    """In a thread of its own. A thread can't be stopped: it is told by `ctx.cancelled`, and waited for.

    The threads are daemons, which no pool of Python's has: one that never ends doesn't keep the process from ending.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._running: set[asyncio.Future[Any]] = set()

    async def execute(self, hand: Hand, arguments: dict[str, Any]) -> Any:
        definition = hand.definition
        first = (hand.context,) if definition.signature.takes_context else ()
        variables, since = contextvars.copy_context(), forks()
        running = asyncio.wrap_future(
            self._submit(lambda: variables.run(_contained, since, lambda: definition.function(*first, **arguments)))
        )
        self._running.add(running)
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        self._running.discard(running)
        return running.result()

    def _submit(self, function: Callable[[], Any]) -> "Future[Any]":
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            threading.Thread(target=self._serve, name=f"tenure-job-{self._started}", daemon=True).start()
            self._started += 1
        future: Future[Any] = Future()
        self._work.put((future, function))
        return future

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            _fulfil(*work)
            del work  # an idle thread keeps nothing of the last job
            self._idle.release()

    def close(self) -> None:
        """Waits for nobody: a handler that hasn't ended is left to itself."""
        for running in tuple(self._running):
            running.cancel()
        for _ in range(self._started):
            self._work.put(None)


def _fulfil(future: "Future[Any]", function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


def _contained(since: int, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("the handler raised StopIteration") from error  # no future can carry it
    finally:
        leave_if_forked(since)


class Executors:
    """The executors of one worker, made when first used."""

    def __init__(self, concurrency: int, settings: Settings) -> None:
        self._concurrency = concurrency
        self._settings = settings
        self._threads: Threads | None = None
        self._processes: Processes | None = None

    def of(self, name: str) -> Execute:
        match name:
            case "inline":
                return inline
            case "thread":
                self._threads = self._threads or Threads(self._concurrency)
                return self._threads.execute
            case "process":
                if self._processes is None:
                    most = self._settings.pool or os.cpu_count() or 1
                    self._processes = Processes(most, self._settings.cancel_grace)
                return self._processes.execute
        raise AssertionError(f"there is no executor {name!r}")

    async def kill(self) -> None:
        """Ends by force what can be ended so."""
        if self._processes is not None:
            await self._processes.close()

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.close()
        await self.kill()
