"""The way to the server breaks: what was on its way is unknown, what wasn't sent is safe to send again, and the client
comes back.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import redis

from tenure.domain.errors import OutcomeUnknown, StoreAway
from tenure.stores.redis.client import Client, ClientSettings, Connection, connect
from tenure.stores.redis.client.client import FIRST_DELAY, LONGEST_DELAY
from tenure.stores.redis.client.errors import (
    ClientClosed,
    Garbled,
    NoServer,
    NotAServer,
    NotPrimary,
    NotSent,
    Unanswered,
)
from tenure.testing.ports import free_port
from tenure.testing.proxy import FaultProxy
from tenure.testing.valkey import DURABLE, ValkeyServer
from tests.stores.resp import HELLO, Wire, pushed, saying, tiny, turn, written

T = TypeVar("T")

PATIENCE = 60.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs it, and looks whether it left a task behind."""

    async def watched() -> T:
        result = await asyncio.wait_for(work, PATIENCE)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(watched())


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    made = ValkeyServer(settings={**DURABLE, "appendfsync": "always"})
    yield made
    made.remove()


@pytest.fixture
def proxy(server: ValkeyServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as made:
        yield made


def through(proxy: FaultProxy, **how: Any) -> ClientSettings:
    return ClientSettings(host="127.0.0.1", port=proxy.port, **{"timeout": 30.0, **how})


async def in_thread(wait: Any) -> None:
    await asyncio.to_thread(wait)


def become_replica(server: ValkeyServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")


async def answered(client: Client) -> Any:
    """The reply to PING, as soon as there is one."""
    while True:
        try:
            return await client.call("PING")
        except (NotSent, Unanswered):
            continue


class TestCuts:
    def test_a_call_that_was_cut_off_before_the_server_is_unknown_and_the_next_goes_through(
        self, proxy: FaultProxy
    ) -> None:
        async def work() -> None:
            async with Client(through(proxy)) as client:
                await client.call("SET", "before", 0)
                proxy.cut(b"INCR")
                with pytest.raises(Unanswered, match="may or may not") as raised:
                    await client.call("INCR", "before")
                assert isinstance(raised.value, OutcomeUnknown)
                assert not raised.value.retryable
                assert await client.call("GET", "before") == b"0"

        run(work())

    def test_a_call_whose_reply_was_lost_is_unknown_and_was_done(self, proxy: FaultProxy) -> None:
        async def work() -> None:
            async with Client(through(proxy)) as client:
                await client.call("SET", "after", 0)
                proxy.lose(b"INCR", answered=b":1")
                with pytest.raises(Unanswered):
                    await client.call("INCR", "after")
                assert await client.call("GET", "after") == b"1"

        run(work())

    def test_calls_that_waited_for_room_were_not_sent(self, proxy: FaultProxy) -> None:
        async def work() -> None:
            async with Client(through(proxy, calls=2)) as client:
                await client.call("SET", "room", 0)
                fault = proxy.hold(b"INCR")
                calls = [asyncio.ensure_future(client.call("INCR", "room")) for _ in range(6)]
                await in_thread(fault.wait)
                proxy.cut_all()
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                fault.release()
                assert [type(outcome) for outcome in outcomes] == [Unanswered] * 2 + [NotSent] * 4
                for outcome in outcomes[2:]:
                    assert isinstance(outcome, StoreAway)
                    assert isinstance(outcome, NotSent)
                    assert outcome.retryable
                assert int(await client.call("GET", "room")) <= 2

        run(work())

    def test_every_call_of_many_is_answered_or_unknown_or_unsent(self, proxy: FaultProxy) -> None:
        """Each task adds to a key of its own; whatever breaks, the key says as much as its task knows."""

        async def add(client: Client, key: str, known: dict[str, list[int]]) -> None:
            least = most = 0
            for _ in range(60):
                try:
                    assert least < await client.call("INCR", key) <= most + 1
                    least, most = least + 1, most + 1
                except Unanswered:
                    most += 1
                except NotSent:
                    pass
            known[key] = [least, most]

        async def work() -> None:
            known: dict[str, list[int]] = {}
            async with Client(through(proxy)) as client:
                adding = [asyncio.ensure_future(add(client, f"add:{number}", known)) for number in range(20)]
                keys = [b"add:%d\r\n" % number for number in range(8)]
                faults = [proxy.cut(key) if number % 2 else proxy.lose(key) for number, key in enumerate(keys)]
                await asyncio.gather(*adding)
                assert all(fault.happened.is_set() for fault in faults)
                for key, (least, most) in known.items():
                    assert least <= int(await client.call("GET", key)) <= most
                assert any(least < most for least, most in known.values())

        run(work())

    @pytest.mark.parametrize("pushes", [False, True])
    def test_bytes_cut_at_every_position(self, pushes: bool) -> None:
        """Whole replies count, the rest is unknown; nothing is invented."""
        values: list[Any] = [b"one", [1, [b"two", None]], {b"k": 2.5}, True, b""]
        ends, stream = [0], b""
        for value in values:
            stream += (pushed(b"message", b"c", b"x") if pushes else b"") + written(value)
            ends.append(len(stream))

        async def work() -> None:
            for cut in range(len(stream) + 1):
                connection = Connection(ClientSettings(path="/nowhere"), None, math.inf, True)
                wire = Wire(connection)
                connection.connection_made(wire)
                calls = [asyncio.ensure_future(connection.call("X")) for _ in values]
                await turn()
                connection.data_received(stream[:cut])
                connection.connection_lost(None)
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                whole = sum(end <= cut for end in ends[1:])
                assert outcomes[:whole] == values[:whole]
                assert [type(outcome) for outcome in outcomes[whole:]] == [Unanswered] * (len(values) - whole)
                await connection.close()

        run(work())

    def test_bytes_cut_at_every_position_by_a_server(self) -> None:
        value = [b"abc", {b"k": [1, 2.5, None]}]
        reply = written(value)
        cut = 0

        async def answer(command: list[bytes], writer: asyncio.StreamWriter) -> None:
            writer.write(reply[:cut])
            await writer.drain()
            writer.close()

        async def work() -> None:
            nonlocal cut
            async with tiny(answer) as server:
                while cut < len(reply):
                    connection = await connect(server.settings)
                    with pytest.raises(Unanswered):
                        await connection.call("X")
                    await connection.close()
                    cut += 1
                connection = await connect(server.settings)
                assert await connection.call("X") == value
                await connection.close()

        run(work())


class TestSilence:
    def test_a_server_that_takes_everything_and_says_nothing_is_left(self, proxy: FaultProxy) -> None:
        async def work() -> None:
            async with Client(through(proxy, silence=1.0)) as client:
                assert await client.call("PING", timeout=30) == b"PONG"
                with proxy.mute(), pytest.raises(Unanswered, match="silent"):
                    await client.call("PING")
                proxy.cut_all()
                assert await client.call("PING", timeout=30) == b"PONG"

        run(work())

    def test_a_swallowed_call_harms_only_those_behind_it(self, proxy: FaultProxy) -> None:
        async def work() -> None:
            async with Client(through(proxy, silence=1.0)) as client:
                proxy.swallow(b"bomb")
                with pytest.raises(Unanswered):
                    await client.call("ECHO", "bomb")
                assert await client.call("ECHO", "bomb") == b"bomb"

        run(work())

    def test_nobody_answers_in_time(self, proxy: FaultProxy) -> None:
        async def work() -> None:
            with proxy.mute(), pytest.raises(NoServer, match=r"nobody answered within 0\.05 s"):
                await Client(through(proxy, connect_timeout=0.05)).open()
            proxy.cut_all()

        run(work())


class TestComingBack:
    def test_a_server_that_is_killed_and_started_again(self, server: ValkeyServer) -> None:
        async def work() -> None:
            prepared: list[Any] = []

            async def prepare(connection: Connection) -> None:
                prepared.append(connection.server[b"id"])
                await connection.subscribe("news")

            heard: asyncio.Queue[Any] = asyncio.Queue()
            settings = replace(ClientSettings.parse(server.url), timeout=30.0)
            async with Client(settings, prepare=prepare, on_push=heard.put_nowait) as client:
                await client.call("SET", "kept", 1)
                waiting = asyncio.ensure_future(client.call("PING"))
                assert await waiting == b"PONG"
                await in_thread(server.kill)
                with pytest.raises((NoServer, Unanswered)):
                    for _ in range(1_000):
                        await client.call("PING")
                await in_thread(server.start)
                while True:
                    try:
                        assert await client.call("GET", "kept") == b"1"
                        break
                    except NotSent:
                        continue
                await client.call("PUBLISH", "news", 1)
                assert await heard.get() == [b"message", b"news", b"1"]
                assert len(prepared) == 2

        run(work())

    def test_calls_fail_while_nobody_is_there_and_say_who(self, proxy: FaultProxy) -> None:
        async def work() -> None:
            async with Client(through(proxy)) as client:
                with proxy.away():
                    for _ in range(3):
                        with pytest.raises((NotSent, Unanswered), match=f"127.0.0.1:{proxy.port}"):
                            await client.call("PING")
                assert await answered(client) == b"PONG"

        run(work())

    def test_a_call_does_not_wait_for_a_connection_beyond_its_time(self, proxy: FaultProxy) -> None:
        async def work() -> None:
            async with Client(through(proxy, connect_timeout=30.0)) as client:
                with proxy.mute():
                    proxy.cut_all()
                    with pytest.raises((NotSent, Unanswered)):
                        await client.call("PING", timeout=0.05)
                    with pytest.raises(NotSent, match=r"no connection within 0\.05 s"):
                        await client.call("PING", timeout=0.05)
                proxy.cut_all()

        run(work())

    def test_nobody_listens(self) -> None:
        port = free_port()

        async def work() -> None:
            client = Client(f"redis://127.0.0.1:{port}")
            with pytest.raises(NoServer, match=f"127.0.0.1:{port}"):
                await client.open()
            for place in ("redis://no-such-host.invalid", "unix:///no/such/socket"):
                with pytest.raises(NoServer, match="no"):
                    await Client(place).open()

        run(work())

    def test_delays_grow_to_a_limit(self) -> None:
        longest, shortest = Client("redis://h", chance=lambda: 1.0), Client("redis://h", chance=lambda: 0.0)
        delays = [longest._delay(failures) for failures in range(1, 12)]
        assert delays[:3] == [FIRST_DELAY, FIRST_DELAY * 2, FIRST_DELAY * 4]
        assert delays[-3:] == [LONGEST_DELAY] * 3
        assert longest._delay(10_000) == LONGEST_DELAY
        assert [shortest._delay(failures) * 2 for failures in range(1, 12)] == delays

    def test_a_server_that_takes_connections_and_drops_them_is_not_asked_without_pause(self) -> None:
        pauses: list[float] = []

        def chance() -> float:
            pauses.append(1.0)
            return 0.0

        async def drop(command: list[bytes], writer: asyncio.StreamWriter) -> None:
            writer.close()

        async def work() -> None:
            async with tiny(drop) as server, Client(server.settings, chance=chance) as client:
                for _ in range(4):
                    with pytest.raises(Unanswered):
                        await client.call("PING")
                assert server.connections - 1 <= len(pauses)

        run(work())

    def test_a_preparation_that_fails_is_what_calls_raise(self, server: ValkeyServer) -> None:
        async def fail(connection: Connection) -> None:
            raise KeyError("of the preparation")

        async def work() -> None:
            client = Client(server.url, prepare=fail)
            with pytest.raises(KeyError, match="of the preparation"):
                await client.open()

        run(work())

    def test_it_closes_while_it_tries_to_come_back(self, proxy: FaultProxy) -> None:
        async def work() -> None:
            client = Client(through(proxy))
            await client.open()
            with proxy.mute():
                proxy.cut_all()
                await in_thread(proxy.refused.wait)
                waiting = asyncio.ensure_future(client.call("PING"))
                await asyncio.sleep(0)
                await client.close()
                with pytest.raises(ClientClosed):
                    await waiting
            proxy.cut_all()

        run(work())

    def test_it_closes_while_a_server_that_refused_it_says_no_more(self) -> None:
        """The first of two replies came, and was a refusal; the end of the client must not be taken for it."""

        async def work() -> None:
            async with tiny(saying(b"")) as server:
                server.hello = b"-LOADING wait\r\n"
                server.select = None
                client = Client(replace(server.settings, db=1))
                opening = asyncio.ensure_future(client.open())
                await server.greeted.wait()
                await turn()
                await client.close()
                with pytest.raises((ClientClosed, NoServer)):
                    await opening

        run(work())


class TestFailover:
    def test_a_server_that_became_a_replica_is_left_and_the_address_tried_again(self, server: ValkeyServer) -> None:
        async def work(replica: ValkeyServer, proxy: FaultProxy) -> None:
            async with Client(through(proxy)) as client:
                assert await client.call("SET", "failover", 1) == b"OK"
                await in_thread(lambda: become_replica(replica))
                proxy.target = ("127.0.0.1", server.port)
                calls = (client.call(*call) for call in (("GET", "failover"), ("SET", "failover", 2), ("ECHO", "x")))
                one, refused, last = await asyncio.gather(*calls, return_exceptions=True)
                assert (one, type(refused), last) == (b"1", NotPrimary, b"x")
                assert await client.call("SET", "failover", 3) == b"OK"
                assert await client.call("GET", "failover") == b"3"

        replica = ValkeyServer()
        try:
            with FaultProxy(replica.port) as proxy:
                run(work(replica, proxy))
        finally:
            replica.remove()

    def test_nobody_is_cut_off_by_it(self) -> None:
        """Calls on their way on the connection that is left get their replies."""
        go_on = asyncio.Event()

        async def answer(command: list[bytes], writer: asyncio.StreamWriter) -> bytes:
            if command[0] == b"SLOW":
                await go_on.wait()
            return b"-READONLY no\r\n" if command[0] == b"SET" else written(command[0])

        async def work() -> None:
            async with tiny(answer) as server, Client(server.settings) as client:
                first, slow = asyncio.ensure_future(client.call("SET")), asyncio.ensure_future(client.call("SLOW"))
                with pytest.raises(NotPrimary):
                    await first
                later = asyncio.ensure_future(client.call("LATER"))
                await turn()
                go_on.set()
                assert (await slow, await later) == (b"SLOW", b"LATER")
                assert server.connections == 2

        run(work())

    def test_a_dedicated_connection_stays(self) -> None:
        async def work() -> None:
            readonly = saying(b"-READONLY no\r\n")
            async with tiny(readonly) as server, Client(server.settings) as client, client.dedicated() as own:
                for _ in range(2):
                    with pytest.raises(NotPrimary):
                        await own.call("SET")

        run(work())


class TestOthersThere:
    @pytest.mark.parametrize(
        "hello",
        [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x16", b"+OK\r\n", b":1\r\n", b"\0" * 64],
    )
    def test_what_answers_is_no_server(self, hello: bytes) -> None:
        async def work() -> None:
            async with tiny(saying(b"+OK\r\n")) as server:
                server.hello = hello
                with pytest.raises(NotAServer, match="isn't a Redis or Valkey server") as raised:
                    await Client(server.settings).open()
                assert not raised.value.retryable

        run(work())

    def test_it_closes_without_a_word(self) -> None:
        async def work() -> None:
            async with tiny(saying(b"+OK\r\n")) as server:
                server.hello = HELLO[:-3]
                with pytest.raises(NoServer):
                    await Client(replace(server.settings, connect_timeout=0.1)).open()

        run(work())

    def test_garbage_ends_the_connection_and_the_next_one_works(self) -> None:
        garbled = True

        async def answer(command: list[bytes], writer: asyncio.StreamWriter) -> bytes:
            return b":1\r\n?what\r\n:2\r\n" if garbled else b":3\r\n"

        async def work() -> None:
            nonlocal garbled
            async with tiny(answer) as server, Client(server.settings) as client:
                calls = [asyncio.ensure_future(client.call("X")) for _ in range(3)]
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                assert outcomes[0] == 1
                assert [type(outcome) for outcome in outcomes[1:]] == [Garbled, Garbled]
                garbled = False
                assert await client.call("X") == 3
                assert server.connections == 2

        run(work())
