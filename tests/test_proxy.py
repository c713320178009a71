"""The proxy that breaks connections does so where it was told to, and nowhere else."""

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from tenure.testing.proxy import FaultProxy


class Echo(socketserver.BaseRequestHandler):
    """Answers with what it was sent, and remembers it."""

    heard: list[bytes]

    def handle(self) -> None:
        while message := self.request.recv(1_000):
            self.heard.append(message)
            self.request.sendall(message)


@pytest.fixture
def heard() -> list[bytes]:
    return []


@pytest.fixture
def proxy(heard: list[bytes]) -> Iterator[FaultProxy]:
    handler = type("Handler", (Echo,), {"heard": heard})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with FaultProxy(server.server_address[1]) as made:
            yield made
        server.shutdown()


def connected(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)


def said(client: socket.socket, message: bytes) -> bytes:
    client.sendall(message)
    return client.recv(1_000)


def test_only_the_next_message_with_the_bytes_is_cut_off(proxy: FaultProxy, heard: list[bytes]) -> None:
    with connected(proxy) as one, connected(proxy) as two:
        fault = proxy.cut(b"bomb")
        assert said(one, b"hello") == b"hello"
        assert said(one, b"a bomb!") == b""
        fault.wait()
        assert said(two, b"a bomb!") == b"a bomb!"
    assert heard == [b"hello", b"a bomb!"]


def test_bytes_that_come_in_two_messages_count(proxy: FaultProxy, heard: list[bytes]) -> None:
    with connected(proxy) as client:
        assert said(client, b"a bo") == b"a bo"
        proxy.cut(b"bomb")
        assert said(client, b"mb") == b""
    assert heard == [b"a bo"]


def test_a_fault_sees_only_what_is_sent_after_it_was_asked_for(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        assert said(client, b"bomb") == b"bomb"
        proxy.cut(b"bomb")
        assert said(client, b"hello") == b"hello"


def test_an_answer_is_lost_and_the_server_has_heard(proxy: FaultProxy, heard: list[bytes]) -> None:
    with connected(proxy) as client:
        fault = proxy.lose(b"order", answered=b"please")
        client.sendall(b"order")
        client.sendall(b", please")
        assert client.recv(1_000) == b""
        fault.wait()
    assert b"".join(heard) == b"order, please"


def test_who_is_mute_hears_nothing_and_stays_so(proxy: FaultProxy, heard: list[bytes]) -> None:
    with connected(proxy) as old:
        assert said(old, b"hello") == b"hello"
        with proxy.mute(), connected(proxy) as new:
            new.sendall(b"hello?")
            proxy.refused.wait(30)
        old.sendall(b"hello?")
        old.settimeout(0.05)
        with pytest.raises(TimeoutError):
            old.recv(1_000)
        with connected(proxy) as later:
            assert said(later, b"hello") == b"hello"
    assert heard == [b"hello", b"hello"]


def test_nobody_gets_in_while_it_refuses(proxy: FaultProxy) -> None:
    with connected(proxy) as old:
        assert said(old, b"hello") == b"hello"
        with proxy.refusing():
            with connected(proxy) as new:
                assert new.recv(1_000) == b""
            assert said(old, b"still here") == b"still here"
        with proxy.away():
            assert old.recv(1_000) == b""


def test_a_connection_that_is_cut_while_the_proxy_connects_leaves_nothing_behind(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = socket.create_connection
    came = threading.Event()

    def cut_first(address: tuple[str, int]) -> socket.socket:
        proxy.cut_all()
        came.set()
        return connect(address)

    monkeypatch.setattr(socket, "create_connection", cut_first)
    with socket.socket() as client:
        client.connect(("127.0.0.1", proxy.port))
        assert came.wait(30)
    for thread in threading.enumerate():
        if thread.name == "fault-proxy" and thread is not proxy._thread:
            thread.join()
