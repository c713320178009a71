"""How statements reach the server: on the store's own connections, or on a user's, whichever driver that is.

The model is plain code. On a connection of an event loop it runs as a fiber of that loop, or in a thread, from where
each statement goes to the loop and back.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.rows import tuple_row

from tenure.stores.sql.postgres.arrays import COLUMNS, adapt
from tenure.stores.sql.rows import Row


class Answer(Protocol):
    """What a statement found."""

    def fetchall(self) -> list[Row]: ...


class Runner(Protocol):
    """Runs statements on one connection."""

    def run(self, text: str, values: Sequence[Any]) -> Answer: ...

    def column(self, kind: str, values: Sequence[Any]) -> Any:
        """A column of many rows, as the driver wants an array of that type."""


class UsersRunner(Runner, Protocol):
    """Runs statements on a user's connection."""

    connection: Any


class ConnectionRunner(Runner, Protocol):
    """Has the connection to itself."""

    connection: "Connection[Any]"

    def say(self, text: bytes) -> None:
        """Runs a statement that has no parameters."""

    def pipelined(self) -> AbstractContextManager[None]:
        """What is sent in the block leaves together as far as nobody asks; nothing is unread when it ends."""


class BinaryColumns:
    """Sends a column as one value, in the server's own format."""

    def column(self, kind: str, values: Sequence[Any]) -> Any:
        return COLUMNS[kind](values)


class Pipelined(BinaryColumns):
    """A connection of psycopg's."""

    connection: "Connection[Any]"

    def say(self, text: bytes) -> None:
        """Runs a statement that has no parameters."""
        RawCursor(self.connection).execute(text, prepare=False)

    @contextmanager
    def pipelined(self) -> Iterator[None]:
        """What is sent in the block leaves together as far as nobody asks; nothing is unread when it ends."""
        with self.connection.pipeline() as pipeline:
            try:
                yield
                pipeline.sync()
            except BaseException:
                with suppress(psycopg.Error):
                    pipeline.sync()  # else it complains of what it never sent
                raise


class OwnRunner(Pipelined):
    """A connection of the store's own: in a pipeline, with every statement prepared (none behind a pooler, where the
    connection's threshold says so)."""

    def __init__(self, connection: "Connection[Any]") -> None:
        self.connection = connection

    def run(self, text: str, values: Sequence[Any]) -> Answer:
        return self.connection.execute(text.encode(), values, prepare=True, binary=True)


class PsycopgRunner(Pipelined):
    """A user's connection: what it does to rows and values stays as it is.

    `prepare` says whether statements are prepared; None leaves that to how the connection was set up.
    """

    def __init__(self, connection: "Connection[Any]", prepare: bool | None = None) -> None:
        self.connection = connection
        self._prepare = prepare

    def run(self, text: str, values: Sequence[Any]) -> Answer:
        cursor = RawCursor(self.connection, row_factory=tuple_row)
        adapt(cursor)
        return cursor.execute(text.encode(), values, prepare=self._prepare, binary=True)


class Found:
    """Rows that were fetched already."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def fetchall(self) -> list[Row]:
        return self._rows


Waited = Callable[[Coroutine[Any, Any, Answer]], Answer]
"""How plain code gets what a coroutine gives."""


def from_a_thread(loop: asyncio.AbstractEventLoop) -> Waited:
    """For code in another thread than the loop's."""
    return lambda asked: asyncio.run_coroutine_threadsafe(asked, loop).result()


class _Bridged:
    """A connection that belongs to an event loop, for plain code."""

    def __init__(self, connection: Any, waited: Waited) -> None:
        self.connection = connection
        self._waited = waited

    def run(self, text: str, values: Sequence[Any]) -> Answer:
        return self._waited(self._ran(text, values))

    def _ran(self, text: str, values: Sequence[Any]) -> Coroutine[Any, Any, Answer]:
        raise NotImplementedError


class AsyncPsycopgRunner(_Bridged, BinaryColumns):
    """psycopg's AsyncConnection."""

    connection: "AsyncConnection[Any]"

    async def _ran(self, text: str, values: Sequence[Any]) -> Answer:
        cursor = AsyncRawCursor(self.connection, row_factory=tuple_row)
        adapt(cursor)
        await cursor.execute(text.encode(), values, binary=True)
        return Found(await cursor.fetchall() if cursor.description else [])


class AsyncpgRunner(_Bridged):
    """asyncpg's connection, which knows by itself what a statement wants."""

    def column(self, kind: str, values: Sequence[Any]) -> Any:
        return list(values)

    async def _ran(self, text: str, values: Sequence[Any]) -> Answer:
        found = [tuple(row) for row in await self.connection.fetch(text, *values)]
        return Found(found)
