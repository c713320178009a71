"""A tiny server that answers as a test says, and the protocol that it speaks."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import hiredis

from tenure.stores.redis.client import ClientSettings

Answer = Callable[[list[bytes], asyncio.StreamWriter], Awaitable[bytes | None]]


def written(value: Any) -> bytes:
    """A value as RESP3."""
    match value:
        case None:
            return b"_\r\n"
        case bool():
            return b"#t\r\n" if value else b"#f\r\n"
        case int():
            return b":%d\r\n" % value
        case float():
            return b",%s\r\n" % (b"inf" if math.isinf(value) else repr(value).encode())
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(value), value)
        case dict():
            return b"%%%d\r\n" % len(value) + b"".join(written(one) for pair in value.items() for one in pair)
        case list():
            return b"*%d\r\n" % len(value) + b"".join(map(written, value))
    raise AssertionError(f"no RESP for {value!r}")


def pushed(*words: Any) -> bytes:
    """A push of RESP3."""
    return b">%d\r\n" % len(words) + b"".join(map(written, words))


HELLO = written({b"server": b"tiny", b"version": b"1"})


class Tiny:
    """The server: HELLO and SELECT are answered, everything else goes to `answer`, whose None says nothing."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.hello = HELLO
        self.select: bytes | None = b"+OK\r\n"
        self.greeted = asyncio.Event()
        """Set when it has heard SELECT."""
        self.heard: list[list[bytes]] = []
        self.connections = 0
        self.port = 0
        self._serving: set[asyncio.Task[Any]] = set()

    @property
    def settings(self) -> ClientSettings:
        return ClientSettings(host="127.0.0.1", port=self.port, timeout=30.0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        requests = hiredis.Reader()
        try:
            while data := await reader.read(1 << 16):
                requests.feed(data)
                while (command := requests.gets()) is not False:
                    self.heard.append(command)
                    reply = await self._reply(command, writer)
                    if reply:
                        writer.write(reply)
                        await writer.drain()
        except ConnectionError:
            pass  # the client is gone: what this server is made for
        finally:
            writer.close()

    async def end(self) -> None:
        """Ends what serves clients that are still there."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _reply(self, command: list[bytes], writer: asyncio.StreamWriter) -> bytes | None:
        if command[0] == b"HELLO":
            return self.hello
        if command[0] == b"SELECT":
            self.greeted.set()
            return self.select
        return await self._answer(command, writer)


@asynccontextmanager
async def tiny(answer: Answer) -> AsyncIterator[Tiny]:
    made = Tiny(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.end()


async def turn() -> None:
    """Everything that is due in the loop has been done."""
    for _ in range(3):
        await asyncio.sleep(0)


def saying(reply: bytes) -> Answer:
    """Answers everything alike."""

    async def answer(command: list[bytes], writer: asyncio.StreamWriter) -> bytes:
        return reply

    return answer


class Wire(asyncio.Transport):
    """A transport without a socket: what was written to it, and whether it was cut off."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self.writes: list[bytes] = []
        self.aborted = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def abort(self) -> None:
        self.aborted = True
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)
