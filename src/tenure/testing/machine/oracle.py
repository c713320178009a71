"""The oracle: the memory store, which others are compared with, and what lockstep needs of it besides.

It shares no code with the stores that it judges but the model and the protocol's verbs (`stores/memory.py`).
"""

from collections.abc import Sequence
from copy import deepcopy

import msgspec

from tenure.domain.calls import Enqueued
from tenure.domain.errors import Refused
from tenure.domain.event import Event, decode_events
from tenure.domain.job import NewJob
from tenure.domain.model import Chunk, Unit, enqueue
from tenure.domain.names import Ms
from tenure.stores.memory import MemoryStore


class Oracle(MemoryStore):
    """The model over dictionaries, for calls that overlap: it can be tried on a copy, and be told in which order."""

    def copy(self) -> "Oracle":
        """Another with the same content, on the same clock; from then on each is its own."""
        other = Oracle(self._clock)
        other._tables = deepcopy(self._tables)
        return other

    def tell_in_order(self, events: Sequence[Event]) -> None:
        """Puts the feed's last chunks, which are of calls that overlapped, into the order of these events."""
        chunks, rest = self._tables._chunks, len(events)
        last: list[tuple[list[Event], Chunk]] = []
        while rest > 0:
            chunk = chunks.pop()
            last.append((decode_events(chunk.body), chunk))
            rest -= len(last[-1][0])
        positions = sorted(chunk.position for _, chunk in last)
        at = 0
        for position in positions:
            told, chunk = next(one for one in last if list(events[at : at + len(one[0])]) == one[0])
            chunks.append(msgspec.structs.replace(chunk, position=position))
            at += len(told)

    async def number(self, count: int) -> list[int]:
        """Numbers for as many jobs, which nobody else is given: those of a transaction that has not ended."""
        (numbers,) = await self._write(lambda unit: [unit.next_seq() for _ in range(count)])
        return list(numbers)

    async def enqueue_as_of(self, jobs: Sequence[NewJob], at: Ms, numbers: Sequence[int]) -> list[Enqueued | Refused]:
        """What a transaction sent at that time, with the numbers that were kept for it."""

        def part(unit: Unit) -> list[Enqueued | Refused]:
            unit.now = at
            unit.next_seq = iter(numbers).__next__  # type: ignore[method-assign]  # the only use of its kind
            return enqueue(unit, jobs)

        (answers,) = await self._write(part)
        return list(answers)
