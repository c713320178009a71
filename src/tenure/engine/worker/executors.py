"""Where a handler runs: on the worker's loop, in a thread, or in a process."""

import asyncio
import contextvars
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
    """In a thread of its own. A thread can't be stopped: it is told by `ctx.cancelled`, and waited for."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "tenure-job")

    async def execute(self, hand: Hand, arguments: dict[str, Any]) -> Any:
        definition = hand.definition
        first = (hand.context,) if definition.signature.takes_context else ()
        variables, since = contextvars.copy_context(), forks()
        running = asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: variables.run(_contained, since, lambda: definition.function(*first, **arguments))
        )
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        return running.result()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


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

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.close()
        if self._processes is not None:
            await self._processes.close()
