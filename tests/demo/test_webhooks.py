"""Webhooks: what is signed is believed, what is changed isn't, and nothing inside can be reached."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tenure.demo import webhooks
from tenure.demo.sinks import BROKEN, HOST, SLOW, HookSink
from tenure.demo.webhooks import BadSignature, NotAllowed, Policy, Undelivered, deliver, signature, target_of, verify

SECRET = b"between us"
BODY = b'{"event":"order.paid"}'
LOOPBACK = Policy(allowed=(f"{HOST}/32",), timeout_seconds=30)
PATIENCE = 30.0


def headers(body: bytes = BODY, secret: bytes = SECRET) -> dict[str, str]:
    at = int(time.time())
    return {webhooks.DELIVERY_HEADER: "job-1", webhooks.SIGNATURE_HEADER: signature(secret, at, body)}


# Signatures


def test_what_was_signed_is_believed() -> None:
    verify(SECRET, signature(SECRET, 1_000, BODY), BODY, now=1_299)


@pytest.mark.parametrize(
    ("secret", "header", "body", "now", "says"),
    [
        (SECRET, signature(SECRET, 1_000, BODY), BODY + b" ", 1_000, "wrong"),
        (b"other", signature(SECRET, 1_000, BODY), BODY, 1_000, "wrong"),
        (SECRET, signature(SECRET, 1_000, BODY).replace("t=1000", "t=1001"), BODY, 1_000, "wrong"),
        (SECRET, signature(SECRET, 1_000, BODY), BODY, 1_301, "too old"),
        (SECRET, signature(SECRET, 1_000, BODY), BODY, 600, "too old"),
        (SECRET, "", BODY, 1_000, "can't be read"),
        (SECRET, "t=1000", BODY, 1_000, "can't be read"),
        (SECRET, "t=1000,v1=abc", BODY, 1_000, "can't be read"),
    ],
    ids=["body", "secret", "time", "old", "from the future", "none", "half", "short"],
)
def test_what_was_tampered_with_isnt_believed(secret: bytes, header: str, body: bytes, now: int, says: str) -> None:
    with pytest.raises(BadSignature, match=says):
        verify(secret, header, body, now)


# Deliveries


def test_a_webhook_arrives_and_is_believed() -> None:
    async def main() -> None:
        async with HookSink(SECRET) as sink:
            assert await deliver(f"{sink.url}/orders?from=shop", BODY, headers(), LOOPBACK) == 204
            (request,) = sink.requests
            assert (request.path, request.body, request.id) == ("/orders?from=shop", BODY, "job-1")

    asyncio.run(main())


def test_a_receiver_rejects_what_it_cant_believe() -> None:
    async def main() -> None:
        async with HookSink(SECRET) as sink:
            with pytest.raises(Undelivered, match="401") as refused:
                await deliver(sink.url, BODY, headers(secret=b"guessed"), LOOPBACK)
            assert refused.value.permanent
            assert (sink.rejected, sink.requests) == (1, [])

    asyncio.run(main())


def test_a_receiver_that_is_broken_may_be_tried_again() -> None:
    async def main() -> None:
        async with HookSink(SECRET) as sink:
            with pytest.raises(Undelivered, match="500") as refused:
                await deliver(sink.url + BROKEN, BODY, headers(), LOOPBACK)
            assert not refused.value.permanent

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "permanent"),
    [(301, True), (400, True), (404, True), (410, True), (408, False), (425, False), (429, False), (503, False)],
)
def test_which_answers_are_final(status: int, permanent: bool) -> None:
    assert Undelivered(status).permanent is permanent


def test_a_receiver_that_never_answers_costs_no_more_than_the_timeout() -> None:
    async def main() -> None:
        async with HookSink(SECRET) as sink:
            started = time.monotonic()
            with pytest.raises(TimeoutError):
                await deliver(sink.url + SLOW, BODY, headers(), Policy(allowed=LOOPBACK.allowed, timeout_seconds=0.1))
            assert time.monotonic() - started < 4

    asyncio.run(main())


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """A receiver that says this to everyone."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"


def test_a_redirect_isnt_followed() -> None:
    async def main() -> None:
        async with HookSink(SECRET) as elsewhere:
            answer = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere.url}\r\n\r\n".encode()
            async with answering(answer) as url:
                with pytest.raises(Undelivered, match="302") as refused:
                    await deliver(url, BODY, headers(), LOOPBACK)
            assert refused.value.permanent
            assert elsewhere.requests == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "hung up"),
        (b"HTTP/1.1 200 OK\r\nX-Half:", "hung up"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "isn't HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "more than 16384 bytes"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50, "never comes to its answer"),
    ],
    ids=["nothing", "half", "another protocol", "too much", "too often"],
)
def test_an_answer_that_is_none_may_be_tried_again(answer: bytes, says: str) -> None:
    async def main() -> None:
        async with answering(answer) as url:
            with pytest.raises(ConnectionError, match=says):
                await deliver(url, BODY, headers(), LOOPBACK)

    asyncio.run(main())


def test_an_answer_after_a_hint_counts() -> None:
    async def main() -> int:
        async with answering(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n") as url:
            return await deliver(url, BODY, headers(), LOOPBACK)

    assert asyncio.run(main()) == 202


def test_too_much_isnt_sent() -> None:
    with pytest.raises(NotAllowed, match="bytes"):
        asyncio.run(deliver("http://shop.example/", b"x" * 300_000, {}, LOOPBACK))


def test_a_header_of_two_lines_isnt_sent() -> None:
    with pytest.raises(NotAllowed, match="header"):
        asyncio.run(deliver("http://shop.example/", BODY, {"X": "1\r\nHost: inside"}, LOOPBACK))


# Where they may go

INSIDE = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.0.0.7",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.7",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
]


class Names:
    """A name server: one name, these addresses; it counts how often it is asked."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._addresses


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_refused(address: str) -> None:
    assert not Policy().allows(address)


@pytest.mark.parametrize("address", INSIDE)
def test_a_name_that_leads_inside_is_refused(address: str) -> None:
    with pytest.raises(NotAllowed, match="inside"):
        asyncio.run(deliver("https://harmless.example/", BODY, {}, Policy(), Names(address)))


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"])
def test_an_address_outside_is_fine(address: str) -> None:
    assert Policy().allows(address)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]"]
)
def test_no_spelling_of_this_machine_is_called(host: str) -> None:
    async def main() -> None:
        async with HookSink(SECRET) as sink:
            with pytest.raises(NotAllowed, match="inside"):
                await deliver(f"http://{host}:{sink.port}/", BODY, headers(), Policy())
            assert (sink.requests, sink.rejected) == ([], 0)

    asyncio.run(main())


def test_one_bad_address_among_good_ones_is_enough() -> None:
    with pytest.raises(NotAllowed, match=r"10\.0\.0\.7"):
        asyncio.run(deliver("http://mixed.example/", BODY, {}, Policy(), Names("8.8.8.8", "10.0.0.7")))


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    async def main() -> None:
        async with HookSink(SECRET) as sink:
            names = Names(HOST)
            assert await deliver(f"http://partner.example:{sink.port}/", BODY, headers(), LOOPBACK, names) == 204
            assert names.asked == ["partner.example"]
            assert sink.requests[0].headers["host"] == f"partner.example:{sink.port}"

    asyncio.run(main())


def test_what_is_allowed_allows_nothing_else() -> None:
    assert LOOPBACK.allows("127.0.0.1")
    assert not LOOPBACK.allows("127.0.0.2")
    assert not LOOPBACK.allows("::1")
    assert not LOOPBACK.allows("::ffff:127.0.0.1")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://shop.example/",
        "file:///etc/passwd",
        "gopher://shop.example/",
        "/orders",
        "http://",
        "http:///orders",
        "http://me:secret@shop.example/",
        "http://me@shop.example/",
        "http://shop.example:99999/",
        "http://shop.example:port/",
        "http://[::1/",
        "http://sh op.example/",
        "http://a..example/",
        "http://shop.example\x00.evil.example/",
    ],
)
def test_a_url_that_is_no_plain_one_is_refused(url: str) -> None:
    with pytest.raises(NotAllowed):
        target_of(url)


def test_a_url_is_taken_apart() -> None:
    assert target_of("https://Shop.example") == webhooks.Target(True, "shop.example", 443, "/")
    plain = target_of("http://bücher.example:8080/a b?q=ü#part")
    assert plain == webhooks.Target(False, "xn--bcher-kva.example", 8080, "/a%20b?q=%C3%BC")
    assert plain.host_header == "xn--bcher-kva.example:8080"
    assert target_of("http://[2606:4700::1]/").host_header == "[2606:4700::1]"


def test_a_request_that_isnt_one_is_answered_and_the_receiver_goes_on() -> None:
    async def main() -> None:
        async with HookSink(SECRET) as sink, asyncio.timeout(PATIENCE):
            for request in (b"GET / HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"):
                reader, writer = await asyncio.open_connection(HOST, sink.port)
                writer.write(request)
                assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
                writer.close()
            assert await deliver(sink.url, BODY, headers(), LOOPBACK) == 204

    asyncio.run(main())
