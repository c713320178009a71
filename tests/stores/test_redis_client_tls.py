"""TLS, by a proxy that ends it: the server must prove its name, and the client itself where it is asked to."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis
import trustme

from tenure.stores.redis.client import Client, ClientSettings
from tenure.stores.redis.client.errors import NoServer, NotAServer
from tenure.testing.valkey import ValkeyServer

T = TypeVar("T")

PATIENCE = 60.0


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    made = ValkeyServer(password="p")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # an end is gone: so is the other, then
    finally:
        writer.close()


@asynccontextmanager
async def terminating(
    target: int, certificate: trustme.LeafCert, clients: trustme.CA | None = None
) -> AsyncIterator[int]:
    """The port of a proxy that speaks TLS with its clients, and not with the target."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_copy(reader, here), _copy(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def test_calls_over_tls(server: ValkeyServer, authority: trustme.CA, trusted: Path) -> None:
    async def work() -> None:
        async with (
            terminating(server.port, authority.issue_cert("localhost")) as port,
            Client(f"rediss://:p@localhost:{port}?ssl_ca_certs={trusted}") as client,
        ):
            large = b"x" * 1_000_000
            replies = await asyncio.gather(*(client.call("ECHO", large[: size * 10_000]) for size in range(100)))
            assert [len(reply) for reply in replies] == [size * 10_000 for size in range(100)]

    run(work())


def test_a_server_that_nobody_vouches_for(server: ValkeyServer, authority: trustme.CA) -> None:
    async def work() -> None:
        async with terminating(server.port, authority.issue_cert("localhost")) as port:
            with pytest.raises(NotAServer, match="CERTIFICATE_VERIFY_FAILED"):
                await Client(f"rediss://:p@localhost:{port}").open()
            async with Client(f"valkeys://:p@localhost:{port}?ssl_cert_reqs=none") as client:
                assert await client.call("PING") == b"PONG"

    run(work())


def test_a_server_of_another_name(server: ValkeyServer, authority: trustme.CA, trusted: Path) -> None:
    async def work() -> None:
        async with terminating(server.port, authority.issue_cert("elsewhere.example")) as port:
            url = f"rediss://:p@localhost:{port}?ssl_ca_certs={trusted}"
            with pytest.raises(NotAServer, match=r"[Hh]ostname mismatch"):
                await Client(url).open()
            async with Client(f"{url}&ssl_check_hostname=false") as client:
                assert await client.call("PING") == b"PONG"

    run(work())


def test_a_client_that_proves_itself(
    server: ValkeyServer, authority: trustme.CA, trusted: Path, tmp_path: Path
) -> None:
    own = authority.issue_cert("client@example.org")
    own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))

    async def work() -> None:
        async with terminating(server.port, authority.issue_cert("localhost"), clients=authority) as port:
            url = f"rediss://:p@localhost:{port}?ssl_ca_certs={trusted}"
            with pytest.raises((NotAServer, NoServer)):
                await Client(url).open()
            async with Client(f"{url}&ssl_certfile={tmp_path}/own.pem") as client:
                assert await client.call("PING") == b"PONG"
            with redis.Redis(
                host="localhost",
                port=port,
                password="p",
                ssl=True,
                ssl_ca_certs=str(trusted),
                ssl_certfile=f"{tmp_path}/own.pem",
            ) as theirs:
                async with Client(ClientSettings.of(theirs)) as client:
                    assert await client.call("PING") == b"PONG"

    run(work())


def test_tls_with_a_server_that_has_none(server: ValkeyServer) -> None:
    async def work() -> None:
        with pytest.raises((NotAServer, NoServer), match=f"rediss://localhost:{server.port}"):
            await Client(f"rediss://:p@localhost:{server.port}?connect_timeout=0.5").open()

    run(work())


def test_no_tls_with_a_server_that_has_it(server: ValkeyServer, authority: trustme.CA) -> None:
    async def work() -> None:
        async with terminating(server.port, authority.issue_cert("localhost")) as port:
            with pytest.raises((NotAServer, NoServer), match=f"redis://localhost:{port}"):
                await Client(f"redis://:p@localhost:{port}?connect_timeout=0.5").open()

    run(work())
