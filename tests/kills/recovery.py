"""How soon work went on after a kill, by what the feed says: the store's times, which are this host's."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tenure.domain.event import Event
from tenure.domain.job import Ref
from tenure.domain.names import Ms
from tenure.domain.states import TERMINAL, EventKind

ENDINGS = {state.value for state in TERMINAL}


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds, of so many."""

    count: int
    p50: Ms
    p99: Ms
    max: Ms

    def __str__(self) -> str:
        return f"p50 {self.p50:,} ms, p99 {self.p99:,}, max {self.max:,} ({self.count:,})"


def spread(values: Sequence[Ms]) -> Spread | None:
    """None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return Spread(
        count=len(ordered), p50=ordered[len(ordered) // 2], p99=ordered[len(ordered) * 99 // 100], max=ordered[-1]
    )


class Start(NamedTuple):
    """A start of the server: when it was ordered, and when it answered."""

    ordered: Ms
    answered: Ms


class Recovery:
    """Reads a whole feed, knowing who was killed when."""

    def __init__(self, starts: "Sequence[Start]", killed: Mapping[str, Ms]) -> None:
        self._starts = starts
        self._killed = killed
        self._came: list[Ms] = []
        self._ended: list[Ms] = []
        self._settled: list[Ms] = []
        self._lost: dict[Ref, Ms] = {}
        self._noticed: list[Ms] = []
        self._again: list[Ms] = []

    def add(self, event: Event) -> None:
        if event.job_id is None:
            return
        ref = (event.tenant, event.job_id)
        if event.kind is EventKind.ENQUEUED:
            self._came.append(event.at)
        elif event.kind.value in ENDINGS:
            self._ended.append(event.at)
        killed_at = None if event.worker is None else self._killed.get(event.worker)
        if event.reason == "lease_lost":
            if killed_at is not None and event.at >= killed_at:
                self._lost[ref] = killed_at
                self._noticed.append(event.at - killed_at)
        elif event.run_ms is not None:
            self._settled.append(event.at)
        if event.kind is EventKind.CLAIMED and ref in self._lost:
            self._again.append(event.at - self._lost.pop(ref))

    def of_server(self) -> Spread | None:
        """From when the server answered again to the next job that was settled; 0 if that was sooner. Where no job was
        left to be settled when it was started, nothing had to recover.
        """
        came, ended, settled = sorted(self._came), sorted(self._ended), sorted(self._settled)
        took = []
        for start in self._starts:
            live = bisect_right(came, start.ordered) > bisect_right(ended, start.ordered)
            next_ = bisect_left(settled, start.ordered)
            if live and next_ < len(settled):
                took.append(max(0, settled[next_] - start.answered))
        return spread(took)

    def of_leases(self) -> Spread | None:
        """From each kill of a worker to when one of its leases was taken back, for each of these."""
        return spread(self._noticed)

    def of_workers(self) -> Spread | None:
        """The same to when the job ran again: it waits for its turn among all that wait."""
        return spread(self._again)
