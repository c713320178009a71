"""The connections of one event loop, for the calls that run on it as fibers."""

import asyncio
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from tenure.stores import fibers
from tenure.stores.fibers import Signal, Turn, waited
from tenure.stores.sql.postgres.connection import Server, still_there
from tenure.stores.sql.postgres.dial import Dial
from tenure.stores.sql.postgres.lending import Connected
from tenure.stores.sql.postgres.loop_runner import LoopRunner
from tenure.stores.sql.postgres.place import Place, Severed


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

    def turn(self) -> Turn:
        """Waits until every turn that was taken before this one has ended."""
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


def of_this_call() -> LoopConnections | None:
    """The event loop's connections that the current fiber may use; None in a thread, or if the call brings its own."""
    fiber = fibers.current()
    found = None if fiber is None else fiber.resources
    return found if isinstance(found, LoopConnections) else None
