"""One connection: calls of any number of tasks, pipelined by themselves, and a reply for each in the order of sending.

A connection is open, or gone for good; `_end` is the one way from open to gone. One that several share leaves first
when the server turns out to be a replica: it is given no more calls, and is gone when those that it has are answered.

A call is *unsent* until its bytes are given to the transport, and *on its way* from then until its reply has come, also
when its caller has given up: its place in the order is what keeps a late reply from being given to another call.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from threading import get_ident
from typing import Any, TypeAlias, cast

import hiredis

from tenure.domain.errors import InvalidValue, NotReady
from tenure.stores.redis.client.commands import Arg, Command, pack, packed, packed_all
from tenure.stores.redis.client.errors import (
    ClientClosed,
    Garbled,
    NoServer,
    NotAServer,
    NotPrimary,
    NotSent,
    ServerError,
    TimedOut,
    Unanswered,
    server_error,
)
from tenure.stores.redis.client.settings import ClientSettings, check_seconds

Reply: TypeAlias = Any
"""As hiredis gives it: bytes, int, float, bool, None, list, dict; inside, a `ServerError`."""
OnPush: TypeAlias = Callable[[list[Any]], object]

EXPIRY_SECONDS = 0.02
"""Calls that time out together are found together: a stalled server with thousands of calls costs no more than this."""
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}
"""A host that is gone, or has forgotten the connection, is noticed within half a minute. Not every system has all."""
_INCOMPLETE = object()


class _Request:
    """Commands that were called together, and what has come of them."""

    __slots__ = ("channels", "deadline", "future", "packed", "replies", "sent_at", "wanted")

    def __init__(self, packed: bytes, wanted: int, future: "asyncio.Future[Any]", deadline: float) -> None:
        self.packed = packed
        self.wanted = wanted
        """How many replies it gets."""
        self.future = future
        """Its one reply; of a pipeline the list of them."""
        self.deadline = deadline
        self.sent_at = 0.0
        self.replies: list[Reply] | None = None
        """Those of a pipeline that have come."""
        self.channels: set[tuple[bytes, bytes]] | None = None
        """(kind, channel) of the confirmations that a subscription waits for."""


class Connection(asyncio.Protocol):
    """One socket. `connect` makes one that is logged in."""

    def __init__(self, settings: ClientSettings, on_push: OnPush | None, silence: float, shared: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._settings = settings
        self._on_push = on_push
        self._silence = silence
        self._shared = shared
        self._reader = hiredis.Reader(replyError=self._error, notEnoughData=_INCOMPLETE)
        self._transport: asyncio.Transport | None = None
        self._unsent: deque[_Request] = deque()
        self._on_way: deque[_Request] = deque()
        self._owed = 0
        """Replies that are still to come."""
        self._owed_bytes = 0
        """The size of the calls on their way."""
        self._flush_due = False
        self._choked = False
        """Whether the transport takes nothing for now."""
        self._alone = True
        """Whether the last write had one call only: then there seems to be one caller, for whom it goes at once."""
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = inf
        self._heard_at = self._loop.time()
        self._incomplete_bytes = 0
        self._leaving = False
        """Whether it ends as soon as every call has its reply."""
        self._gone: NotSent | None = None
        """Why it is gone."""
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.on_end: Callable[[], object] | None = None
        """Called in the very moment it is gone or leaving: no call goes over it any more."""
        self._socket_closed: asyncio.Future[None] = self._loop.create_future()
        self.server: dict[bytes, Any] = {}
        """What the server said of itself: server, version, id of this connection, mode, role."""

    # For callers

    @property
    def is_open(self) -> bool:
        return self._gone is None

    async def call(self, *args: Arg, timeout: float | None = None) -> Reply:
        """One command and its reply. Raises `ServerError` if that is an error, and `NotSent` or `Unanswered` if none
        came. A call of a caller that is cancelled isn't undone.
        """
        reply = await self._send(packed(args, shared=self._shared), 1, timeout)
        if isinstance(reply, ServerError):
            raise reply
        return reply

    async def pipeline(self, commands: Sequence[Command], *, timeout: float | None = None) -> list[Reply]:
        """Commands that are sent together, nobody else's in between, and their replies; errors are values there."""
        if not commands:
            return []
        replies: list[Reply] = await self._send(packed_all(commands, shared=self._shared), len(commands), timeout, [])
        return replies

    async def subscribe(self, *channels: str | bytes, kind: str = "", timeout: float | None = None) -> None:
        """Pushes of these channels go to `on_push` from now on. `kind` is "", "p" for patterns, "s" for shards'."""
        await self._confirmed(f"{kind}subscribe", channels, timeout)

    async def unsubscribe(self, *channels: str | bytes, kind: str = "", timeout: float | None = None) -> None:
        """No push of these channels comes any more."""
        await self._confirmed(f"{kind}unsubscribe", channels, timeout)

    async def _confirmed(self, command: str, channels: Sequence[str | bytes], timeout: float | None) -> None:
        if command.removesuffix("subscribe").removesuffix("un") not in ("", "p", "s") or not channels:
            raise InvalidValue('subscribe: give at least one channel, and kind as "", "p" or "s"')
        names = {channel.encode() if isinstance(channel, str) else channel for channel in channels}
        waited = {(command.encode(), name) for name in names}
        reply = await self._send(pack((command, *names)), 1, timeout, channels=waited)
        if isinstance(reply, ServerError):
            raise reply

    async def close(self) -> None:
        """Ends it. Calls that wait raise `ClientClosed` if they weren't sent, else `Unanswered`."""
        self._end("the connection was closed", unsent=ClientClosed)
        if self._transport is not None:
            await asyncio.wait([self._socket_closed])

    async def lost(self) -> None:
        """Until it is gone, for whatever reason."""
        await asyncio.wait([self._ended])

    # Sending

    def _send(
        self,
        data: bytes,
        wanted: int,
        timeout: float | None,
        replies: list[Reply] | None = None,
        channels: set[tuple[bytes, bytes]] | None = None,
    ) -> "asyncio.Future[Any]":
        """Takes a call in. It is sent at once if there seems to be one caller only, else with those of this turn."""
        if self._gone is not None:
            raise self._gone.with_traceback(None)
        if get_ident() != self._thread or not self._loop.is_running():  # get_running_loop() costs a system call
            raise NotReady("the client belongs to another event loop: make one for each loop")
        if timeout is None:
            timeout = self._settings.timeout
        elif timeout != inf:
            check_seconds("timeout", timeout)
        now = self._loop.time()
        request = _Request(data, wanted, self._loop.create_future(), now + timeout)
        request.replies, request.channels = replies, channels
        self._unsent.append(request)
        if self._alone and not self._on_way and not self._flush_due:
            self._flush()
        else:
            self._flush_soon()
        if now + min(timeout, self._silence) < self._wakes_at:
            self._wake_at(now + min(timeout, self._silence))
        return request.future

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Sends, in one write, the calls that there is room for."""
        self._flush_due = False
        if self._choked or self._transport is None or self._gone is not None:
            return
        now, parts = self._loop.time(), []
        while self._unsent and self._has_room(self._unsent[0]):
            request = self._unsent.popleft()
            if request.future.done():  # its caller has given up
                continue
            request.sent_at = now
            self._on_way.append(request)
            self._owed += request.wanted
            self._owed_bytes += len(request.packed)
            parts.append(request.packed)
        if parts:
            self._alone = len(parts) == 1
            self._transport.write(parts[0] if self._alone else b"".join(parts))

    def _has_room(self, request: _Request) -> bool:
        """Whether it may join those on their way; one that is larger than the room goes alone."""
        return not self._on_way or (
            self._owed + request.wanted <= self._settings.calls
            and self._owed_bytes + len(request.packed) <= self._settings.sent_bytes
        )

    # Time

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = when
        self._timer = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        """Ends the calls whose time is over; and the connection, if nothing comes from a server that owes replies."""
        now = self._loop.time()
        self._timer, self._wakes_at = None, inf
        if self._silent_at() <= now:
            self._end(f"the server has been silent for {self._silence:g} s")
            return
        for request in self._on_way:
            if request.deadline <= now and not request.future.done():
                request.future.set_exception(TimedOut(f"{self._settings.shown}: no reply within the call's time"))
        for request in self._unsent:
            if request.deadline <= now and not request.future.done():
                request.future.set_exception(
                    NotSent(f"{self._settings.shown}: the call had to wait for others, and wasn't sent in its time")
                )
        self._unsent = deque(request for request in self._unsent if not request.future.done())
        waiting = (one.deadline for calls in (self._on_way, self._unsent) for one in calls if not one.future.done())
        following = min(self._silent_at(), min(waiting, default=inf))
        if following < inf:
            self._wake_at(max(following, now + EXPIRY_SECONDS))

    def _silent_at(self) -> float:
        """When the server will have owed a reply for too long without a byte."""
        return max(self._heard_at, self._on_way[0].sent_at) + self._silence if self._on_way else inf

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's aren't of that class
        if self._settings.path is None:
            keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if self._gone is not None:
            return
        self._heard_at = self._loop.time()
        try:
            self._reader.feed(data)
            self._read(len(data))
        except (hiredis.HiredisError, TypeError, MemoryError) as error:  # TypeError: a map with a list as key
            self._end(f"what came isn't a reply ({error})", sent=Garbled)
        if self._unsent:
            self._flush_soon()
        elif self._leaving and not self._on_way:
            self._end("the server is a replica by now")

    def _error(self, said: str) -> ServerError:
        """An error reply. After a failover the address leads to another server, but this connection doesn't."""
        error = server_error(self._settings.shown, said)
        if self._shared and isinstance(error, NotPrimary) and not self._leaving:
            self._leaving = True
            if self.on_end is not None:
                self.on_end()
        return error

    def _read(self, size: int) -> None:
        """Gives each whole reply that has come to the call that is longest on its way."""
        read, on_way = self._reader.gets, self._on_way
        self._incomplete_bytes += size
        while (reply := read()) is not _INCOMPLETE:
            self._incomplete_bytes = 0
            if type(reply) is hiredis.PushNotification:
                self._pushed(reply)
                continue
            if not on_way:
                self._end(f"a reply came that nobody asked for ({type(reply).__name__})")
                return
            request = on_way[0]
            if request.replies is not None:
                request.replies.append(reply)
                if len(request.replies) < request.wanted:
                    continue
                reply = request.replies
            self._answer(reply)
        if self._incomplete_bytes > self._settings.reply_bytes:
            self._end(f"a reply has more than {self._settings.reply_bytes} bytes", sent=Garbled)

    def _answer(self, reply: Reply) -> None:
        request = self._on_way.popleft()
        self._owed -= request.wanted
        self._owed_bytes -= len(request.packed)
        if not request.future.done():
            request.future.set_result(reply)

    def _pushed(self, push: list[Any]) -> None:
        """The confirmation that a subscription waits for, or something for `on_push`."""
        channels = self._on_way[0].channels if self._on_way else None
        confirmed = (push[0], push[1]) if channels and len(push) > 1 else None
        if channels and confirmed in channels:
            channels.remove(confirmed)
            if not channels:
                self._answer(None)
        elif self._on_push is not None:
            self._loop.call_soon(self._on_push, push)

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        self._flush_soon()

    def connection_lost(self, error: Exception | None) -> None:
        self._end("the connection broke" if error is None else f"the connection broke ({error})")
        if not self._socket_closed.done():
            self._socket_closed.set_result(None)

    # The end

    def _end(self, why: str, sent: type[Unanswered] = Unanswered, unsent: type[NotSent] = NotSent) -> None:
        """Gone for good: calls on their way may have been carried out, the others weren't."""
        if self._gone is not None:
            return
        said = f"{self._settings.shown}: {why}"
        self._gone = unsent(said)
        if self.on_end is not None:
            self.on_end()
        if self._timer is not None:
            self._timer.cancel()
        for request in self._on_way:
            if not request.future.done():
                request.future.set_exception(sent(said))
        for request in self._unsent:
            if not request.future.done():
                request.future.set_exception(unsent(said))
        self._on_way.clear()
        self._unsent.clear()
        if self._transport is not None:
            self._transport.abort()
        self._ended.set_result(None)

    # The beginning

    async def greet(self) -> None:
        """Logs in, names the connection and selects the database, in one trip."""
        settings = self._settings
        hello: list[Arg] = ["HELLO", 3]
        if settings.password is not None:
            hello += ["AUTH", settings.user or "default", settings.password]
        commands: list[Command] = [[*hello, "SETNAME", settings.name]]
        if settings.db:
            commands.append(("SELECT", settings.db))
        replies: list[Reply] = []
        try:
            await self._send(b"".join(map(pack, commands)), len(commands), inf, replies)
        except Unanswered:
            _raise_first(replies)  # a server that lets nobody in says so, and closes
            raise
        _raise_first(replies)
        if not isinstance(replies[0], dict):
            raise NotAServer(f"{settings.shown}: what answers there isn't a Redis or Valkey server")
        self.server = replies[0]


def _raise_first(replies: list[Reply]) -> None:
    for reply in replies:
        if isinstance(reply, ServerError):
            raise reply


async def connect(
    settings: ClientSettings, *, on_push: OnPush | None = None, shared: bool = False, silence: float = inf
) -> Connection:
    """A connection that is logged in. Raises `NoServer`, `NotAServer` or what the server said."""
    made: list[Connection] = []

    def protocol() -> Connection:
        made.append(Connection(settings, on_push, silence, shared))
        return made[-1]

    try:
        async with asyncio.timeout(settings.connect_timeout):
            await _open(settings, protocol)
            await made[-1].greet()
    except BaseException as error:
        for one in made:
            await one.close()
        translated = _translated(settings, error)
        if translated is error:
            raise
        raise translated from error
    return made[-1]


def _open(settings: ClientSettings, protocol: Callable[[], Connection]) -> Awaitable[object]:
    loop = asyncio.get_running_loop()
    if settings.path is not None:
        return loop.create_unix_connection(protocol, settings.path)
    return loop.create_connection(protocol, settings.host, settings.port, ssl=settings.tls)


def _translated(settings: ClientSettings, error: BaseException) -> BaseException:
    """What kept a connection from being made."""
    if isinstance(error, TimeoutError):
        return NoServer(f"{settings.shown}: nobody answered within {settings.connect_timeout:g} s")
    if isinstance(error, ssl.SSLError):
        return NotAServer(f"{settings.shown}: no TLS came about ({error}): look at rediss:// and the certificates")
    if isinstance(error, OSError | UnicodeError):  # UnicodeError: a host that can't be a name
        return NoServer(f"{settings.shown}: {error}")
    if isinstance(error, Garbled):
        return NotAServer(f"{settings.shown}: what answers there isn't a Redis or Valkey server ({error.said})")
    if isinstance(error, Unanswered):
        return NoServer(error.said)
    return error


def keep_alive(end: socket.socket) -> None:
    """Lets TCP find out that the other end is gone."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        option = getattr(socket, name, None)
        if option is not None:
            end.setsockopt(socket.IPPROTO_TCP, option, value)
