"""Statements straight through libpq, for code that waits on an event loop."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from psycopg import Connection, pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from tenure.stores.sql.postgres import patience
from tenure.stores.sql.postgres.arrays import wire
from tenure.stores.sql.postgres.patience import PatientConnection
from tenure.stores.sql.postgres.runners import BinaryColumns
from tenure.stores.sql.rows import Row

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

_BINARY = pq.Format.BINARY
_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Signal(Protocol):
    """What waiting code is told by that it may go on."""

    def fire(self, error: BaseException | None = None) -> None: ...


class LoopAnswer:
    """What a statement found, read when it is asked for."""

    def __init__(self, runner: "LoopRunner", prepares: str | None) -> None:
        self._runner = runner
        self.prepares = prepares
        """The text that is only prepared by it."""
        self.result: PGresult | None = None
        self.done = False

    def fetchall(self) -> list[Row]:
        if not self.done:
            self._runner.read(self)
        return self._runner.rows(self)


class LoopRunner(BinaryColumns):
    """A connection of one event loop. In a `pipelined` block statements leave together, else one by one."""

    def __init__(
        self,
        connection: PatientConnection,
        loop: asyncio.AbstractEventLoop,
        signal: "Callable[[], Signal]",
        waited: Callable[[Any], Any],
    ) -> None:
        self.connection: Connection[Any] = connection
        connection.closing = self._unwatch
        self._libpq = connection.pgconn
        self._libpq.nonblocking = 1
        self._loop = loop
        self._signal = signal
        self._waited = waited
        self._load = Transformer(connection)
        self._names: dict[str, bytes] = {}
        self._numbers = count()
        self._sent: deque[LoopAnswer] = deque()
        """Statements in a pipeline whose answers haven't been read."""
        self._joined = False
        self._asks = False
        """Whether something in the pipeline may be kept back by the server until it is asked for."""
        self._failed: PGresult | None = None
        """What went wrong first in this pipeline."""
        self._watched: int | None = None
        """The socket, while the loop watches it: from the first wait until it closes, for to begin and to end that take
        as long as to send a statement."""
        self._waiting: tuple[Callable[[BaseException | None], None], Callable[[], bool]] | None = None
        """Who is to be told when which condition holds."""
        self._heard = 0.0
        """When the server last said something, or was last asked."""
        self._timer: asyncio.TimerHandle | None = None

    def run(self, text: str, values: Sequence[Any]) -> LoopAnswer:
        kinds, given = zip(*map(wire, values), strict=True) if values else ((), ())
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = b"tenure_%d" % next(self._numbers)
            self._libpq.send_prepare(name, text.encode(), kinds)
            self._asked(prepares=text)
        self._libpq.send_query_prepared(name, given, [_BINARY] * len(given), _BINARY)
        return self._asked()

    def ask(
        self, text: str, values: Sequence[Any], look: Callable[[], bool], tell: Callable[[BaseException | None], None]
    ) -> bool:
        """Sends a statement that is prepared, over a connection that is watched; False if either isn't so. `look` takes
        what comes and says whether that is all; then `tell` is called, or when no more will come.
        """
        name = self._names.get(text)
        if name is None or self._watched is None or self._waiting is not None:
            return False
        _, given = zip(*map(wire, values), strict=True)
        try:
            self._libpq.send_query_prepared(name, given, [_BINARY] * len(given), _BINARY)
            unsent = bool(self._libpq.flush())
        except psycopg.Error as error:
            tell(error)
            return True
        socket = self._libpq.socket

        def told(error: BaseException | None) -> None:
            self._waiting = None
            if unsent:
                self._loop.remove_writer(socket)
            tell(error)

        self._wait_for(told, (lambda: not self._libpq.flush() and look()) if unsent else look, unsent)
        return True

    def say(self, text: bytes) -> None:
        """Runs a statement that has no parameters."""
        self._libpq.send_query_params(text, [])
        self._asked()

    def _asked(self, prepares: str | None = None) -> LoopAnswer:
        answer = LoopAnswer(self, prepares)
        self._sent.append(answer)
        self._asks = True
        if not self._joined:
            self._failed = None
            self.read(answer)
        return answer

    @contextmanager
    def pipelined(self) -> Iterator[None]:
        """What is sent in the block leaves together as far as nobody asks; nothing is unread when it ends."""
        self._libpq.enter_pipeline_mode()
        self._joined, self._failed = True, None
        try:
            try:
                yield
            except BaseException:
                with suppress(psycopg.Error):
                    self._sync()
                raise
            self._sync()
        finally:
            self._joined = False
            self._sent.clear()

    def read(self, wanted: LoopAnswer) -> None:
        """Reads answers up to the wanted one. To ask for those that come anyway would wake the server for nothing."""
        if self._joined and self._asks:
            self._libpq.send_flush_request()
            self._asks = False
        self._flush()
        while not wanted.done:
            self._read_one()
        self._check(wanted)

    def _sync(self) -> None:
        """Ends the pipeline. Raises what went wrong in it, if nobody was told yet."""
        self._libpq.pipeline_sync()
        self._flush()
        unread = list(self._sent)
        while self._sent:
            self._read_one()
        self._next()  # the mark of the sync itself
        self._libpq.exit_pipeline_mode()
        for answer in unread:
            self._check(answer)

    def _read_one(self) -> None:
        answer = self._sent[0]
        while (result := self._next()) is not None:
            answer.result = result
        answer.done = True
        self._sent.popleft()
        if answer.result is None or answer.result.status not in _FINE:
            self._failed = self._failed or answer.result
            if answer.prepares is not None:
                self._names.pop(answer.prepares, None)

    def _check(self, answer: LoopAnswer) -> None:
        """Raises what went wrong; where something before it in the pipeline did, that."""
        if answer.result is None:
            raise psycopg.OperationalError("the connection is lost")
        if answer.result.status not in _FINE:
            raise error_from_result(self._failed or answer.result)

    def _next(self) -> "PGresult | None":
        if self._libpq.is_busy():
            self._until(lambda: not self._libpq.is_busy(), writing=False)
        return self._libpq.get_result()

    def _flush(self) -> None:
        if self._libpq.flush():
            self._until(lambda: not self._libpq.flush(), writing=True)

    def _until(self, done: Callable[[], bool], writing: bool) -> None:
        """Lets the loop go on until a condition holds, which is looked at whenever the server says something or, if
        so asked, takes more. A long answer comes in many parts: only the last one is worth a switch.
        """
        waiting, socket = self._signal(), self._libpq.socket
        self._wait_for(waiting.fire, done, writing)
        try:
            self._waited(waiting)
        finally:
            self._waiting = None
            if writing:
                self._loop.remove_writer(socket)

    def _wait_for(self, tell: Callable[[BaseException | None], None], done: Callable[[], bool], writing: bool) -> None:
        loop, socket = self._loop, self._libpq.socket
        self._waiting, self._heard = (tell, done), loop.time()
        if self._watched is None:
            loop.add_reader(socket, self._look)
            self._watched = socket
        if writing:
            loop.add_writer(socket, self._look)
        if self._timer is None:
            self._timer = loop.call_later(patience.SILENT_SECONDS, self._listen)

    def _look(self) -> None:
        """The server said something, or takes more."""
        self._heard = self._loop.time()
        waiting = self._waiting
        try:
            self._libpq.consume_input()
            done = waiting is not None and waiting[1]()
        except psycopg.Error as error:
            self._unwatch()
            if waiting is None:  # it went while nobody asked it
                self.connection.close()
            else:
                waiting[0](error)
            return
        if waiting is not None and done:
            waiting[0](None)

    def _listen(self) -> None:
        """Gives up a server that owes an answer and is silent."""
        self._timer = None
        if self._waiting is None:
            return
        left = self._heard + patience.SILENT_SECONDS - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._listen)
            return
        tell, _ = self._waiting
        self.connection.close()
        tell(psycopg.OperationalError(f"the server didn't answer for {patience.SILENT_SECONDS:.0f} s"))

    def _unwatch(self) -> None:
        """The socket is about to be closed, or is."""
        socket, self._watched = self._watched, None
        timer, self._timer = self._timer, None
        if self._loop.is_closed():
            return
        if socket is not None:
            self._loop.remove_reader(socket)
        if timer is not None:
            timer.cancel()

    def rows(self, answer: LoopAnswer) -> list[Row]:
        """The rows of an answer."""
        result = answer.result
        if result is None:
            raise AssertionError("an answer was asked for its rows before it came")
        self._load.set_pgresult(result, set_loaders=True, format=_BINARY)
        return self._load.load_rows(0, result.ntuples, tuple)
