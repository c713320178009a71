"""Calls of many tasks over one connection: each gets its own reply, or an error that says whether it was sent."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import uvloop

from tenure.domain.errors import InvalidValue, NotReady
from tenure.stores.redis.client import Client, ClientSettings, Connection, connect
from tenure.stores.redis.client.errors import ClientClosed, Garbled, NotSent, ServerError, TimedOut, Unanswered
from tenure.testing.valkey import ValkeyServer
from tests.stores.resp import Wire, pushed, tiny, turn, written

T = TypeVar("T")

PATIENCE = 60.0
OFF_LINE = ClientSettings(path="/nowhere")
"""For connections over a `Wire`."""


Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS: dict[str, Loop] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Loop:
    return LOOPS[request.param]


def run(work: Coroutine[Any, Any, T], loop: Loop = asyncio.new_event_loop) -> T:
    """Runs it, and looks whether it left a task behind."""

    async def watched() -> T:
        result = await asyncio.wait_for(work, PATIENCE)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(watched())


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    made = ValkeyServer()
    yield made
    made.remove()


def wired(settings: ClientSettings = OFF_LINE, **how: Any) -> tuple[Connection, Wire]:
    connection = Connection(settings, **{"on_push": None, "silence": math.inf, "shared": True, **how})
    wire = Wire(connection)
    connection.connection_made(wire)
    return connection, wire


async def on_some_wire() -> tuple[Connection, Wire]:
    return wired()


@asynccontextmanager
async def on_wire(settings: ClientSettings = OFF_LINE, **how: Any) -> AsyncIterator[tuple[Connection, Wire]]:
    connection, wire = wired(settings, **how)
    try:
        yield connection, wire
    finally:
        await connection.close()


def calling(connection: Connection, *args: Any, **how: Any) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(connection.call(*args, **how))


class TestReplies:
    def test_ten_thousand_calls_of_two_hundred_tasks_get_their_own(self, server: ValkeyServer, loop: Loop) -> None:
        async def caller(client: Client, number: int) -> None:
            chance = random.Random(number)
            for step in range(50):
                text = f"{number}-{step}-{'x' * chance.choice((1, 10, 100, 5_000))}".encode()
                if chance.random() < 0.1:
                    with pytest.raises(ServerError) as raised:
                        await client.call("EVAL", "return redis.error_reply(ARGV[1])", 0, b"MINE " + text)
                    assert raised.value.said.encode() == b"MINE " + text
                else:
                    assert await client.call("ECHO", text) == text

        async def work() -> None:
            async with Client(server.url) as client:
                await asyncio.gather(*(caller(client, number) for number in range(200)))

        run(work(), loop)

    def test_a_pipeline_has_its_errors_in_their_places(self, server: ValkeyServer) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                replies = await client.pipeline([("SET", "p", 1), ("LPUSH", "p", 1), ("INCRBY", "p", 2), ("GET", b"p")])
                assert replies[0] == b"OK"
                assert isinstance(replies[1], ServerError)
                assert replies[1].code == "WRONGTYPE"
                assert replies[2:] == [3, b"3"]
                assert await client.pipeline([]) == []

        run(work())

    def test_nobody_comes_between_the_commands_of_a_pipeline(self, server: ValkeyServer) -> None:
        async def one(client: Client, number: int) -> None:
            text = b"%d" % number
            replies = await client.pipeline(
                [("MULTI",), ("SET", "between", number), ("GET", "between"), ("GETSET", "between", "x"), ("EXEC",)]
            )
            assert replies == [b"OK", b"QUEUED", b"QUEUED", b"QUEUED", [b"OK", text, text]]

        async def work() -> None:
            async with Client(server.url) as client:
                others = (client.call("SET", "between", "other") for _ in range(100))
                await asyncio.gather(*(one(client, number) for number in range(100)), *others)

        run(work())

    def test_what_resp3_has_comes_as_it_is(self, server: ValkeyServer) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                await client.call("HSET", "h", "a", 1)
                assert await client.call("HGETALL", "h") == {b"a": b"1"}
                assert await client.call("GET", "nothing") is None
                await client.call("ZADD", "z", 1.5, "m")
                assert await client.call("ZSCORE", "z", "m") == 1.5
                mixed = "redis.setresp(3); return {false, true, redis.error_reply('MINE x')}"
                no, yes, error = await client.call("EVAL", mixed, 0)
                assert (no, yes) == (False, True)
                assert isinstance(error, ServerError)

        run(work())

    def test_false_is_a_reply(self) -> None:
        async def work() -> None:
            async with on_wire() as (connection, _):
                first, second = calling(connection, "A"), calling(connection, "B")
                await turn()
                connection.data_received(b"#f\r\n:1\r\n")
                assert (await first, await second) == (False, 1)

        run(work())

    def test_an_error_that_is_no_utf8_is_an_error(self, server: ValkeyServer) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                with pytest.raises(ServerError, match="ODD"):
                    await client.call("EVAL", "return redis.error_reply('ODD \\255\\254')", 0)
                assert await client.call("PING") == b"PONG"

        run(work())


class TestWriting:
    def test_the_calls_of_one_turn_leave_in_one_write(self) -> None:
        async def work() -> None:
            async with on_wire() as (connection, wire):
                calls = [calling(connection, "ECHO", number) for number in range(50)]
                await turn()
                sizes = [write.count(b"ECHO") for write in wire.writes]
                assert sizes == [1, 49]  # the first seemed to be alone
                connection.data_received(b"".join(written(number) for number in range(50)))
                assert await asyncio.gather(*calls) == list(range(50))
                more = [calling(connection, "ECHO", number) for number in range(50)]
                await turn()
                assert [write.count(b"ECHO") for write in wire.writes[2:]] == [50]
                connection.data_received(b":1\r\n" * 50)
                await asyncio.gather(*more)

        run(work())

    def test_a_lone_caller_waits_for_no_turn(self) -> None:
        async def work() -> None:
            async with on_wire() as (connection, wire):
                for number in range(3):
                    call = connection.call("ECHO", number)
                    asyncio.get_running_loop().call_soon(connection.data_received, b":%d\r\n" % number)
                    assert await call == number
                    assert len(wire.writes) == number + 1

        run(work())

    def test_no_more_calls_than_the_limit_are_on_their_way(self) -> None:
        async def work() -> None:
            async with on_wire(replace(OFF_LINE, calls=4)) as (connection, wire):
                calls = [calling(connection, "ECHO", number) for number in range(10)]
                await turn()
                assert b"".join(wire.writes).count(b"ECHO") == 4
                connection.data_received(b":0\r\n:1\r\n")
                await turn()
                assert b"".join(wire.writes).count(b"ECHO") == 6
                for number in range(2, 10):
                    connection.data_received(b":%d\r\n" % number)
                    await turn()
                assert await asyncio.gather(*calls) == list(range(10))

        run(work())

    def test_a_pipeline_counts_by_its_commands(self) -> None:
        async def work() -> None:
            async with on_wire(replace(OFF_LINE, calls=4)) as (connection, wire):
                loop = asyncio.get_running_loop()
                first = loop.create_task(connection.pipeline([("A",), ("A",), ("A",)]))
                second = loop.create_task(connection.pipeline([("B",)] * 9))
                await turn()
                assert b"B" not in b"".join(wire.writes)
                connection.data_received(b":1\r\n" * 3)
                await turn()
                assert b"".join(wire.writes).count(b"B") == 9  # larger than the room: it goes alone
                connection.data_received(b":2\r\n" * 9)
                assert await first + await second == [1] * 3 + [2] * 9

        run(work())

    def test_no_more_bytes_than_the_limit_are_on_their_way(self) -> None:
        async def work() -> None:
            async with on_wire(replace(OFF_LINE, sent_bytes=1_000)) as (connection, wire):
                calls = [calling(connection, "ECHO", b"x" * 400) for _ in range(3)]
                calls.append(calling(connection, "ECHO", b"x" * 5_000))
                await turn()
                assert b"".join(wire.writes).count(b"ECHO") == 2
                for expected in (3, 3, 4, 4):
                    connection.data_received(b":1\r\n")
                    await turn()
                    assert b"".join(wire.writes).count(b"ECHO") == expected
                await asyncio.gather(*calls)

        run(work())

    def test_nothing_is_written_while_the_transport_is_full(self) -> None:
        async def work() -> None:
            async with on_wire() as (connection, wire):
                connection.pause_writing()
                call = calling(connection, "PING")
                await turn()
                assert wire.writes == []
                connection.resume_writing()
                await turn()
                assert len(wire.writes) == 1
                connection.data_received(b"+PONG\r\n")
                assert await call == b"PONG"

        run(work())

    def test_large_values_both_ways_do_not_stand_in_each_others_way(self, server: ValkeyServer, loop: Loop) -> None:
        async def work() -> None:
            async with Client(replace(ClientSettings.parse(server.url), timeout=50.0)) as client:
                large = [bytes([number]) * 3_000_000 for number in range(12)]
                assert await asyncio.gather(*(client.call("ECHO", text) for text in large)) == large

        run(work(), loop)


class TestTime:
    def test_a_late_reply_is_nobody_elses(self) -> None:
        async def work() -> None:
            async with on_wire() as (connection, _):
                with pytest.raises(TimedOut, match="may or may not have been carried out"):
                    await connection.call("ECHO", "late", timeout=0.01)
                second = calling(connection, "ECHO", "second")
                await turn()
                connection.data_received(written(b"late"))
                await turn()
                assert not second.done()
                connection.data_received(written(b"second"))
                assert await second == b"second"

        run(work())

    def test_a_late_pipeline_is_nobody_elses(self) -> None:
        async def work() -> None:
            async with on_wire() as (connection, _):
                with pytest.raises(TimedOut):
                    await connection.pipeline([("A",), ("B",)], timeout=0.01)
                third = calling(connection, "C")
                connection.data_received(b":1\r\n")
                await turn()
                connection.data_received(b":2\r\n:3\r\n")
                assert await third == 3

        run(work())

    def test_a_call_that_waited_for_its_turn_in_vain_was_not_sent(self) -> None:
        async def work() -> None:
            async with on_wire(replace(OFF_LINE, calls=1)) as (connection, wire):
                first = calling(connection, "FIRST")
                await turn()
                with pytest.raises(NotSent, match="wasn't sent"):
                    await connection.call("SECOND", timeout=0.01)
                connection.data_received(b":1\r\n")
                assert await first == 1
                await turn()
                assert b"SECOND" not in b"".join(wire.writes)

        run(work())

    def test_each_call_has_a_time_of_its_own(self) -> None:
        async def work() -> None:
            async with on_wire() as (connection, _):
                patient = calling(connection, "PATIENT", timeout=PATIENCE)
                hasty = [calling(connection, "HASTY", number, timeout=0.01 * number) for number in range(1, 4)]
                for call in hasty:
                    with pytest.raises(TimedOut):
                        await call
                assert not patient.done()
                connection.data_received(b":1\r\n")
                assert await patient == 1

        run(work())

    def test_a_call_whose_caller_gave_up_before_it_was_sent_is_not_sent(self) -> None:
        async def work() -> None:
            async with on_wire() as (connection, wire):
                connection.pause_writing()
                given_up, other = calling(connection, "GIVEN_UP"), calling(connection, "OTHER")
                await turn()
                given_up.cancel()
                await turn()
                connection.resume_writing()
                await turn()
                assert b"GIVEN_UP" not in b"".join(wire.writes)
                connection.data_received(b":1\r\n")
                assert await other == 1

        run(work())

    def test_the_reply_of_a_caller_that_gave_up_is_nobody_elses(self, server: ValkeyServer) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                for number in range(200):
                    given_up = asyncio.ensure_future(client.call("ECHO", "given up"))
                    await asyncio.sleep(0)
                    given_up.cancel()
                    assert await client.call("ECHO", number) == b"%d" % number

        run(work())

    def test_a_server_that_falls_silent_is_left(self) -> None:
        async def work() -> None:
            async with on_wire(silence=0.02) as (connection, wire):
                waiting = calling(connection, "WAITING", timeout=PATIENCE)
                hasty = calling(connection, "HASTY", timeout=0.03)
                for call in (hasty, waiting):
                    with pytest.raises(Unanswered, match="silent"):
                        await call
                assert wire.aborted

        run(work())

    def test_silence_does_not_wait_for_a_call_to_time_out(self) -> None:
        async def work() -> None:
            async with on_wire(silence=0.02) as (connection, wire):
                with pytest.raises(Unanswered, match="silent"):
                    await connection.call("PATIENT", timeout=10 * PATIENCE)
                assert wire.aborted

        run(work())

    @pytest.mark.parametrize("timeout", [0, -1, math.nan, True, "1", 1e9])
    def test_a_time_that_is_none_is_refused(self, server: ValkeyServer, timeout: Any) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                with pytest.raises(InvalidValue, match="timeout"):
                    await client.call("PING", timeout=timeout)
                with pytest.raises(InvalidValue, match="timeout"):
                    await client.pipeline([("PING",)], timeout=timeout)
                with pytest.raises(InvalidValue, match="timeout"):
                    await client.call("PING", timeout=math.inf)

        run(work())


class TestCommands:
    @pytest.mark.parametrize(
        "args",
        [
            ("BLPOP", "x", 0),
            (b"bzpopmin", "x", 0),
            ("XREAD", "COUNT", 1, "BLOCK", 0, "STREAMS", "s", "$"),
            ("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, b"block", 0, "NOACK", "STREAMS", "s", ">"),
            ("WAIT", 1, 0),
            ("SELECT", 1),
            ("MULTI",),
            ("EXEC",),
            ("WATCH", "x"),
        ],
    )
    def test_what_needs_a_connection_of_its_own_is_refused_on_the_shared_one(
        self, server: ValkeyServer, args: Any
    ) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                for refused in (client.call(*args), client.pipeline([("PING",), args])):
                    with pytest.raises(InvalidValue, match=r"dedicated\(\)"):
                        await refused
                assert await client.call("PING") == b"PONG"

        run(work())

    @pytest.mark.parametrize(
        "args",
        [
            ("SUBSCRIBE", "c"),
            (b"punsubscribe",),
            ("MONITOR",),
            ("HELLO", 2),
            ("CLIENT", "reply", "OFF"),
            ("DEBUG", "X"),
        ],
    )
    def test_what_gets_other_replies_is_refused_everywhere(self, server: ValkeyServer, args: Any) -> None:
        async def work() -> None:
            async with Client(server.url) as client, client.dedicated() as own:
                for connection in (client, own):
                    with pytest.raises(InvalidValue, match="can't be called here"):
                        await connection.call(*args)
                    assert await connection.call("PING") == b"PONG"

        run(work())

    @pytest.mark.parametrize(
        "args", [(), (None,), (1,), ("GET", None), ("GET", True), ("GET", []), ("GET", "\ud800"), ("GET", object())]
    )
    def test_what_is_no_command_is_refused(self, server: ValkeyServer, args: Any) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                for refused in (client.call(*args), client.pipeline([("PING",), args])):
                    with pytest.raises(InvalidValue, match="give"):
                        await refused
                assert await client.call("PING") == b"PONG"

        run(work())

    def test_a_key_that_is_called_block_does_not_block(self, server: ValkeyServer) -> None:
        async def work() -> None:
            async with Client(server.url) as client:
                assert await client.call("XREAD", "STREAMS", "BLOCK", "0") is None

        run(work())

    def test_a_client_is_used_open_and_on_its_own_loop(self, server: ValkeyServer) -> None:
        client = Client(server.url)

        async def alien(connection: Connection) -> None:
            with pytest.raises(NotReady, match="another event loop"):
                await connection.call("PING")

        async def work() -> None:
            with pytest.raises(NotReady, match="isn't open"):
                await client.call("PING")
            with pytest.raises(NotReady, match="isn't open"):
                async with client.dedicated():
                    pass
            async with client:
                with pytest.raises(NotReady, match="open already"):
                    await client.open()
                connection = await connect(client.settings)
                await asyncio.to_thread(asyncio.run, alien(connection))
                await connection.close()
            with pytest.raises(NotReady, match="isn't open"):
                await client.call("PING")
            async with client:  # it may be opened again
                assert await client.call("PING") == b"PONG"

        run(work())
        with asyncio.Runner() as runner:
            connection, _ = runner.run(on_some_wire())
            asyncio.run(alien(connection))
            runner.run(connection.close())


class TestDedicated:
    def test_a_call_that_blocks_holds_up_nobody(self, server: ValkeyServer, loop: Loop) -> None:
        async def work() -> None:
            async with Client(server.url) as client, client.dedicated() as own:
                popped = asyncio.ensure_future(own.call("BLPOP", "list", 0, timeout=math.inf))
                assert await client.call("PING") == b"PONG"
                await client.call("RPUSH", "list", "item")
                assert await popped == [b"list", b"item"]

        run(work(), loop)

    def test_it_may_change_its_connection(self, server: ValkeyServer) -> None:
        async def work() -> None:
            async with Client(server.url) as client, client.dedicated() as own:
                await own.call("SELECT", 3)
                await own.call("SET", "there", 1)
                await own.call("MULTI")
                await own.call("INCR", "there")
                assert await own.call("EXEC") == [2]
                assert await client.call("GET", "there") is None

        run(work())

    def test_it_ends_with_its_block_or_its_client(self, server: ValkeyServer) -> None:
        async def work() -> None:
            client = Client(server.url)
            await client.open()
            async with client.dedicated() as own:
                waiting = asyncio.ensure_future(own.call("BLPOP", "never", 0, timeout=math.inf))
                await asyncio.sleep(0)
                await client.close()
                with pytest.raises(Unanswered, match="closed"):
                    await waiting
            with pytest.raises(ClientClosed):
                await own.call("PING")

        run(work())


class TestPushes:
    def test_messages_come_between_replies(self, server: ValkeyServer, loop: Loop) -> None:
        async def work() -> None:
            got: list[Any] = []
            three = asyncio.Event()

            def heard(push: list[Any]) -> None:
                got.append(push)
                if len(got) == 3:
                    three.set()

            async def listen(connection: Connection) -> None:
                await connection.subscribe("one", "two")
                await connection.subscribe("p*", kind="p")

            async with Client(server.url, on_push=heard, prepare=listen) as client:
                replies = await asyncio.gather(
                    client.call("ECHO", "a"),
                    client.call("PUBLISH", "one", "1"),
                    client.call("ECHO", "b"),
                    client.call("PUBLISH", "pattern", "2"),
                    client.call("PUBLISH", "other", "no"),
                    client.call("PUBLISH", "two", "3"),
                    client.call("ECHO", "c"),
                )
                assert replies == [b"a", 1, b"b", 1, 0, 1, b"c"]
                await three.wait()
                assert got == [
                    [b"message", b"one", b"1"],
                    [b"pmessage", b"p*", b"pattern", b"2"],
                    [b"message", b"two", b"3"],
                ]

        run(work(), loop)

    def test_after_unsubscribe_nothing_comes(self, server: ValkeyServer) -> None:
        async def work() -> None:
            got: list[Any] = []
            async with Client(server.url) as client, client.dedicated(on_push=got.append) as own:
                await own.subscribe("a", b"b", "a")
                await own.subscribe("s", kind="s")
                await own.unsubscribe("a")
                await own.unsubscribe("never")
                assert await client.call("PUBLISH", "a", 1) == 0
                assert await client.call("PUBLISH", "b", 2) == 1
                assert await client.call("SPUBLISH", "s", 3) == 1
                assert await own.call("PING") == b"PONG"
                await turn()
                assert got == [[b"message", b"b", b"2"], [b"smessage", b"s", b"3"]]
                for kind, channels in (("x", ["a"]), ("", [])):
                    with pytest.raises(InvalidValue, match="subscribe"):
                        await own.subscribe(*channels, kind=kind)

        run(work())

    def test_invalidations_are_pushes(self, server: ValkeyServer) -> None:
        async def work() -> None:
            came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

            async def track(connection: Connection) -> None:
                await connection.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "tracked")

            async with Client(server.url, on_push=came.set_result, prepare=track) as client:
                await client.call("SET", "tracked:1", 1)
                assert await came == [b"invalidate", [b"tracked:1"]]

        run(work())

    def test_a_confirmation_that_nobody_waits_for_is_a_push(self) -> None:
        async def work() -> None:
            got: list[Any] = []
            async with on_wire(on_push=got.append) as (connection, _):
                leaving = asyncio.ensure_future(connection.unsubscribe("mine", kind="s"))
                call = calling(connection, "PING")
                await turn()
                connection.data_received(pushed(b"sunsubscribe", b"moved", 0))
                await turn()
                assert not leaving.done()
                connection.data_received(pushed(b"sunsubscribe", b"mine", 0) + b"+PONG\r\n")
                await leaving
                assert await call == b"PONG"
                assert got == [[b"sunsubscribe", b"moved", 0]]

        run(work())

    def test_a_listener_that_fails_harms_nobody(self) -> None:
        async def work() -> None:
            failed: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, what: failed.append(what["exception"]))

            def fail(push: list[Any]) -> None:
                raise KeyError("the listener's")

            async with on_wire(on_push=fail) as (connection, _):
                call = calling(connection, "PING")
                await turn()
                connection.data_received(pushed(b"message", b"c", b"1") + b"+PONG\r\n")
                assert await call == b"PONG"
                assert [type(error) for error in failed] == [KeyError]

        run(work())


class TestTheEnd:
    def test_calls_that_wait_end_with_a_typed_error(self) -> None:
        async def work() -> None:
            async with on_wire(replace(OFF_LINE, calls=1)) as (connection, wire):
                sent, unsent = calling(connection, "SENT"), calling(connection, "UNSENT")
                await turn()
                await connection.close()
                with pytest.raises(Unanswered, match="closed"):
                    await sent
                with pytest.raises(ClientClosed, match="closed"):
                    await unsent
                with pytest.raises(ClientClosed):
                    await connection.call("LATER")
                assert wire.aborted

        run(work())

    def test_a_client_closes_in_the_middle_of_calls(self, server: ValkeyServer, loop: Loop) -> None:
        async def work() -> None:
            client = Client(replace(ClientSettings.parse(server.url), calls=5))
            await client.open()
            calls = [asyncio.ensure_future(client.call("ECHO", number)) for number in range(50)]
            await asyncio.sleep(0)
            await client.close()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} <= {bytes, Unanswered, ClientClosed}
            assert any(type(outcome) is ClientClosed for outcome in outcomes)
            await client.close()

        run(work(), loop)

    @pytest.mark.parametrize("stray", [b":1\r\n", b"-ERR stray\r\n", b"$-1\r\n"])
    def test_a_reply_that_nobody_asked_for_ends_the_connection(self, stray: bytes) -> None:
        async def work() -> None:
            async with on_wire() as (connection, wire):
                call = calling(connection, "PING")
                await turn()
                connection.data_received(b"+PONG\r\n" + stray)
                assert await call == b"PONG"
                assert wire.aborted
                with pytest.raises(NotSent, match="nobody asked for"):
                    await connection.call("PING")

        run(work())

    def test_a_reply_without_an_end_ends_the_connection(self) -> None:
        async def work() -> None:
            async with on_wire(replace(OFF_LINE, reply_bytes=10_000)) as (connection, wire):
                call = calling(connection, "GET", "x")
                await turn()
                connection.data_received(b"$9000\r\n" + b"x" * 9_000 + b"\r\n")
                assert len(await call) == 9_000
                endless = calling(connection, "GET", "x")
                await turn()
                connection.data_received(b"$1000000\r\n")
                for _ in range(10):
                    connection.data_received(b"x" * 1_001)
                with pytest.raises(Garbled, match="10000 bytes"):
                    await endless
                assert wire.aborted

        run(work())


class TestOrder:
    """Against a server that answers late, in parts, and with pushes in between."""

    def test_replies_in_parts_find_their_calls(self) -> None:
        async def echo(command: list[bytes], writer: asyncio.StreamWriter) -> bytes | None:
            data = pushed(b"message", b"c", command[1]) + written([command[1], [command[1]]])
            for at in range(0, len(data), 5):
                writer.write(data[at : at + 5])
                await asyncio.sleep(0)
            return None

        async def work() -> None:
            pushes: list[Any] = []
            async with tiny(echo) as server, Client(server.settings, on_push=pushes.append) as client:
                replies = await asyncio.gather(*(client.call("X", number) for number in range(100)))
                assert replies == [[b"%d" % number, [b"%d" % number]] for number in range(100)]
                assert pushes == [[b"message", b"c", b"%d" % number] for number in range(100)]

        run(work())

    def test_times_out_and_goes_on(self) -> None:
        go_on = asyncio.Event()

        async def slow(command: list[bytes], writer: asyncio.StreamWriter) -> bytes:
            if command[1] == b"slow":
                await go_on.wait()
            return written(command[1])

        async def work() -> None:
            async with tiny(slow) as server, Client(server.settings) as client:
                with pytest.raises(TimedOut):
                    await client.call("ECHO", "slow", timeout=0.02)
                following = [asyncio.ensure_future(client.call("ECHO", number)) for number in range(20)]
                go_on.set()
                assert await asyncio.gather(*following) == [b"%d" % number for number in range(20)]
                assert server.connections == 1

        run(work())
