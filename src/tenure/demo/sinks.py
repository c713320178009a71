"""Who gets what the demo sends: a mail server and a receiver of webhooks, on free ports of the loopback.

Either can be told to `hold`: it takes what arrives, and its sender waits for the answer until `release`.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from email import message_from_bytes
from email.message import Message
from http import HTTPStatus
from typing import NamedTuple, TypeVar

from tenure.demo.webhooks import DELIVERY_HEADER, MOST_BODY, MOST_HEAD, SIGNATURE_HEADER, BadSignature, verify

HOST = "127.0.0.1"
MOST_MESSAGE = 1024 * 1024
MOST_RECIPIENTS = 100

NOBODY = "nobody@"
"""A mailbox that doesn't exist anywhere."""
GREY = "grey@"
"""A mailbox that refuses whoever comes for the first time, as servers do that fear spam."""
BROKEN = "/broken"
"""A receiver that never works."""
SLOW = "/slow"
"""A receiver that never answers."""

S = TypeVar("S", bound="Sink")


class Sink:
    """A server for as long as the block lasts. Whoever still talks to it at the end is hung up on."""

    def __init__(self, port: int = 0, latency_seconds: float = 0.0) -> None:
        self.port = port
        """0 until it listens: any free one."""
        self._latency_seconds = latency_seconds
        self._answering = asyncio.Event()
        self._answering.set()
        self._arrived = asyncio.Event()
        self._talks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self: S) -> S:
        self._server = await asyncio.start_server(self._serve, HOST, self.port, limit=MOST_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is None:
            return
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def arrivals(self) -> Counter[str]:
        """How often each thing arrived, by its id."""
        raise NotImplementedError

    async def arrival(self) -> None:
        """Waits for whatever arrives next."""
        self._arrived.clear()
        await self._arrived.wait()

    def hold(self) -> None:
        """Answers nobody until `release`."""
        self._answering.clear()

    def release(self) -> None:
        self._answering.set()

    async def _may_answer(self) -> None:
        """After the time that a server far away takes, and when it isn't held."""
        await asyncio.sleep(self._latency_seconds)
        await self._answering.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        try:
            # Whoever hung up or said too much can't be told, nor can those that we hang up on.
            with suppress(OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
                await self._talk(reader, writer)
        finally:
            self._talks.discard(talk)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


# Mail


class Received(NamedTuple):
    """A message as it arrived."""

    sender: str
    recipients: tuple[str, ...]
    message: Message

    @property
    def id(self) -> str:
        return str(self.message["Message-ID"] or "").strip("<> ")


class MailSink(Sink):
    """A mail server that keeps every message and sends none on."""

    def __init__(self, port: int = 0, latency_seconds: float = 0.0) -> None:
        super().__init__(port, latency_seconds)
        self.messages: list[Received] = []
        self._came_before: set[str] = set()

    @property
    def arrivals(self) -> Counter[str]:
        return Counter(received.id for received in self.messages)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        envelope = Envelope(self._mailbox)
        await _say(writer, "220 the demo's mail server")
        while True:
            line = (await reader.readuntil(b"\n")).decode(errors="replace").strip()
            if line.upper() == "QUIT":
                await _say(writer, "221 bye")
                return
            if line.upper() == "DATA" and envelope.recipients:
                await _say(writer, "354 end with a dot on a line of its own")
                await _say(writer, await self._take(envelope, await _data(reader)))
            else:
                await _say(writer, envelope.answer(line))

    def _mailbox(self, address: str) -> str | None:
        """What is said to someone who writes to an address; None when it is fine."""
        if address.startswith(NOBODY):
            return "550 no such mailbox"
        if address.startswith(GREY) and address not in self._came_before:
            self._came_before.add(address)
            return "451 we don't know you: come again"
        return None

    async def _take(self, envelope: "Envelope", body: bytes | None) -> str:
        sender, recipients = envelope.sender or "", tuple(envelope.recipients)
        envelope.clear()
        if body is None:
            return "552 too long"
        self.messages.append(Received(sender, recipients, message_from_bytes(body)))
        self._arrived.set()
        await self._may_answer()
        return "250 kept"


class Envelope:
    """What a sender has said so far of its next message."""

    def __init__(self, mailbox: Callable[[str], str | None]) -> None:
        self._mailbox = mailbox
        self.sender: str | None = None
        self.recipients: list[str] = []

    def clear(self) -> None:
        self.sender = None
        self.recipients = []

    def answer(self, line: str) -> str:
        """Takes a command, and says what to answer."""
        verb, _, rest = line.partition(" ")
        match verb.upper():
            case "HELO" | "EHLO":
                self.clear()
                return "250 hello" if rest else "501 say who you are"
            case "RSET":
                self.clear()
                return "250 forgotten"
            case "NOOP":
                return "250 fine"
            case "MAIL":
                return self._mail(_address("FROM", rest))
            case "RCPT":
                return self._rcpt(_address("TO", rest))
            case "DATA":
                return "503 say from whom and to whom first"
        return "502 no such command here"

    def _mail(self, address: str | None) -> str:
        if address is None:
            return "501 MAIL FROM:<address>"
        self.sender, self.recipients = address, []
        return "250 fine"

    def _rcpt(self, address: str | None) -> str:
        if self.sender is None:
            return "503 say from whom first"
        if not address:
            return "501 RCPT TO:<address>"
        if len(self.recipients) == MOST_RECIPIENTS:
            return "452 too many recipients"
        refused = self._mailbox(address)
        if refused is None:
            self.recipients.append(address)
        return refused or "250 fine"


def _address(word: str, text: str) -> str | None:
    found = re.match(rf"{word}:\s*<([^<>\s]*)>", text, re.IGNORECASE)
    return None if found is None else found[1]


async def _data(reader: asyncio.StreamReader) -> bytes | None:
    """A message up to its last line, which is a dot; None for one that is too long."""
    lines, size = list[bytes](), 0
    while (line := await reader.readuntil(b"\n")) != b".\r\n":
        line = line.removeprefix(b".")
        size += len(line)
        if size <= MOST_MESSAGE:
            lines.append(line)
    return b"".join(lines) if size <= MOST_MESSAGE else None


async def _say(writer: asyncio.StreamWriter, line: str) -> None:
    writer.write(f"{line}\r\n".encode())
    await writer.drain()


# Webhooks


class Request(NamedTuple):
    """A request as it arrived. Names of headers are in small letters."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers.get(DELIVERY_HEADER.lower(), "")


class HookSink(Sink):
    """A receiver of webhooks that takes only what is signed with its secret."""

    def __init__(self, secret: bytes, port: int = 0, latency_seconds: float = 0.0) -> None:
        super().__init__(port, latency_seconds)
        self._secret = secret
        self.requests: list[Request] = []
        self.rejected = 0
        self.waiting = 0
        """Senders that wait for an answer that never comes."""

    @property
    def arrivals(self) -> Counter[str]:
        return Counter(request.id for request in self.requests)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _request(reader)
        status = self._status_of(request)
        if request is not None and status is HTTPStatus.NO_CONTENT:
            if request.path == SLOW:
                await self._until_gone(reader)
                return
            self.requests.append(request)
            self._arrived.set()
            await self._may_answer()
        writer.write(f"HTTP/1.1 {status} {status.phrase}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()

    def _status_of(self, request: Request | None) -> HTTPStatus:
        if request is None:
            return HTTPStatus.BAD_REQUEST
        try:
            verify(self._secret, request.headers.get(SIGNATURE_HEADER.lower(), ""), request.body, time.time())
        except BadSignature:
            self.rejected += 1
            return HTTPStatus.UNAUTHORIZED
        return HTTPStatus.INTERNAL_SERVER_ERROR if request.path == BROKEN else HTTPStatus.NO_CONTENT

    async def _until_gone(self, reader: asyncio.StreamReader) -> None:
        self.waiting += 1
        try:
            await reader.read()
        finally:
            self.waiting -= 1


async def _request(reader: asyncio.StreamReader) -> Request | None:
    """A request to post something; None for anything else."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    asked = re.fullmatch(r"POST (/[!-~]*) HTTP/1\.[01]", head[0])
    fields = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in fields}
    length = headers.get("content-length", "")
    if asked is None or not re.fullmatch(r"\d{1,9}", length) or int(length) > MOST_BODY:
        return None
    return Request(asked[1], headers, await reader.readexactly(int(length)))
