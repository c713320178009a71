"""Calls on the event loop itself: plain code in a greenlet, which lets the loop go on while the server works.

In a thread of its own a call and the loop fight for the interpreter: whoever has its answer waits up to 5 ms for it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from tenure.stores.sql.postgres.connection import Server, still_there
from tenure.stores.sql.postgres.dial import Dial
from tenure.stores.sql.postgres.lending import Connected
from tenure.stores.sql.postgres.loop_runner import LoopRunner
from tenure.stores.sql.postgres.place import Place, Severed

T = TypeVar("T")


class Fiber(greenlet):
    """A call, and the loop's connections that it may use; None if it brings one."""

    def __init__(self, what: Callable[..., Any], connections: "LoopConnections | None") -> None:
        super().__init__(what)
        self.connections = connections


def current() -> Fiber | None:
    """The call that this code belongs to, if that runs on an event loop."""
    found = getcurrent()
    return found if isinstance(found, Fiber) else None


class Signal:
    """What a fiber waits for that goes on at once when it is told to, not in the loop's next turn."""

    def __init__(self) -> None:
        self.then: Callable[[BaseException | None], None] | None = None
        """What the fiber is told by."""

    def fire(self, error: BaseException | None = None) -> None:
        """Lets the fiber go on, once."""
        then, self.then = self.then, None
        if then is not None:
            then(error)


def waited(awaitable: "Awaitable[T] | Signal") -> T:
    """What an awaitable gives, for code in a fiber."""
    loop = getcurrent().parent
    if loop is None:
        raise AssertionError("only a fiber can wait so")
    answer: T = loop.switch(awaitable)
    return answer


def pause(seconds: float) -> None:
    """Sleeps, wherever the code runs."""
    if current() is None:
        time.sleep(seconds)
    else:
        waited(asyncio.sleep(seconds))


def start(connections: "LoopConnections | None", what: Callable[..., T], *values: Any) -> "asyncio.Future[T]":
    """Runs plain code as a fiber of this loop. It begins at once, and goes to its end whoever waits."""
    fiber = Fiber(what, connections)
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
        future.add_done_callback(lambda awaited: _go_on(fiber, answer, lambda: _told(fiber, awaited)))


def _told(fiber: Fiber, awaited: "asyncio.Future[Any]") -> Any:
    """Tells a fiber what it waited for."""
    try:
        value = awaited.result()
    except BaseException as error:
        return fiber.throw(error)
    return fiber.switch(value)


class Turn:
    """A place in a line of fibers."""

    def __init__(self, line: "deque[Turn]", loop: asyncio.AbstractEventLoop) -> None:
        self._line = line
        self._loop = loop
        self._ended = False
        self.signal = Signal()

    def end(self) -> None:
        """Lets the next one go on; again, it does nothing."""
        if not self._ended:
            self._ended = True
            self._line.popleft()
            if self._line:
                self._loop.call_soon(self._line[0].signal.fire)


class LoopConnections:
    """The connections of one event loop, opened as they are needed, and kept."""

    def __init__(self, server: Server, place: Place, threads: Executor, own: dict[int, int]) -> None:
        self._dial = Dial(server.connect, threads)
        self._own = own
        """Where the server's processes that serve this one are noted, by their connections."""
        self._place = place
        self.loop = asyncio.get_running_loop()
        self._room = server.connections
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[Connected] = []
        self._lent: dict[int, Connected] = {}
        self._left = False
        self._turns: deque[Turn] = deque()

    @contextmanager
    def lent(self) -> Iterator[Connected]:
        while not self._room:
            turn = self.loop.create_future()
            self._waiting.append(turn)
            waited(turn)
        self._room -= 1
        tables: Connected | None = None
        try:
            tables = self._out(self._idle.pop() if self._idle else self._connected())
            if not still_there(tables.connection):
                raise Severed(committing=False)
            yield tables
        finally:
            if tables is not None:
                tables.end()
            self.give_back(tables)

    def borrow(self) -> Connected | None:
        """A connection that is open and free, for whoever gives it back; None if there is none at once."""
        if not self._room or not self._idle:
            return None
        self._room -= 1
        return self._out(self._idle.pop())

    def _out(self, tables: Connected) -> Connected:
        self._lent[id(tables)] = tables
        return tables

    def give_back(self, tables: Connected | None) -> None:
        """Somebody else may have it. None: none could be had."""
        if tables is not None:
            self._lent.pop(id(tables), None)
            if self._left:
                tables.connection.close()
            if tables.connection.closed:
                self._own.pop(id(tables), None)
            else:
                self._idle.append(tables)
        self._room += 1
        if self._waiting:
            self._waiting.popleft().set_result(None)

    def _connected(self) -> Connected:
        waited(self._dial.start(self.loop))
        connection = self._dial.take()
        tables = Connected(LoopRunner(connection, self.loop, Signal, waited), self._place, guest=False)
        self._own[id(tables)] = connection.info.backend_pid
        return tables

    def turn(self) -> "Turn":
        """Waits until everybody who came before has ended their turn."""
        turn = Turn(self._turns, self.loop)
        self._turns.append(turn)
        if self._turns[0] is not turn:
            waited(turn.signal)
        return turn

    def hang_up(self) -> None:
        """Closes those that nobody has."""
        idle, self._idle = self._idle, []
        for tables in idle:
            tables.connection.close()
            self._own.pop(id(tables), None)

    def leave(self) -> None:
        """Closes all, each when it is given back; on a loop that doesn't run any more, none will be."""
        self._left = True
        if not self.loop.is_running():
            self._dial.close()
            self._idle += self._lent.values()
            self._lent.clear()
        self.hang_up()
