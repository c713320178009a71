"""What a server refuses is typed, says what to do, and whether to try again helps."""

import asyncio
import socket
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from tenure.domain.errors import StoreAway, StoreError, StoreFull, StoreUnavailable, Unsupported
from tenure.stores.redis.client import Client, ClientSettings, errors
from tenure.stores.redis.client.errors import ServerError, server_error
from tenure.testing.valkey import ValkeyServer
from tests.stores.resp import saying, tiny

T = TypeVar("T")

PATIENCE = 60.0
PASSWORD = "geheim/:@?#ü"
QUIET = {"save": '""', "appendonly": "no"}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


@contextmanager
def serving(settings: Mapping[str, str] = QUIET, **how: Any) -> Iterator[ValkeyServer]:
    server = ValkeyServer(settings={**QUIET, **settings}, **how)
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with serving(password=PASSWORD, users=["reader on >see ~mine:* resetchannels -@all +get +hello +ping"]) as made:
        yield made


async def refused(settings: ClientSettings | str, *calls: Sequence[Any]) -> ServerError:
    """The error of the last of these calls, or of the connection itself."""
    with pytest.raises(ServerError) as raised:
        async with Client(settings) as client:
            for call in calls:
                await client.call(*call)
    return raised.value


class TestLogin:
    def test_the_right_one(self, server: ValkeyServer) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                assert await client.call("ACL", "WHOAMI") == b"default"
            async with Client(f"valkey://reader:see@127.0.0.1:{server.port}") as client:
                assert await client.call("GET", "mine:x") is None

        run(work())

    @pytest.mark.parametrize("login", ["", ":wrong@", "reader:wrong@", "nobody:see@"])
    def test_a_wrong_one(self, server: ValkeyServer, login: str) -> None:
        error = run(refused(f"redis://{login}127.0.0.1:{server.port}"))
        assert type(error) is errors.LoginRefused
        assert isinstance(error, StoreUnavailable)
        assert not error.retryable
        assert "give the right user and password" in str(error)

    def test_a_password_is_in_no_message_and_no_repr(self, server: ValkeyServer) -> None:
        settings = replace(ClientSettings.parse(server.url), password="geheimnis")
        error = run(refused(settings))
        assert "geheimnis" not in f"{error} {error!r} {settings} {settings!r} {settings.shown} {Client(settings)!r}"

    def test_what_an_acl_user_may_not_do(self, server: ValkeyServer) -> None:
        reader = f"redis://reader:see@127.0.0.1:{server.port}"
        for call in (("SET", "mine:x", 1), ("GET", "yours:x")):
            error = run(refused(reader, call))
            assert type(error) is errors.NoPermission
            assert isinstance(error, StoreUnavailable)
            assert not error.retryable
            assert "ACL SETUSER" in str(error)

    def test_the_connection_has_a_name_and_its_database(self, server: ValkeyServer) -> None:
        async def work() -> None:
            async with Client(f"{server.url}/7?name=own.name") as client:
                assert await client.call("CLIENT", "GETNAME") == b"own.name"
                assert b" db=7 " in await client.call("CLIENT", "INFO")

        run(work())

    def test_a_database_that_is_not_there(self, server: ValkeyServer) -> None:
        error = run(refused(f"{server.url}/999"))
        assert type(error) is errors.NoSuchDatabase
        assert not error.retryable
        assert "`databases`" in str(error)

    def test_a_unix_socket(self, server: ValkeyServer) -> None:
        async def work() -> None:
            settings = ClientSettings(path=str(server.socket), password=PASSWORD, db=2)
            async with Client(settings) as client:
                assert b" db=2 " in await client.call("CLIENT", "INFO")

        run(work())


class TestRealRefusals:
    def test_out_of_memory(self) -> None:
        with serving({"maxmemory": "1mb", "maxmemory-policy": "noeviction"}) as server:
            error = run(refused(server.url, *(("SET", number, b"x" * 100_000) for number in range(20))))
        assert type(error) is errors.OutOfMemory
        assert isinstance(error, StoreFull)
        assert error.retryable
        assert "maxmemory" in str(error)

    def test_a_replica(self) -> None:
        with serving({"replicaof": "127.0.0.1 1"}) as server:
            error = run(refused(server.url, ("SET", "x", 1)))
        assert type(error) is errors.NotPrimary
        assert error.retryable
        assert "connect to the primary" in str(error)

    def test_a_replica_that_has_lost_its_primary(self) -> None:
        with serving({"replicaof": "127.0.0.1 1", "replica-serve-stale-data": "no"}) as server:
            error = run(refused(server.url, ("GET", "x")))
        assert type(error) is errors.PrimaryAway
        assert isinstance(error, StoreAway)

    def test_too_few_replicas(self) -> None:
        with serving({"min-replicas-to-write": "1"}) as server:
            error = run(refused(server.url, ("SET", "x", 1)))
        assert type(error) is errors.TooFewReplicas
        assert isinstance(error, StoreAway)

    def test_a_node_of_a_cluster(self) -> None:
        with serving({"cluster-enabled": "yes"}) as server:
            down = run(refused(server.url, ("GET", "x")))
            database = run(refused(f"{server.url}/1"))
        assert type(down) is errors.ClusterDown
        assert isinstance(down, StoreAway)
        assert type(database) is errors.NoSuchDatabase

    def test_a_script_that_runs_and_runs(self) -> None:
        async def work(url: str) -> ServerError:
            async with Client(url) as client, Client(url) as other:
                endless = asyncio.ensure_future(client.call("EVAL", "while true do end", 0))
                busy = None
                while busy is None:
                    try:
                        await other.call("PING")
                    except errors.ServerBusy as error:
                        busy = error
                await other.call("SCRIPT", "KILL")
                with pytest.raises(ServerError):
                    await endless
                assert await client.call("PING") == b"PONG"
                return busy

        with serving({"busy-reply-threshold": "1"}) as server:
            error = run(work(server.url))
        assert isinstance(error, StoreAway)
        assert error.retryable
        assert "SCRIPT KILL" in str(error)

    def test_no_connection_left(self) -> None:
        async def work(url: str) -> ServerError:
            async with Client(url):
                return await refused(f"{url}/1")

        with serving({"maxclients": "1"}) as server:
            error = run(work(server.url))
        assert type(error) is errors.ServerBusy
        assert "maxclients" in str(error)

    @pytest.mark.parametrize("call", [("EVALSHA", "0" * 40, 0), ("FCALL", "none", 0)])
    def test_what_is_not_loaded(self, server: ValkeyServer, call: Any) -> None:
        error = run(refused(server.url, call))
        assert type(error) is errors.NotLoaded
        assert not error.retryable
        assert "load it" in str(error)

    def test_any_other_error_is_what_the_server_said(self, server: ValkeyServer) -> None:
        error = run(refused(server.url, ("SET", "s", 1), ("LPUSH", "s", 1)))
        assert type(error) is ServerError
        assert isinstance(error, StoreError)
        assert not isinstance(error, StoreUnavailable)
        assert error.code == "WRONGTYPE"
        assert str(error).startswith(f"redis://127.0.0.1:{server.port}: WRONGTYPE Operation against")

    def test_errors_inside_a_reply_are_typed_too(self, server: ValkeyServer) -> None:
        async def work() -> list[Any]:
            async with Client(server.url) as client:
                replies = await client.pipeline([("MULTI",), ("SET", "s", 1), ("EVALSHA", "0" * 40, 0), ("EXEC",)])
                last: list[Any] = replies[-1]
                return last

        assert type(run(work())[1]) is errors.NotLoaded


SAID: dict[str, type[ServerError]] = {
    "LOADING Redis is loading the dataset in memory": errors.ServerLoading,
    "LOADING Valkey is loading the dataset in memory": errors.ServerLoading,
    "BUSY Redis is busy running a script.": errors.ServerBusy,
    "READONLY You can't write against a read only replica.": errors.NotPrimary,
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)": errors.NotPrimary,
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": errors.PrimaryAway,
    "MISCONF Errors writing to the AOF file: No space left on device": errors.CannotPersist,
    "NOREPLICAS Not enough good replicas to write.": errors.TooFewReplicas,
    "OOM command not allowed when used memory > 'maxmemory'.": errors.OutOfMemory,
    "NOSCRIPT No matching script. Please use EVAL.": errors.NotLoaded,
    "ERR Function not found": errors.NotLoaded,
    "NOPERM User x has no permissions to run the 'set' command": errors.NoPermission,
    "NOAUTH Authentication required.": errors.LoginRefused,
    "WRONGPASS invalid username-password pair or user is disabled.": errors.LoginRefused,
    "DENIED Redis is running in protected mode because": errors.LoginRefused,
    "ERR invalid password": errors.LoginRefused,
    "ERR max number of clients reached": errors.ServerBusy,
    "ERR DB index is out of range": errors.NoSuchDatabase,
    "ERR SELECT is not allowed in cluster mode": errors.NoSuchDatabase,
    "NOPROTO unsupported protocol version": errors.TooOld,
    "ERR unknown command `HELLO`, with args beginning with: `3`, ": errors.TooOld,
    "CLUSTERDOWN Hash slot not served": errors.ClusterDown,
    "TRYAGAIN Multiple keys request during rehashing of slot": errors.ClusterDown,
    "MOVED 3999 127.0.0.1:6381": errors.Moved,
    "ASK 3999 127.0.0.1:6381": errors.Asked,
    "EXECABORT Transaction discarded because of previous errors.": ServerError,
    "ERR syntax error": ServerError,
    "": ServerError,
    "MOVED": ServerError,
    "MOVED x y": ServerError,
    "MOVED 1": ServerError,
}
PASSING = {"ServerLoading", "ServerBusy", "NotPrimary", "PrimaryAway", "CannotPersist", "TooFewReplicas", "OutOfMemory"}
PASSING |= {"ClusterDown"}


class TestWhatServersSay:
    @pytest.mark.parametrize(("said", "kind"), SAID.items())
    def test_each_has_its_type(self, said: str, kind: type[ServerError]) -> None:
        error = server_error("redis://h:1", said)
        assert type(error) is kind
        assert error.said == said
        assert str(error).startswith(f"redis://h:1: {said}")
        assert bool(kind.advice) == (kind is not ServerError)
        assert kind.retryable == (kind.__name__ in PASSING)

    @pytest.mark.parametrize("said", ["LOADING it reads", "READONLY a replica", "MISCONF no room"])
    def test_a_server_that_says_so(self, said: str) -> None:
        async def work() -> ServerError:
            async with tiny(saying(f"-{said}\r\n".encode())) as server:
                return await refused(server.settings, ("SET", "x", 1))

        assert type(run(work())) is SAID[next(text for text in SAID if text.startswith(said.split()[0]))]

    def test_a_server_that_is_too_old(self) -> None:
        async def work() -> ServerError:
            async with tiny(saying(b"+OK\r\n")) as server:
                server.hello = b"-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"
                return await refused(server.settings)

        error = run(work())
        assert isinstance(error, Unsupported)
        assert "Redis 6 or newer" in str(error)

    @pytest.mark.parametrize(
        ("address", "host", "port"),
        [("127.0.0.1:6381", "127.0.0.1", 6381), (":7", "", 7), ("::1:7", "::1", 7), ("[fe80::1]:7", "fe80::1", 7)],
    )
    def test_a_redirection_names_slot_and_address(self, address: str, host: str, port: int) -> None:
        for code, kind in (("MOVED", errors.Moved), ("ASK", errors.Asked)):
            error = server_error("redis://h:1", f"{code} 3999 {address}")
            assert isinstance(error, kind)
            assert (error.slot, error.host, error.port) == (3999, host, port)
        settings = ClientSettings(host="asked", password="p", db=0).at(host, port)
        assert (settings.host, settings.port, settings.password) == (host or "asked", port, "p")


def test_the_tree_drawn_at_the_top_is_the_tree() -> None:
    drawn = errors.__doc__ or ""
    classes = {
        name for name, one in vars(errors).items() if isinstance(one, type) and one.__module__ == errors.__name__
    }
    assert all(f"── {name}" in drawn for name in classes)


def test_loopback_has_names_of_both_kinds(server: ValkeyServer) -> None:
    """The server listens on 127.0.0.1 only; "localhost" is ::1 first where there is one."""

    async def work() -> None:
        async with Client(ClientSettings(host="localhost", port=server.port, password=PASSWORD)) as client:
            assert await client.call("PING") == b"PONG"

    assert socket.gethostbyname("localhost") == "127.0.0.1"
    run(work())
