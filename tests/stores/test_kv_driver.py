"""What a driver of an ordered key-value database must keep: byte order, and transactions as if each were alone."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tenure.domain.errors import StoreUnavailable
from tenure.domain.model import Chunk
from tenure.stores.kv.driver import KEY_BYTES, Driver, Range, Transaction
from tests.stores.kv_memory import MemoryDriver

DRIVERS: dict[str, Callable[[], Driver]] = {"memory": MemoryDriver}
ALL = Range(b"", b"\xff" * (KEY_BYTES + 1), 1 << 20)


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    made = DRIVERS[request.param]()
    yield made
    made.close()


def written(driver: Driver, *write: Callable[[Transaction], object]) -> None:
    transaction = driver.begin(writing=True)
    for one in write:
        one(transaction)
    assert transaction.commit()
    transaction.close()


def entries(driver: Driver, keys: list[bytes]) -> None:
    written(driver, *(lambda one, key=key: one.add(key) for key in keys))


class TestReads:
    def test_records_are_where_they_were_put(self, driver: Driver) -> None:
        long = b"k" * KEY_BYTES
        written(
            driver, lambda one: one.put(b"a", b"1"), lambda one: one.put(b"b", b""), lambda one: one.put(long, b"2")
        )
        reading = driver.begin(writing=False)
        assert reading.get([b"b", b"a", b"c", b"a", long]) == [b"", b"1", None, b"1", b"2"]
        assert reading.get([]) == []
        assert reading.scans([ALL]) == [[]]
        reading.close()
        written(driver, lambda one: one.put(b"a", None), lambda one: one.put(b"none", None))
        assert driver.begin(writing=False).get([b"a", b"none"]) == [None, None]

    def test_entries_come_in_byte_order(self, driver: Driver) -> None:
        keys = [b"b", b"a\0", b"a", b"\xff", b"a\x01", b"B", b"\xc3\xa9", b"a" * KEY_BYTES]
        entries(driver, keys)
        reading = driver.begin(writing=False)
        found = reading.scans(
            [ALL, ALL._replace(reverse=True), Range(b"a", b"b", 2), Range(b"a", b"b", 2, reverse=True)]
        )
        assert found == [
            sorted(keys),
            sorted(keys, reverse=True),
            [b"a", b"a\0"],
            [b"a" * KEY_BYTES, b"a\x01"],
        ]
        assert reading.get(keys) == [None] * len(keys)
        assert reading.count(b"a", b"b") == 4
        assert reading.count(b"b", b"a") == 0
        assert reading.scans([Range(b"b", b"a", 9), Range(b"a", b"b", 0)]) == [[], []]

    def test_a_loose_scan_finds_components(self, driver: Driver) -> None:
        entries(driver, [b"q\0a\0x", b"q\0a\0y", b"q\0ab\0x", b"q\0b\0", b"q\0bare", b"q\0d\0z", b"r\0e\0x", b"q"])
        reading = driver.begin(writing=False)
        assert reading.distinct(b"q\0", b"", 9) == [b"a", b"ab", b"b", b"d"]
        assert reading.distinct(b"q\0", b"", 2) == [b"a", b"ab"]
        assert reading.distinct(b"q\0", b"a", 9) == [b"ab", b"b", b"d"]
        assert reading.distinct(b"q\0", b"c", 9) == [b"d"]
        assert reading.distinct(b"q\0", b"d", 9) == []
        assert reading.distinct(b"none\0", b"", 9) == []


class TestTransactions:
    def test_its_own_writes_are_seen_by_itself_alone(self, driver: Driver) -> None:
        one, other = driver.begin(writing=True), driver.begin(writing=False)
        one.put(b"a", b"1")
        one.add(b"e\0x")
        assert one.get([b"a"]) == [b"1"]
        assert one.scans([ALL]) == [[b"e\0x"]]
        assert one.distinct(b"e\0", b"", 1) == []
        assert one.count(b"e", b"f") == 1
        assert other.get([b"a"]) == [None]
        one.remove(b"e\0x")
        assert one.scans([ALL]) == [[]]
        other.close()
        assert one.commit()

    def test_what_is_closed_without_a_commit_is_not_kept(self, driver: Driver) -> None:
        one = driver.begin(writing=True)
        one.put(b"a", b"1")
        one.append("t", 1, b"event")
        one.close()
        one.close()
        reading = driver.begin(writing=False)
        assert reading.get([b"a"]) == [None]
        assert reading.chunks(None, 0, 9) == []

    @pytest.mark.parametrize(
        ("read", "write"),
        [
            (lambda one: one.get([b"r"]), lambda one: one.put(b"r", b"2")),
            (lambda one: one.get([b"r"]), lambda one: one.put(b"r", None)),
            (lambda one: one.get([b"none"]), lambda one: one.put(b"none", b"")),
            (lambda one: one.scans([Range(b"a", b"d", 9)]), lambda one: one.add(b"c")),
            (lambda one: one.scans([Range(b"a", b"d", 9)]), lambda one: one.remove(b"b")),
            (lambda one: one.scans([Range(b"a", b"d", 1, reverse=True)]), lambda one: one.add(b"c")),
            (lambda one: one.count(b"a", b"d"), lambda one: one.add(b"c")),
            (lambda one: one.distinct(b"q\0", b"", 9), lambda one: one.add(b"q\0new\0x")),
        ],
    )
    def test_a_commit_on_reads_that_do_not_hold_is_refused_whole(
        self, driver: Driver, read: Callable[[Transaction], Any], write: Callable[[Transaction], object]
    ) -> None:
        written(driver, lambda one: one.put(b"r", b"1"), lambda one: one.add(b"b"))
        late = driver.begin(writing=True)
        read(late)
        assert late.still()
        written(driver, write)
        assert not late.still()
        late.put(b"kept", b"no")
        late.append("t", 1, b"no")
        assert not late.commit()
        reading = driver.begin(writing=False)
        assert reading.get([b"kept"]) == [None]
        assert reading.chunks(None, 0, 9) == []

    @pytest.mark.parametrize(
        ("read", "write"),
        [
            (lambda one: one.get([b"r"]), lambda one: one.put(b"other", b"2")),
            (lambda one: one.scans([Range(b"a", b"d", 1)]), lambda one: one.add(b"c")),
            (lambda one: one.scans([Range(b"a", b"d", 9)]), lambda one: one.add(b"d")),
            (lambda one: one.chunks(None, 0, 9), lambda one: one.append("t", 1, b"x")),
            (lambda one: one.reserve(), lambda one: one.reserve()),
            (lambda one: one.append("t", 1, b"x"), lambda one: one.append("t", 1, b"x")),
        ],
    )
    def test_what_does_not_change_a_read_is_no_conflict(
        self, driver: Driver, read: Callable[[Transaction], Any], write: Callable[[Transaction], object]
    ) -> None:
        written(driver, lambda one: one.put(b"r", b"1"), lambda one: one.add(b"b"))
        late = driver.begin(writing=True)
        read(late)
        written(driver, write)
        late.put(b"kept", b"yes")
        assert late.commit()
        assert driver.begin(writing=False).get([b"kept"]) == [b"yes"]

    def test_a_closed_driver_keeps_nothing_more(self, driver: Driver) -> None:
        one = driver.begin(writing=True)
        one.put(b"a", b"1")
        driver.close()
        with pytest.raises(StoreUnavailable):
            one.commit()
        with pytest.raises(StoreUnavailable):
            driver.begin(writing=False)


class TestFeed:
    def test_positions_are_dense_in_the_order_of_commits(self, driver: Driver) -> None:
        first, second = driver.begin(writing=True), driver.begin(writing=True)
        first.append("a", 1, b"1")
        second.append("b", 2, b"2")
        second.append("a", 3, b"3")
        assert second.commit()
        assert first.commit()
        reading = driver.begin(writing=False)
        assert reading.chunks(None, 0, 9) == [Chunk(1, "b", 2, b"2"), Chunk(2, "a", 3, b"3"), Chunk(3, "a", 1, b"1")]
        assert [chunk.position for chunk in reading.chunks("a", 0, 1)] == [2]
        assert [chunk.position for chunk in reading.chunks("a", 2, 9)] == [3]

    def test_what_is_forgotten_leaves_its_positions(self, driver: Driver) -> None:
        written(driver, lambda one: one.append("a", 1, b"1"), lambda one: one.append("a", 1, b"2"))
        written(driver, lambda one: one.forget(1))
        written(driver, lambda one: one.forget(9))
        written(driver, lambda one: one.append("a", 1, b"3"))
        assert driver.begin(writing=False).chunks(None, 0, 9) == [Chunk(3, "a", 1, b"3")]

    def test_numbers_only_grow(self, driver: Driver) -> None:
        numbers = []
        for _ in range(5):
            one = driver.begin(writing=True)
            numbers += [one.reserve(), one.reserve()]
            assert one.commit()
        assert numbers == sorted(set(numbers))

    def test_a_watcher_is_told_of_its_prefix(self, driver: Driver) -> None:
        told: list[int] = []
        with driver.watch(b"q\0", lambda: told.append(1)):
            entries(driver, [b"r\0x"])
            assert told == []
            entries(driver, [b"q\0x", b"q\0y"])
            assert told
        told.clear()
        entries(driver, [b"q\0z"])
        assert told == []


keys = some.sampled_from([b"a", b"a\0", b"a\0b", b"a\0b\0", b"b\0c\0d", b"b", b"c"])
steps = some.tuples(some.sampled_from(["get", "put", "drop", "scan", "last", "count", "parts", "add", "remove"]), keys)
histories = some.lists(some.tuples(some.integers(0, 2), steps), max_size=25)


def done(transaction: Transaction, name: str, key: bytes, value: bytes) -> Any:
    match name:
        case "get":
            return transaction.get([key])
        case "put":
            return transaction.put(key, value)
        case "drop":
            return transaction.put(key, None)
        case "scan":
            return transaction.scans([Range(key, b"\xff", 2)])
        case "last":
            return transaction.scans([Range(b"", key, 2, reverse=True)])
        case "count":
            return transaction.count(b"", key)
        case "parts":
            return transaction.distinct(key, b"", 2)
        case "add":
            return transaction.add(key)
        case _:
            return transaction.remove(key)


@pytest.mark.parametrize("name", DRIVERS)
@settings(max_examples=200, deadline=None)
@given(history=histories)
def test_what_commits_is_as_if_each_had_been_alone(name: str, history: list[tuple[int, tuple[str, bytes]]]) -> None:
    """Three transactions step by step in any order; those that commit, made again in turn, read and leave the same."""
    mixed, alone = DRIVERS[name](), DRIVERS[name]()
    running = [mixed.begin(writing=True) for _ in range(3)]
    seen: list[list[Any]] = [[], [], []]
    for number, (who, (what, key)) in enumerate(history):
        seen[who].append(done(running[who], what, key, b"%d" % number))
    for who, transaction in enumerate(running):
        if transaction.commit():
            again = alone.begin(writing=True)
            mine = [(number, step) for number, (owner, step) in enumerate(history) if owner == who]
            assert [done(again, what, key, b"%d" % number) for number, (what, key) in mine] == seen[who]
            assert again.commit()
    one, other = mixed.begin(writing=False), alone.begin(writing=False)
    places = sorted(set(chain(*(step[1:] for _, step in history))))
    assert one.scans([ALL]) == other.scans([ALL])
    assert one.get(places) == other.get(places)
    mixed.close()
    alone.close()
