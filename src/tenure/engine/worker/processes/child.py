"""The main program of a handler's process: `python -m tenure.engine.worker.processes.child LINE`.

The handler runs in the main thread, so that a signal or a limit ends it and nothing else; a second thread listens for
the word to stop.
"""

import asyncio
import contextvars
import importlib
import inspect
import os
import resource
import signal
import socket
import sys
import threading
from contextlib import AbstractAsyncContextManager
from types import NoneType
from typing import Any

from tenure.domain.errors import InvalidValue, NotReady
from tenure.engine.app import Tenure
from tenure.engine.context import CURRENT, Context
from tenure.engine.definition import Definition
from tenure.engine.durations import Seconds, milliseconds
from tenure.engine.signals import Fail, InvalidResult, Retry, Snooze, Stopped, text_of
from tenure.engine.signature import of_result
from tenure.engine.worker.forks import forks, leave_if_forked
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
from tenure.engine.worker.tracebacks import traceback_of

MOST_TEXT = 4_000
"""Characters of an error's message that are told."""


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
            part = self._some(length - len(body))
            if not part:
                os._exit(0)
            body += part
        return body

    def _some(self, most: int) -> bytes:
        try:
            return self._line.recv(most)
        except ConnectionResetError:  # its end was closed with something unread in it, as when the worker is killed
            return b""


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
        self._forks = forks()

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
                self._stop(message)

    def _stop(self, message: Stop) -> None:
        self._line.say(Stopping())
        context, task = self._context, self._task
        if context is None:
            return
        if task is None:
            context.cancelled.set(message.reason)
            return
        self._loop.call_soon_threadsafe(context.cancelled.set, message.reason)
        if message.cancel:
            self._loop.call_soon_threadsafe(task.cancel)

    def _answer(self, run: Run) -> FromChild:
        """Whatever happens is an answer. What the handler leaves in context variables goes with it."""
        try:
            return contextvars.copy_context().run(self._run, run)
        except BaseException as error:
            return raised(error, told=self._context is not None and self._context.cancelled.is_set())
        finally:
            leave_if_forked(self._forks)
            self._context = self._task = None

    def _run(self, run: Run) -> FromChild:
        try:
            definition, app = find(run)
        except (InvalidValue, NotReady) as error:
            return Raised("fail", "NotRunnable", str(error), Fail.reason)
        context = self._context = Context(
            app,
            run.claimed,
            self._state(app),
            lambda progress: self._line.say(Said(progress.fraction, progress.message)),
        )
        CURRENT.set(context)
        arguments = definition.signature.decode(run.claimed.payload, app.codecs.get(run.claimed.job.spec.codec))
        before = limit(run.limits)
        try:
            value = self._call(definition, context, arguments)
        finally:
            for kind, limits in before:
                resource.setrlimit(kind, limits)
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


def find(run: Run) -> tuple[Definition[Any, Any], Tenure]:
    """The job type and its app, as the worker has them; else where the function was declared."""
    if run.app:
        module, _, attribute = run.app.partition(":")
        app = getattr(importlib.import_module(module), attribute, None)
        if isinstance(app, Tenure) and run.job_type in app.definitions:
            return app.definitions[run.job_type], app
    for value in vars(importlib.import_module(run.module)).values():
        if isinstance(value, Definition) and value.name == run.job_type:
            return value, value.app
        if isinstance(value, Tenure) and run.job_type in value.definitions:
            return value.definitions[run.job_type], value
    raise NotReady(f"job {run.job_type} isn't found in module {run.module}: declare it at the module's top level")


def limit(limits: Limits) -> list[tuple[int, tuple[int, int]]]:
    """Sets the limits; answers what they were."""
    before = []
    if limits.memory_bytes is not None:
        before.append(_set(resource.RLIMIT_AS, _used_bytes() + limits.memory_bytes))
    if limits.cpu_seconds is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        before.append(_set(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + limits.cpu_seconds) + 1))
    return before


def _set(kind: int, most: int) -> tuple[int, tuple[int, int]]:
    """Sets a limit, or leaves a lower one that the process was started with."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    return kind, (soft, hard)


def _used_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def returned(definition: Definition[Any, Any], app: Tenure, context: Context, value: Any) -> FromChild:
    if value is None and definition.signature.result_type is NoneType:
        return Returned(None, "json", context.carried)
    name = definition.declared.get("result_codec", "json")
    try:
        body = definition.signature.encode_result(value, app.codecs.get(name))
    except Exception as error:  # a codec of one's own may raise anything
        message = f"the result of {definition.name} can't be kept: {sendable(of_result(error)[:MOST_TEXT])}"
        return Raised("fail", InvalidResult.__name__, message, InvalidResult.reason, traceback=traceback_of(error))
    return Returned(body, name, context.carried)


def raised(error: BaseException, *, told: bool) -> Raised:
    """What a handler raised. Nobody but who told it to end may break it off: else its cancellation is an error."""
    family, message = sendable(type(error).__name__), sendable(text_of(error)[:MOST_TEXT])
    try:
        match error:
            case Fail():
                return Raised("fail", family, message, error.reason, traceback=traceback_of(error))
            case Retry():
                after = _seconds(error.after)
                return Raised("retry", family, message, after_seconds=after, traceback=traceback_of(error))
            case Snooze():
                return Raised("snooze", family, message, after_seconds=_seconds(error.after))
            case Stopped():
                return Raised("stopped", family, message, traceback=traceback_of(error))
            case asyncio.CancelledError() if told:
                return Raised("stopped", family, message, traceback=traceback_of(error))
    except InvalidValue as wrong:
        return Raised("error", "InvalidError", f"{family} can't be kept: {wrong}")
    return Raised("error", family, message, traceback=traceback_of(error))


def _seconds(after: Seconds | None) -> float | None:
    return None if after is None else milliseconds("after", after) / 1_000


def sendable(text: str) -> str:
    """A text as UTF-8 can carry it."""
    return text.encode(errors="replace").decode()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everyone; the worker says what is to end
    Server(Line(socket.socket(fileno=int(sys.argv[1])))).serve()
