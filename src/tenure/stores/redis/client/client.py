"""A connection that is made again when it breaks, for any number of tasks of one event loop."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TypeAlias

from tenure.domain.errors import NotReady
from tenure.stores.redis.client.commands import Arg, Command
from tenure.stores.redis.client.connection import Connection, OnPush, Reply, connect
from tenure.stores.redis.client.errors import ClientClosed, NotSent
from tenure.stores.redis.client.settings import ClientSettings, check_seconds

Prepare: TypeAlias = Callable[[Connection], Awaitable[object]]

FIRST_DELAY, LONGEST_DELAY = 0.05, 2.0
"""Seconds between attempts to connect: doubled each time, and drawn from the upper half."""
STABLE_SECONDS = 1.0
"""A connection that broke sooner counts as a failed attempt: the next one waits."""


class Client:
    """Calls over one connection, with its settings, that everybody shares.

    `on_push` is called with each push: messages of channels, invalidations. `prepare` is called with each new
    connection before any call goes over it, to subscribe for example: what was pushed in between was missed.

    A command that blocks, or that changes the connection, is refused: it needs a connection of its own, `dedicated`.
    """

    def __init__(
        self,
        settings: ClientSettings | str,
        *,
        on_push: OnPush | None = None,
        prepare: Prepare | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.settings = settings if isinstance(settings, ClientSettings) else ClientSettings.parse(settings)
        self._on_push = on_push
        self._prepare = prepare
        self._chance = chance
        self._connection: Connection | None = None
        self._attempt: asyncio.Future[Connection | Exception] | None = None
        """The outcome of the next attempt to connect; None while the client isn't open."""
        self._keeper: asyncio.Task[None] | None = None
        self._dedicated: set[Connection] = set()

    async def __aenter__(self) -> "Client":
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connects. If that fails the client stays closed, and the error says why."""
        if self._keeper is not None:
            raise NotReady("the client is open already")
        loop = asyncio.get_running_loop()
        self._attempt = loop.create_future()
        self._keeper = loop.create_task(self._keep())
        try:
            await self._connected(None)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends all its connections. Calls that wait raise `ClientClosed` if they weren't sent, else `Unanswered`."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        keeper.cancel()
        await asyncio.wait([keeper])
        self._tell(ClientClosed(f"{self.settings.shown}: the client was closed"))
        self._attempt = None
        connection, self._connection = self._connection, None
        for one in (*self._dedicated, *([connection] if connection is not None else [])):
            await one.close()

    async def call(self, *args: Arg, timeout: float | None = None) -> Reply:
        """One command and its reply. Raises `ServerError` if that is an error; `NotSent` if the command wasn't sent,
        which is safe to repeat; `Unanswered` if it was and no reply came. `timeout` is in seconds.
        """
        connection = self._connection
        if connection is None or timeout is not None:
            connection, timeout = await self._within(timeout)
        return await connection.call(*args, timeout=timeout)

    async def pipeline(self, commands: Sequence[Command], *, timeout: float | None = None) -> list[Reply]:
        """Commands that are sent together, nobody else's in between, and their replies; errors are values there."""
        connection, timeout = await self._within(timeout)
        return await connection.pipeline(commands, timeout=timeout)

    @asynccontextmanager
    async def dedicated(self, *, on_push: OnPush | None = None) -> AsyncIterator[Connection]:
        """A connection of its own, for commands that block or change it. It isn't made again when it breaks, its calls
        may have `timeout=math.inf`, and behind a blocking call that was given up the next one waits for the server.
        """
        if self._keeper is None:
            raise self._not_open()
        connection = await connect(self.settings, on_push=on_push)
        self._dedicated.add(connection)
        try:
            if self._keeper is None:  # closed meanwhile
                raise self._not_open()
            yield connection
        finally:
            self._dedicated.discard(connection)
            await connection.close()

    # The connection

    async def _within(self, timeout: float | None) -> tuple[Connection, float]:
        """The connection, and what is left of a call's time then."""
        if timeout is None:
            timeout = self.settings.timeout
        else:
            check_seconds("timeout", timeout)
        if self._connection is not None:
            return self._connection, timeout
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        connection = await self._connected(timeout)
        return connection, max(deadline - loop.time(), 0.001)

    async def _connected(self, timeout: float | None) -> Connection:
        """The connection that there is, or that the next attempt makes."""
        attempt = self._attempt
        if attempt is None:
            raise self._not_open()
        done, _ = await asyncio.wait([attempt], timeout=timeout)
        if not done:
            raise NotSent(f"{self.settings.shown}: there was no connection within {timeout:g} s")
        outcome = attempt.result()
        if isinstance(outcome, Exception):
            raise outcome.with_traceback(None)
        return outcome

    def _not_open(self) -> NotReady:
        return NotReady("the client isn't open: use it inside `async with Client(…)`, or call open() first")

    def _tell(self, outcome: Connection | Exception) -> None:
        """Wakes the calls that wait for a connection. Those that come from now on wait for the next attempt."""
        attempt, self._attempt = self._attempt, asyncio.get_running_loop().create_future()
        if attempt is not None:
            attempt.set_result(outcome)

    def _use(self, connection: Connection) -> None:
        """All calls go over it, until it ends."""
        if connection.is_open:
            self._connection = connection
            connection.on_end = self._drop
        self._tell(connection)

    def _drop(self) -> None:
        self._connection = None

    async def _keep(self) -> None:
        """Connects, and again whenever the connection breaks."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            try:
                connection = await self._connect()
            except Exception as error:
                self._tell(error)
                failures += 1
            else:
                began = loop.time()
                self._use(connection)
                await connection.lost()
                failures = 0 if loop.time() - began >= STABLE_SECONDS else failures + 1
            if failures:
                await asyncio.sleep(self._delay(failures))

    async def _connect(self) -> Connection:
        connection = await connect(self.settings, on_push=self._on_push, shared=True, silence=self.settings.silence)
        if self._prepare is not None:
            try:
                await self._prepare(connection)
            except BaseException:
                await connection.close()
                raise
        return connection

    def _delay(self, failures: int) -> float:
        longest: float = min(FIRST_DELAY * 2 ** min(failures - 1, 16), LONGEST_DELAY)
        return longest * (1 + self._chance()) / 2
