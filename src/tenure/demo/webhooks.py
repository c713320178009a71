"""Webhooks: signed, posted once, and never to an address inside.

A name is resolved once. Every address it has is checked, and the connection goes to one that was: nobody can answer
with a public address for the check and a private one for the connection. Redirects aren't followed.
"""

import asyncio
import hashlib
import hmac
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import quote, urlsplit

import msgspec

SIGNATURE_HEADER = "Tenure-Signature"
DELIVERY_HEADER = "Tenure-Delivery"
TOLERANCE_SECONDS = 300
"""How old a signature may be."""

MOST_BODY = 256 * 1024
MOST_HEAD = 16 * 1024
MOST_INTERIM = 5
"""Answers of the kind "go on" that are read before the real one."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host."""


class NotAllowed(Exception):
    """The URL leads where webhooks don't go. Trying again won't help."""


class Undelivered(Exception):
    """The receiver answered, and it wasn't yes."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the receiver answered {status}")
        self.status = status

    @property
    def permanent(self) -> bool:
        """A redirect, or a request that will never be right. Too early and too many may pass."""
        return self.status < 500 and self.status not in (408, 425, 429)


class BadSignature(Exception):
    """Not from whom it says, changed on the way, or too old."""


# Signatures


def signature(secret: bytes, at: int, body: bytes) -> str:
    """The header that vouches for a body and for when it was sent, in seconds since the Unix epoch."""
    return f"t={at},v1={_digest(secret, at, body)}"


def verify(secret: bytes, header: str, body: bytes, now: float) -> None:
    """Raises `BadSignature`."""
    found = re.fullmatch(r"t=(\d{1,12}),v1=([0-9a-f]{64})", header)
    if found is None:
        raise BadSignature("the signature can't be read")
    at = int(found[1])
    if not hmac.compare_digest(_digest(secret, at, body), found[2]):
        raise BadSignature("the signature is wrong")
    if abs(now - at) > TOLERANCE_SECONDS:
        raise BadSignature("the signature is too old")


def _digest(secret: bytes, at: int, body: bytes) -> str:
    return hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()


# Where a webhook may go

_INSIDE = tuple(
    ip_network(text)
    for text in (
        "168.63.129.16/32",  # a cloud's host, behind a public address
        "192.0.0.0/24",  # taken for public before Python 3.13, and so is the next
        "2002::/16",  # carries an IPv4 address, which may be any
    )
)
"""What counts as inside besides what `ipaddress` knows."""
_UNICAST = ip_network("2000::/3")
"""Whatever of IPv6 is outside is here."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a webhook may do. Addresses inside are refused unless the app's configuration names them."""

    allowed: tuple[str, ...] = ()
    """Networks that are allowed although they are inside: `127.0.0.1/32`."""
    timeout_seconds: float = 10.0
    """For the whole delivery."""

    def allows(self, text: str) -> bool:
        """Whether a connection to this address is fine."""
        address = ip_address(text.partition("%")[0])
        return any(address in ip_network(network) for network in self.allowed) or _outside(address)


def _outside(address: IPv4Address | IPv6Address) -> bool:
    special = address.is_private or address.is_multicast or address.is_reserved or address.is_link_local
    unicast = isinstance(address, IPv4Address) or address in _UNICAST
    return address.is_global and unicast and not special and not any(address in network for network in _INSIDE)


class Target(msgspec.Struct, frozen=True):
    """A URL taken apart."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """Raises `NotAllowed` for what is no plain http or https URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        host = host if host is None or ":" in host else host.encode("idna").decode()
    except ValueError as error:
        raise NotAllowed(f"the URL can't be read: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise NotAllowed("only http and https URLs with a host are called")
    if parts.username is not None or parts.password is not None:
        raise NotAllowed("a URL with a name or password in it isn't called")
    if not re.fullmatch(r"[!-~]+", host):
        raise NotAllowed("the host's name can't be read")
    secure = parts.scheme == "https"
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~-._?')}" if parts.query else ""
    return Target(secure, host, port or (443 if secure else 80), path + query)


async def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def checked_address(target: Target, policy: Policy, resolve: Resolve) -> str:
    """The address to connect to. Raises `NotAllowed` if any address of the host is refused."""
    addresses = await resolve(target.host, target.port)
    for address in addresses:
        if not policy.allows(address):
            raise NotAllowed(f"{target.host} is {address}, an address inside")
    if not addresses:
        raise OSError(f"{target.host} has no address")
    return addresses[0]


# The delivery


async def deliver(
    url: str, body: bytes, headers: Mapping[str, str], policy: Policy, resolve: Resolve = resolved
) -> int:
    """Posts a body once and answers the status, which is 2xx.

    Raises `NotAllowed`, `Undelivered`, OSError when there is no talking to the receiver, TimeoutError.
    """
    if len(body) > MOST_BODY:
        raise NotAllowed(f"the body has {len(body)} bytes: at most {MOST_BODY} are sent")
    target = target_of(url)
    request = _head(target, {**headers, "Content-Length": str(len(body))}) + body
    async with asyncio.timeout(policy.timeout_seconds):
        address = await checked_address(target, policy, resolve)
        status = await _exchange(target, address, request)
    if not 200 <= status < 300:
        raise Undelivered(status)
    return status


def _head(target: Target, headers: Mapping[str, str]) -> bytes:
    fields = {"Host": target.host_header, "Content-Type": "application/json", "Connection": "close", **headers}
    for name, value in fields.items():
        if not re.fullmatch(r"[ -~]*", name + value):
            raise NotAllowed(f"header {name!r:.80} has characters that none may have")
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")


async def _exchange(target: Target, address: str, request: bytes) -> int:
    tls = ssl.create_default_context() if target.secure else None
    reader, writer = await asyncio.open_connection(
        address, target.port, limit=MOST_HEAD, ssl=tls, server_hostname=target.host if tls else None
    )
    try:
        writer.write(request)
        await writer.drain()
        return await _status(reader)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of the answer; its body is never read."""
    for _ in range(MOST_INTERIM):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            raise ConnectionError("the receiver hung up") from None
        except asyncio.LimitOverrunError:
            raise ConnectionError(f"the answer's head has more than {MOST_HEAD} bytes") from None
        found = re.match(rb"HTTP/1\.[01] (\d{3})[ \r]", head)
        if found is None:
            raise ConnectionError("the answer isn't HTTP")
        if int(found[1]) >= 200:
            return int(found[1])
    raise ConnectionError("the receiver never comes to its answer")
