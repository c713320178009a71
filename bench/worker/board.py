"""What handlers under measurement leave behind: how many ran, when, and how long each had waited.

The same few instructions in every subject's handler, so that what is compared is the queue. Each process writes a page
of memory of its own; whoever measures reads them all.
"""

import mmap
import os
import struct
import time
from itertools import count
from pathlib import Path

ENVIRONMENT = "BENCH_BOARD"
MOST_WAITS = 10_000

_HEAD = struct.Struct("<QQQ")
_NUMBER = struct.Struct("<Q")
SIZE = _HEAD.size + MOST_WAITS * _NUMBER.size


class Marker:
    """What a handler calls with the time its job was sent, 0 if nobody asks how long it waited."""

    def __init__(self) -> None:
        self._forked()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._numbers = count()
        self._page: mmap.mmap | None = None

    def _opened(self) -> mmap.mmap:
        self._page = _page(Path(os.environ[ENVIRONMENT]) / str(os.getpid()))
        return self._page

    def __call__(self, sent: int) -> None:
        now = time.monotonic_ns()
        number = next(self._numbers)
        page = self._page or self._opened()
        if number == 0:
            _NUMBER.pack_into(page, _NUMBER.size, now)
        if sent:
            _NUMBER.pack_into(page, _HEAD.size + number % MOST_WAITS * _NUMBER.size, now - sent)
        _NUMBER.pack_into(page, 2 * _NUMBER.size, now)
        _NUMBER.pack_into(page, 0, number + 1)


def _page(path: Path) -> mmap.mmap:
    if not path.exists():
        path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), SIZE)


class Board:
    """The pages of all processes that run handlers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def _heads(self) -> list[tuple[int, int, int]]:
        bodies = (path.read_bytes() for path in self._folder.iterdir())
        found = (_HEAD.unpack_from(body) for body in bodies if len(body) == SIZE)
        return [(ran, first, last) for ran, first, last in found if ran]

    @property
    def ran(self) -> int:
        """How many handlers have run."""
        return sum(ran for ran, _, _ in self._heads())

    @property
    def first_ns(self) -> int:
        """When the first handler began, by the machine's monotonic clock."""
        return min(first for _, first, _ in self._heads())

    @property
    def seconds(self) -> float:
        """From the first handler's start to the last one's."""
        heads = self._heads()
        return (max(last for _, _, last in heads) - min(first for _, first, _ in heads)) / 1e9

    def clear(self) -> None:
        """Forgets what processes left that have ended."""
        for path in self._folder.iterdir():
            path.unlink()

    def new_waits_ns(self, seen: dict[str, int]) -> list[int]:
        """How long those waited that began since the last look; `seen` is where that look got in each page."""
        found = []
        for path in self._folder.iterdir():
            body = path.read_bytes()
            ran = _HEAD.unpack_from(body)[0] if len(body) == SIZE else 0
            first = max(seen.get(path.name, 0), ran - MOST_WAITS)
            seen[path.name] = ran
            places = (_HEAD.size + number % MOST_WAITS * _NUMBER.size for number in range(first, ran))
            found += [_NUMBER.unpack_from(body, place)[0] for place in places]
        return found

    def waits_ns(self) -> list[int]:
        """How long each job had waited when its handler began."""
        found = []
        for path in self._folder.iterdir():
            body = path.read_bytes()
            ran = min(_HEAD.unpack_from(body)[0], MOST_WAITS)
            found += [_NUMBER.unpack_from(body, _HEAD.size + number * _NUMBER.size)[0] for number in range(ran)]
        return found
