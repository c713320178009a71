"""The audit: the feed followed while the campaign runs, then counted; every client's history checked; the file too."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tenure.domain.calls import EventPage, JobView
from tenure.domain.event import Event
from tenure.domain.job import Ref
from tenure.domain.store import FEED_TOPIC
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.checker import Checker, Summary, Violation
from tenure.testing.history import RecordingStore, merge_histories
from tests.kills.plan import insist
from tests.kills.recovery import ENDINGS, Recovery

PAGE = 2_000
NOTES = ("heal", "end")
SILENT_SECONDS = 10.0
"""After which long work says how far it is."""


class Tally:
    """What the feed says, counted without help from the checker."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.endings: dict[Ref, list[str]] = {}
        self.losses: Counter[Ref] = Counter()

    def add(self, event: Event) -> None:
        self.kinds[event.kind.value] += 1
        if event.reason is not None:
            self.reasons[event.reason] += 1
        if event.job_id is None:
            return
        ref = (event.tenant, event.job_id)
        endings = self.endings.setdefault(ref, [])
        if event.kind.value in ENDINGS:
            endings.append(event.kind.value)
        if event.run_ms is not None and event.reason == "lease_lost":
            self.losses[ref] += 1

    @property
    def live(self) -> int:
        """Jobs that haven't ended yet."""
        return sum(1 for endings in self.endings.values() if not endings)

    @property
    def settled_twice(self) -> int:
        return sum(1 for endings in self.endings.values() if len(endings) > 1)

    @property
    def recovered(self) -> int:
        """Jobs that lost a lease and succeeded later."""
        return sum(1 for ref in self.losses if self.endings[ref] == ["succeeded"])

    def lost(self, acknowledged: set[Ref]) -> int:
        """Acknowledged jobs that never came to an end."""
        return sum(1 for ref in acknowledged if not self.endings.get(ref))


class Follower:
    """Reads the feed on from where it stopped."""

    def __init__(self, store: RecordingStore, recovery: Recovery | None = None) -> None:
        self.store = store
        self._cursor: str | None = None
        self._recovery = recovery
        self.tally = Tally()

    async def catch_up(self) -> None:
        """Reads to the end; the last page is empty, which says that it was the end."""
        while True:
            page = await insist(lambda: self.store.events(after=self._cursor, limit=PAGE))
            assert isinstance(page, EventPage), page
            self._cursor = page.cursor
            for event in page.events:
                self.tally.add(event)
                if self._recovery is not None:
                    self._recovery.add(event)
            if not page.events:
                return

    async def hint(self) -> None:
        """Waits until something may have happened, a second at most."""
        await self.store.wait((FEED_TOPIC,), 1.0)


class Verdict(msgspec.Struct, frozen=True):
    """What the checker and fsck say."""

    faults: list[str]
    summary: Summary | None = None
    unanswered: int = 0
    """Calls whose process was killed before it was told."""


def check_histories(folder: Path, say: Callable[[str], None] = lambda _: None) -> Verdict:
    """Every client's history, merged by time, against the contract."""
    checker = Checker(sequential=False)
    unanswered, told_at = 0, time.monotonic()
    try:
        for count, entry in enumerate(merge_histories(sorted(folder.glob("*.jsonl")))):
            checker.feed(entry)
            if time.monotonic() > told_at + SILENT_SECONDS:
                told_at = time.monotonic()
                say(f"  {count:,} entries checked")
            unanswered += 1 if entry.phase == "invoke" else -1 if entry.verb not in NOTES else 0
        summary = checker.finish()
    except Violation as violation:
        return Verdict([str(violation)])
    faults = [] if summary.feed_complete else ["the checker saw no complete feed"]
    return Verdict(faults, summary, unanswered)


async def check_records(store: SqliteStore | PostgresStore, tally: Tally) -> list[str]:
    """fsck, and every record against the last that the feed says of it."""
    faults = [f"fsck: {problem}" for problem in await store.verify()]
    for refs in _batches(list(tally.endings)):
        for ref, view in zip(refs, await store.get(refs), strict=True):
            state = view.job.state.value if isinstance(view, JobView) else repr(view)
            if [state] != tally.endings[ref]:
                faults.append(f"{ref} is {state}, the feed says {tally.endings[ref]}")
    return faults


def _batches(refs: list[Ref], size: int = 1_000) -> Iterator[list[Ref]]:
    for start in range(0, len(refs), size):
        yield refs[start : start + size]
