"""The main program of a handler's process: `python -m tenure.engine.worker.processes.child LINE`.

The handler runs in the main thread, so that a signal or a limit ends it and nothing else; a second thread listens for
the word to stop.
"""

import asyncio
import importlib
import inspect
import os
import resource
import socket
import sys
import threading
import traceback
from contextlib import AbstractAsyncContextManager, suppress
from types import NoneType
from typing import Any

from tenure.domain.errors import InvalidValue, NotReady
from tenure.engine.app import Tenure
from tenure.engine.context import Context
from tenure.engine.definition import Definition
from tenure.engine.durations import milliseconds
from tenure.engine.signals import Fail, Retry, Snooze, Stopped
from tenure.engine.worker.frames import LENGTH, frame
from tenure.engine.worker.processes.wire import (
    FromChild,
    Limits,
    Raised,
    Ready,
    Returned,
    Run,
    Said,
    Stop,
    Stopping,
    ToChild,
    encode,
    to_child,
)


class Line:
    """The way to the worker. The worker's end of it closing ends this process."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()

    def say(self, message: FromChild) -> None:
        with self._lock:
            self._line.sendall(frame(encode(message)))

    def hear(self) -> ToChild:
        length = LENGTH.unpack(self._exactly(LENGTH.size))[0]
        return to_child(self._exactly(length))

    def _exactly(self, length: int) -> bytes:
        body = b""
        while len(body) < length:
            part = self._line.recv(length - len(body))
            if not part:
                os._exit(0)
            body += part
        return body


class Server:
    """Runs one handler after the other."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._loop = asyncio.new_event_loop()
        self._states: dict[int, tuple[AbstractAsyncContextManager[Any], Any]] = {}
        self._context: Context | None = None
        self._task: asyncio.Task[Any] | None = None
        self._next = threading.Semaphore(0)
        self._asked: Run | None = None

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="tenure-line", daemon=True).start()
        self._line.say(Ready())
        while True:
            self._next.acquire()
            if self._asked is not None:
                self._line.say(self._answer(self._asked))

    def _listen(self) -> None:
        while True:
            message = self._line.hear()
            if isinstance(message, Run):
                self._asked = message
                self._next.release()
            elif isinstance(message, Stop):
                self._stop(message.reason)

    def _stop(self, reason: str) -> None:
        self._line.say(Stopping())
        context, task = self._context, self._task
        if context is not None:
            self._loop.call_soon_threadsafe(context.cancelled.set, reason)
            context.cancelled.set(reason)
        if task is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(task.cancel)

    def _answer(self, run: Run) -> FromChild:
        try:
            definition, app = find(run.module, run.job_type)
            limited = limit(run.limits)
        except (InvalidValue, NotReady) as error:
            return Raised("fail", "NotRunnable", str(error))
        try:
            return self._run(definition, app, run)
        finally:
            self._context = self._task = None
            for kind, before in limited:
                resource.setrlimit(kind, before)

    def _run(self, definition: Definition[Any, Any], app: Tenure, run: Run) -> FromChild:
        claimed = run.claimed
        context = self._context = Context(
            app, claimed, self._state(app), lambda progress: self._line.say(Said(progress.fraction, progress.message))
        )
        try:
            codec = app.codecs.get(claimed.job.spec.codec)
            arguments = definition.signature.decode(claimed.payload, codec)
            value = self._call(definition, context, arguments)
        except BaseException as error:
            return raised(error)
        return returned(definition, app, context, value)

    def _call(self, definition: Definition[Any, Any], context: Context, arguments: dict[str, Any]) -> Any:
        first = (context,) if definition.signature.takes_context else ()
        if not inspect.iscoroutinefunction(definition.function):
            return definition.function(*first, **arguments)
        self._task = self._loop.create_task(definition.function(*first, **arguments))
        return self._loop.run_until_complete(self._task)

    def _state(self, app: Tenure) -> Any:
        """What the app's lifespan gives; entered once, left to the end of the process."""
        if id(app) not in self._states:
            manager = app.state()
            self._states[id(app)] = (manager, self._loop.run_until_complete(manager.__aenter__()))
        return self._states[id(app)][1]


def find(module_name: str, job_type: str) -> tuple[Definition[Any, Any], Tenure]:
    """The job type, where its function was declared."""
    module = importlib.import_module(module_name)
    for value in vars(module).values():
        if isinstance(value, Definition) and value.name == job_type:
            return value, value.app
    for value in vars(module).values():
        if isinstance(value, Tenure) and job_type in value.definitions:
            return value.definitions[job_type], value
    raise NotReady(f"job {job_type} isn't found in module {module_name}: declare it at the module's top level")


def limit(limits: Limits) -> list[tuple[int, tuple[int, int]]]:
    """Sets the limits; answers what they were."""
    before = []
    if limits.memory_bytes is not None:
        before.append((resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS)))
        resource.setrlimit(resource.RLIMIT_AS, (_used_bytes() + limits.memory_bytes, before[-1][1][1]))
    if limits.cpu_seconds is not None:
        before.append((resource.RLIMIT_CPU, resource.getrlimit(resource.RLIMIT_CPU)))
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + limits.cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, before[-1][1][1]))
    return before


def _used_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def returned(definition: Definition[Any, Any], app: Tenure, context: Context, value: Any) -> FromChild:
    if value is None and definition.signature.result_type is NoneType:
        return Returned(None, "json", context.carried)
    name = definition.declared.get("result_codec", "json")
    try:
        body = app.codecs.get(name).encode(value)
    except InvalidValue as error:
        return Raised("invalid_result", "InvalidResult", f"the result of {definition.name} can't be kept: {error}")
    return Returned(body, name, context.carried)


def raised(error: BaseException) -> Raised:
    family, message = type(error).__name__, str(error)
    after: Any = getattr(error, "after", None)
    seconds = None if after is None else milliseconds("after", after) / 1_000
    match error:
        case Fail():
            return Raised("fail", family, message)
        case Retry():
            return Raised("retry", family, message, seconds)
        case Snooze():
            return Raised("snooze", family, message, seconds)
        case Stopped() | asyncio.CancelledError():
            return Raised("stopped", family, message)
    return Raised("error", family, message, trace="".join(traceback.format_exception(error))[-4_000:])


if __name__ == "__main__":
    Server(Line(socket.socket(fileno=int(sys.argv[1])))).serve()
