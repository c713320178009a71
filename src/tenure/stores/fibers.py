"""A bridge from plain code to an event loop: the code runs in a greenlet, which suspends while it awaits something.

The model is plain code, and a client library may be asynchronous. In a thread of its own a call and the loop compete
for the interpreter: the one whose answer has arrived waits up to 5 ms for it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class Fiber(greenlet):
    """A call that runs in a greenlet of its own, and the resources that its caller gave it."""

    def __init__(self, what: Callable[..., Any], resources: object) -> None:
        super().__init__(what)
        self.resources = resources


def current() -> Fiber | None:
    """The fiber in which the calling code runs; None outside of any."""
    found = getcurrent()
    return found if isinstance(found, Fiber) else None


class Signal:
    """An awaitable that resumes its fiber at once when it is fired, not in the loop's next iteration."""

    def __init__(self) -> None:
        self.then: Callable[[BaseException | None], None] | None = None
        """Resumes the fiber that waits; None while none does."""

    def fire(self, error: BaseException | None = None) -> None:
        """Resumes the fiber, once; with an error, which is raised in it."""
        then, self.then = self.then, None
        if then is not None:
            then(error)


def waited(awaitable: "Awaitable[T] | Signal") -> T:
    """The result of an awaitable, for code in a fiber, which is suspended until then."""
    loop = getcurrent().parent
    if loop is None:
        raise AssertionError("only a fiber can wait so")
    answer: T = loop.switch(awaitable)
    return answer


def pause(seconds: float) -> None:
    """Sleeps: in a fiber without blocking the loop, elsewhere the thread."""
    if current() is None:
        time.sleep(seconds)
    else:
        waited(asyncio.sleep(seconds))


def start(resources: object, what: Callable[..., T], *values: Any) -> "asyncio.Future[T]":
    """Runs plain code as a fiber of the running loop. It begins at once, and runs to its end even if the caller is
    cancelled.
    """
    fiber = Fiber(what, resources)
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    _go_on(fiber, answer, lambda: fiber.switch(*values))
    return answer


def _go_on(fiber: Fiber, answer: "asyncio.Future[T]", step: Callable[[], Any]) -> None:
    """Runs a fiber until it waits, or ends."""
    try:
        given = step()
    except BaseException as error:
        if not answer.done():
            answer.set_exception(error)
        if not isinstance(error, Exception | asyncio.CancelledError):
            raise
        return
    if fiber.dead:
        if not answer.done():
            answer.set_result(given)
        return
    if isinstance(given, Signal):
        given.then = lambda error: _go_on(fiber, answer, lambda: fiber.throw(error) if error else fiber.switch())
    else:
        future = asyncio.ensure_future(given)
        future.add_done_callback(lambda awaited: _go_on(fiber, answer, lambda: _resume(fiber, awaited)))


def _resume(fiber: Fiber, awaited: "asyncio.Future[Any]") -> Any:
    """Passes the result of an awaitable, or its exception, to the fiber that waited for it."""
    try:
        value = awaited.result()
    except BaseException as error:
        return fiber.throw(error)
    return fiber.switch(value)


class Turn:
    """A place in a line of fibers, which go on one after the other."""

    def __init__(self, line: "deque[Turn]", loop: asyncio.AbstractEventLoop) -> None:
        self._line = line
        self._loop = loop
        self._ended = False
        self.signal = Signal()

    def end(self) -> None:
        """Resumes the next fiber of the line; a second call does nothing."""
        if not self._ended:
            self._ended = True
            self._line.popleft()
            if self._line:
                self._loop.call_soon(self._line[0].signal.fire)
