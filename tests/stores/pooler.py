"""A transaction pooler, as small as one can be: whoever's transaction has ended gives the server's connection back.

Each transaction of a client goes over the server's connection that was longest unused, so the next one is on another,
and connections are never reset: what a client leaves on one, others find there. PgBouncer's transaction mode does the
same. It knows as much of the protocol as that takes.
"""

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

SSL, GSS = 80877103, 80877104
ENDS = (b"Q", b"S")
"""Messages that a client sends, each answered with a ReadyForQuery in the end."""

FLUSH = b"H"

Message = tuple[bytes, bytes]
GONE: Message = (b"X", b"")


async def message(reader: asyncio.StreamReader) -> Message:
    """A message's kind, and all of its bytes."""
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!I", head[1:])
    return head[:1], head + await reader.readexactly(length - 4)


class Backend:
    """One of the server's connections."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.greeting = b""

    @classmethod
    async def connect(cls, url: str) -> "Backend":
        parts = urlsplit(url)
        backend = cls(*await asyncio.open_connection(parts.hostname, parts.port))
        fields = f"user\0{parts.username}\0database\0{parts.path[1:]}\0application_name\0pooled\0\0".encode()
        backend.writer.write(struct.pack("!II", len(fields) + 8, 196608) + fields)
        kind = b""
        while kind != b"Z":
            kind, body = await message(backend.reader)
            backend.greeting += body
        return backend


class Pooler:
    """Many clients on few of the server's connections."""

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self.moves = 0
        """How often a client's transaction was on another connection than its last."""

    async def run(self, started: "threading.Event", stop: asyncio.Event) -> None:
        self.idle: asyncio.Queue[Backend] = asyncio.Queue()
        for _ in range(self._size):
            self.idle.put_nowait(await Backend.connect(self._url))
        self.clients: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()
        for task in self.clients:
            task.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)
        while not self.idle.empty():
            self.idle.get_nowait().writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.clients.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._greet(reader, writer)
                await self._serve(reader, writer)
        finally:
            self.clients.discard(task)
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length, code = struct.unpack("!II", await reader.readexactly(8))
            await reader.readexactly(length - 8)
            if code not in (SSL, GSS):
                break
            writer.write(b"N")
        backend = await self.idle.get()
        self.idle.put_nowait(backend)
        writer.write(backend.greeting)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said: asyncio.Queue[Message] = asyncio.Queue()
        listening = asyncio.create_task(listen(reader, said))
        last: Backend | None = None
        try:
            while (first := await said.get()) != GONE:
                if first[0] == FLUSH:
                    continue  # all there was to tell has been told
                backend = await self.idle.get()
                self.moves += last not in (None, backend)
                last = backend
                try:
                    await self._transaction(backend, first, said, writer)
                except BaseException:  # the client went away in the middle: so does what it began
                    backend.writer.close()
                    self.idle.put_nowait(await Backend.connect(self._url))
                    raise
                self.idle.put_nowait(backend)
        finally:
            listening.cancel()

    async def _transaction(
        self, backend: Backend, first: Message, said: "asyncio.Queue[Message]", writer: asyncio.StreamWriter
    ) -> None:
        """Until the server is ready for another one."""
        asked, began = 0, False

        async def pass_on(given: Message) -> None:
            nonlocal asked, began
            while given != GONE:
                backend.writer.write(given[1])
                if given[0] != FLUSH:
                    began = given[0] not in ENDS
                    asked += not began
                given = await said.get()
            raise ConnectionError

        passing = asyncio.create_task(pass_on(first))
        try:
            while True:
                answering = asyncio.create_task(message(backend.reader))
                await asyncio.wait((answering, passing), return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    answering.cancel()
                    passing.result()  # raises: the client is gone
                kind, given = answering.result()
                writer.write(given)
                asked -= kind == b"Z"
                if kind == b"Z" and given[5:] == b"I" and not asked and not began:
                    return
        finally:
            passing.cancel()


async def listen(reader: asyncio.StreamReader, said: "asyncio.Queue[Message]") -> None:
    """All that a client says; that it is gone in the end."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while (given := await message(reader))[0] != b"X":
            said.put_nowait(given)
    said.put_nowait(GONE)


@contextmanager
def pooled(url: str, size: int = 2) -> Iterator[tuple[Pooler, str]]:
    """A pooler before a server, and the URL that leads through it."""
    pooler, started, loop = Pooler(url, size), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(pooler.run(started, stop)))
    thread.start()
    assert started.wait(30)
    parts = urlsplit(url)
    try:
        yield pooler, f"postgresql://{parts.username}@127.0.0.1:{pooler.port}{parts.path}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
