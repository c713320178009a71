"""One statement straight from the event loop through libpq, without a thread and without the driver's own machinery.

What is called one by one spends much of its time on the way: a single enqueue took 0.93 to 1.03 ms by a thread and a
cursor, and 0.72 to 0.84 so (medians of 300, three times each in turn).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import psycopg
from psycopg import Connection, pq
from psycopg.errors import error_from_result

from tenure.stores.sql.postgres import patience
from tenure.stores.sql.postgres.arrays import wire
from tenure.stores.sql.postgres.connection import sound, still_there
from tenure.stores.sql.postgres.place import Severed

_BINARY = pq.Format.BINARY
_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Busy(Exception):
    """Another call is on its way here."""


class Straight:
    """A connection for one event loop. In a `with` block it is the caller's; statements are transactions each.

    The block ends with `Severed` when the connection broke.
    """

    def __init__(self, connect: "Callable[[], Awaitable[Connection[Any]]]") -> None:
        self._connect = connect
        self._connection: Connection[Any] | None = None
        self._names: dict[str, bytes] = {}
        self._taken = False

    def __enter__(self) -> None:
        if self._taken:
            raise Busy
        self._taken = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        self._taken = False
        if kind is not None and self._connection is not None and not sound(self._connection):
            self.close()
            if isinstance(error, Exception):
                raise Severed(committing=True) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._names.clear()

    async def row(self, text: str, values: Sequence[Any]) -> list[bytes | None]:
        """The one row that a statement finds, as the server writes it. Raises what psycopg would."""
        if self._connection is None:
            self._connection = await self._connect()
        elif not still_there(self._connection):
            self.close()
            raise Severed(committing=False)
        libpq = self._connection.pgconn
        kinds, given = zip(*map(wire, values), strict=True)
        name = self._names.get(text)
        if name is None:
            name = b"tenure_%d" % len(self._names)
            libpq.send_prepare(name, text.encode(), kinds)
            await _answer(libpq)
            self._names[text] = name
        libpq.send_query_prepared(name, given, [_BINARY] * len(given), _BINARY)
        answer = await _answer(libpq)
        return [answer.get_value(0, column) for column in range(answer.nfields)]


async def _answer(libpq: Any) -> Any:
    try:
        async with asyncio.timeout(patience.SILENT_SECONDS):
            return await _said(libpq)
    except TimeoutError:
        libpq.finish()
        raise psycopg.OperationalError(f"the server didn't answer for {patience.SILENT_SECONDS:.0f} s") from None


async def _said(libpq: Any) -> Any:
    loop = asyncio.get_running_loop()
    while libpq.flush():
        await _ready(libpq.socket, loop, loop.add_writer, loop.remove_writer)
    answers = []
    while True:
        while libpq.is_busy():
            await _ready(libpq.socket, loop, loop.add_reader, loop.remove_reader)
            libpq.consume_input()
        answer = libpq.get_result()
        if answer is None:
            break
        answers.append(answer)
    (only,) = answers
    if only.status not in _FINE:
        raise error_from_result(only)
    return only


async def _ready(
    socket: int, loop: asyncio.AbstractEventLoop, add: Callable[..., Any], remove: Callable[[int], Any]
) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    add(socket, _once, ready)
    try:
        await ready
    finally:
        remove(socket)


def _once(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
