"""Random replies, cut anywhere, and bytes that are none: the right value, or a typed error and a closed connection."""

import asyncio
import math
from collections.abc import Coroutine, Iterator
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tenure.stores.redis.client import ClientSettings, Connection, connect
from tenure.stores.redis.client.errors import Garbled, ServerError, Unanswered
from tests.stores.resp import Wire, pushed, saying, tiny, turn, written

T = TypeVar("T")

PATIENCE = 30.0

scalars = (
    some.none()
    | some.booleans()
    | some.integers(-(2**63), 2**63 - 1)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.binary(max_size=40)
)
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=5) | some.dictionaries(some.binary(max_size=8), inner, max_size=4),
    max_leaves=20,
)
streams = some.lists(some.tuples(values, some.booleans()), min_size=1, max_size=8)
"""Replies, each with a push before it or without."""


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all examples: to make one takes longer than to run one."""
    with asyncio.Runner() as made:
        yield made


def run(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    return runner.run(asyncio.wait_for(work, PATIENCE))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[begin:end] for begin, end in pairwise(places)]


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types: 1, 1.0 and True are three values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


async def on_wire(pushes: list[Any]) -> tuple[Connection, Wire]:
    connection = Connection(ClientSettings(path="/nowhere"), pushes.append, math.inf, True)
    wire = Wire(connection)
    connection.connection_made(wire)
    return connection, wire


@settings(max_examples=300, deadline=None)
@given(stream=streams, cuts=some.lists(some.integers(0, 10_000), max_size=12))
def test_any_reply_cut_anywhere_comes_as_it_was(
    runner: asyncio.Runner, stream: list[tuple[Any, bool]], cuts: list[int]
) -> None:
    async def work() -> None:
        pushes: list[Any] = []
        connection, _ = await on_wire(pushes)
        calls = [asyncio.ensure_future(connection.call("X")) for _ in stream]
        await turn()
        data = b"".join((pushed(b"message", value) if push else b"") + written(value) for value, push in stream)
        for piece in pieces(data, cuts):
            connection.data_received(piece)
        assert same(await asyncio.gather(*calls), [value for value, _ in stream])
        assert same([list(push) for push in pushes], [[b"message", value] for value, push in stream if push])
        await connection.close()

    run(runner, work())


@settings(max_examples=400, deadline=None)
@given(
    before=some.lists(values, max_size=3),
    garbage=some.binary(min_size=1, max_size=30)
    | some.sampled_from(
        [b"!5\r\nERR x\r\n", b"%1\r\n*1\r\n:1\r\n:2\r\n", b"*1\r\n" * 3_000, b"$-9\r\n", b":x\r\n", b"*-5\r\n"]
    ),
)
def test_any_bytes_end_every_call(runner: asyncio.Runner, before: list[Any], garbage: bytes) -> None:
    """With the connection's end behind them no call waits for ever, and those before the garbage have their replies."""

    async def work() -> None:
        connection, _ = await on_wire([])
        calls = [asyncio.ensure_future(connection.call("X")) for _ in range(len(before) + 3)]
        await turn()
        connection.data_received(b"".join(map(written, before)))
        connection.data_received(garbage)
        connection.connection_lost(None)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert same(outcomes[: len(before)], before)
        for outcome in outcomes[len(before) :]:
            assert not isinstance(outcome, BaseException) or isinstance(outcome, Unanswered | ServerError)
        assert not connection.is_open
        await connection.close()

    run(runner, work())


@settings(max_examples=300, deadline=None)
@given(replies=some.lists(values, min_size=1, max_size=4), at=some.integers(0, 10_000), byte=some.integers(0, 255))
def test_a_byte_that_was_changed_hangs_nobody(runner: asyncio.Runner, replies: list[Any], at: int, byte: int) -> None:
    async def work() -> None:
        connection, wire = await on_wire([])
        calls = [asyncio.ensure_future(connection.call("X")) for _ in replies]
        await turn()
        data = bytearray(b"".join(map(written, replies)))
        data[at % len(data)] = byte
        connection.data_received(bytes(data))
        gone = not connection.is_open
        assert gone == wire.aborted
        if gone:
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert not isinstance(outcome, BaseException) or isinstance(outcome, Unanswered | ServerError)
        await connection.close()
        await asyncio.gather(*calls, return_exceptions=True)

    run(runner, work())


@settings(max_examples=30, deadline=None)
@given(value=values)
def test_any_reply_of_a_server(runner: asyncio.Runner, value: Any) -> None:
    async def work() -> None:
        async with tiny(saying(written(value))) as server:
            connection = await connect(server.settings)
            assert same(await asyncio.gather(*(connection.call("X") for _ in range(3))), [value] * 3)
            await connection.close()

    run(runner, work())


def test_a_map_whose_key_is_a_list_is_garbage(runner: asyncio.Runner) -> None:
    """hiredis can't make a dict of it."""

    async def work() -> None:
        connection, wire = await on_wire([])
        call = asyncio.ensure_future(connection.call("X"))
        await turn()
        connection.data_received(b"%1\r\n*1\r\n:1\r\n:2\r\n")
        outcome = (await asyncio.gather(call, return_exceptions=True))[0]
        assert isinstance(outcome, Garbled)
        assert wire.aborted
        await connection.close()

    run(runner, work())
