"""Waiting for a full queue, on a clock of the test's own; and what keys look like."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tenure.domain.calls import Cancel, Document
from tenure.domain.config import QueueConfig
from tenure.domain.errors import InvalidValue, WriteFailed
from tenure.domain.job import NewJob
from tenure.domain.names import EVERYONE
from tenure.engine.ids import uuid7
from tenure.spark.keys import key_of
from tenure.spark.sending import Row, Sender
from tenure.spark.summary import TaskDone
from tenure.spark.write_options import WriteOptions
from tenure.stores.memory import MemoryStore

OPTIONS = WriteOptions(url="memory://", job_type="t", batch="b", key_columns=("id",), wait_seconds=10)


class World:
    """A store whose queue holds two jobs, and a clock that moves only while someone pauses."""

    def __init__(self, room: Callable[["World"], Awaitable[Any]] | None = None) -> None:
        self.store = MemoryStore()
        self.now = 0.0
        self.pauses: list[float] = []
        self.freed = 0
        self._room = room

    async def pause(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        if self._room is not None:
            await self._room(self)

    async def send(self, rows: int, options: WriteOptions = OPTIONS) -> TaskDone:
        await self.store.migrate()
        body = msgspec.json.encode(QueueConfig(max_depth=2))
        await self.store.put_document(Document(tenant=EVERYONE, kind="queue", name="q", body=body))
        sender = Sender(self.store, options, 0, pause=self.pause, clock=lambda: self.now)
        self.rows = [Row(n, _job(n)) for n in range(rows)]
        await sender.send(self.rows)
        return sender.done

    async def cancel(self, n: int) -> None:
        await self.store.command([Cancel(tenant="default", id=self.rows[n].job.id)])


def _job(n: int) -> NewJob:
    return NewJob(tenant="default", id=uuid7(), queue="q", job_type="t", payload=b"{}", key=str(n))


def test_a_queue_that_stays_full_is_asked_ever_more_rarely_and_then_given_up() -> None:
    world = World()
    with pytest.raises(WriteFailed, match=r"queue 'q' .*no room for 10\.\d s\): row 2 of partition 0"):
        asyncio.run(world.send(4))
    assert world.pauses[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert set(world.pauses[6:]) == {1.0}
    assert 10 <= sum(world.pauses) < 11


def test_the_time_counts_from_the_last_room_there_was() -> None:
    """Twenty jobs through two places, one at a time and each after nine seconds: far more than ten in all."""

    async def slowly(world: World) -> None:
        if world.now >= 9 * (world.freed + 1):
            await world.cancel(world.freed)
            world.freed += 1

    world = World(slowly)
    done = asyncio.run(world.send(20))
    assert (done.enqueued, done.rejected) == (20, 0)
    assert world.now > 100


def test_told_to_fail_it_waits_for_nothing() -> None:
    world = World()
    with pytest.raises(WriteFailed, match="onFull=fail"):
        asyncio.run(world.send(3, msgspec.structs.replace(OPTIONS, on_full="fail")))
    assert world.pauses == []


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ([42], "42"),
        (["ann"], "ann"),
        ([True], "true"),
        ([Decimal("1.10")], "1.10"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "2026-01-01T00:00:00Z"),
        ([b"\0\xff"], "AP8="),
        (["eu", 42], '["eu",42]'),
        (["a", "b,c"], '["a","b,c"]'),
        (["[1]"], '["[1]"]'),
        (["sha256:x"], '["sha256:x"]'),
        ([""], '[""]'),
        (["a\nb"], '["a\\nb"]'),
        (["x" * 256], "x" * 256),
    ],
)
def test_a_key_is_readable(values: list[Any], key: str) -> None:
    columns = [f"c{n}" for n in range(len(values))]
    assert key_of(columns)(dict(zip(columns, values, strict=True))) == key


def test_what_is_no_key_is_hashed() -> None:
    long, other, control = (key_of(["a"])({"a": value}) for value in ("x" * 257, "x" * 258, "\x80"))
    assert len({long, other, control}) == 3
    assert all(key.startswith("sha256:") and len(key) == 71 for key in (long, other, control))


def test_the_key_of_a_row_doesnt_depend_on_the_order_of_things() -> None:
    one, same = {"a": 1, "m": {"x": 1, "y": 2}}, {"m": {"y": 2, "x": 1}, "a": 1}
    whole = key_of([])
    assert whole(one) == whole(same)
    assert whole({**one, "a": None}) not in (whole(one), whole({**one, "a": "null"}))


@pytest.mark.parametrize(("value", "says"), [(None, "key column 'b' is null"), (float("nan"), "nan isn't")])
def test_what_is_equal_to_nothing_is_no_key(value: Any, says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        key_of(["a", "b"])({"a": 1, "b": value})
