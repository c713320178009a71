"""A driver of `tenure.stores.kv` in memory, as plain as it can be: sorted keys, and reads repeated at commit."""

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tenure.domain.errors import StoreUnavailable
from tenure.domain.model import Chunk
from tenure.domain.names import Ms
from tenure.stores.kv.driver import SEPARATOR, Range


class State:
    """What is committed, or what a transaction sees of it: a copy with its own writes."""

    def __init__(self, records: dict[bytes, bytes], index: list[bytes]) -> None:
        self.records = records
        self.index = index

    def copy(self) -> "State":
        return State(dict(self.records), list(self.index))

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value

    def has(self, key: bytes) -> bool:
        at = bisect_left(self.index, key)
        return self.index[at : at + 1] == [key]

    def add(self, key: bytes) -> None:
        if not self.has(key):
            insort(self.index, key)

    def remove(self, key: bytes) -> None:
        if self.has(key):
            del self.index[bisect_left(self.index, key)]

    def between(self, begin: bytes, end: bytes) -> list[bytes]:
        return self.index[bisect_left(self.index, begin) : bisect_left(self.index, end)]

    def scan(self, wanted: Range) -> list[bytes]:
        found = self.between(wanted.begin, wanted.end)
        return (found[::-1] if wanted.reverse else found)[: wanted.limit]

    def distinct(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        found: list[bytes] = []
        at = prefix + after + b"\1" if after else prefix
        while len(found) < limit:
            place = bisect_left(self.index, at)
            if place == len(self.index) or not self.index[place].startswith(prefix):
                break
            part, ended, _ = self.index[place][len(prefix) :].partition(SEPARATOR)
            if ended:
                found.append(part)
            at = prefix + part + b"\1"
        return found


class MemoryDriver:
    """All in one process; `now` is what the test says."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.state = State({}, [])
        self.feed: list[Chunk] = []
        self.positions = 0
        self.reserved = 0
        self.now: Ms = 0
        self.closed = False
        self.watching: list[tuple[bytes, Callable[[], object]]] = []

    def begin(self, *, writing: bool) -> "MemoryTransaction":
        if self.closed:
            raise StoreUnavailable("the driver is closed")
        return MemoryTransaction(self)

    @contextmanager
    def watch(self, prefix: bytes, changed: Callable[[], object]) -> Iterator[None]:
        watcher = (prefix, changed)
        self.watching.append(watcher)
        try:
            yield
        finally:
            self.watching.remove(watcher)

    def close(self) -> None:
        self.closed = True


class MemoryTransaction:
    """Reads the newest state with its own writes over it, remembers each read, and makes them all again at commit."""

    def __init__(self, driver: MemoryDriver) -> None:
        self._driver = driver
        self.now = driver.now
        self._writes: list[Callable[[State], None]] = []
        self._reads: list[tuple[int, Callable[[State], Any], Any]] = []
        """(writes before it, how, what it answered)"""
        self._added: list[bytes] = []
        self._appended: list[tuple[str, Ms, bytes]] = []
        self._forgotten = 0

    def _seen(self, writes: int) -> State:
        state = self._driver.state.copy()
        for write in self._writes[:writes]:
            write(state)
        return state

    def _read(self, how: Callable[[State], Any]) -> Any:
        answer = how(self._seen(len(self._writes)))
        self._reads.append((len(self._writes), how, answer))
        return answer

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = self._read(lambda state: [state.records.get(key) for key in keys])
        return found

    def put(self, key: bytes, value: bytes | None) -> None:
        self._writes.append(lambda state: state.put(key, value))

    def scans(self, ranges: Sequence[Range]) -> list[list[bytes]]:
        found: list[list[bytes]] = self._read(lambda state: [state.scan(wanted) for wanted in ranges])
        return found

    def distinct(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        found: list[bytes] = self._read(lambda state: state.distinct(prefix, after, limit))
        return found

    def count(self, begin: bytes, end: bytes) -> int:
        found: int = self._read(lambda state: len(state.between(begin, end)))
        return found

    def add(self, key: bytes) -> None:
        self._added.append(key)
        self._writes.append(lambda state: state.add(key))

    def remove(self, key: bytes) -> None:
        self._writes.append(lambda state: state.remove(key))

    def reserve(self) -> int:
        with self._driver.lock:
            self._driver.reserved += 1
            return self._driver.reserved

    def append(self, tenant: str, at: Ms, body: bytes) -> None:
        self._appended.append((tenant, at, body))

    def chunks(self, tenant: str | None, after: int, limit: int) -> list[Chunk]:
        found = [chunk for chunk in self._driver.feed if chunk.position > after and tenant in (None, chunk.tenant)]
        return found[:limit]

    def forget(self, position: int) -> None:
        self._forgotten = max(self._forgotten, position)

    def still(self) -> bool:
        return all(how(self._seen(writes)) == answer for writes, how, answer in self._reads)

    def commit(self) -> bool:
        driver = self._driver
        with driver.lock:
            if driver.closed:
                raise StoreUnavailable("the driver is closed")
            if not self.still():
                return False
            driver.state = self._seen(len(self._writes))
            for chunk in self._appended:
                driver.positions += 1
                driver.feed.append(Chunk(driver.positions, *chunk))
            driver.feed = [chunk for chunk in driver.feed if chunk.position > self._forgotten]
        for prefix, changed in list(driver.watching):
            if any(key.startswith(prefix) for key in self._added):
                changed()
        return True

    def close(self) -> None:
        """Nothing is held."""
