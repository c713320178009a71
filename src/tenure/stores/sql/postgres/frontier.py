"""Where a claim begins to look, so that it needn't walk what is dead.

A line is read from its beginning, and its beginning is where jobs were taken. While somebody holds a transaction open
the server can't clear them away: every claim would walk all that were taken since. A process that remembered where it
found the first row last time would begin there, but wouldn't see who came in before it: jobs of a higher priority, jobs
released to their place, jobs of transactions that were slow to commit.

The server knows exactly who came. Each row says which transaction wrote it (`xid`); a row is new to somebody if that
transaction wasn't visible in the snapshot they had. So a claim keeps its snapshot, and the next one first reads what is
new since, by the index on `xid`, dead or not, once. That holds if this does, the invariant of a frontier:

    Every row that is visible in the frontier's snapshot lies in one of its lanes, at or after the mark of its priority.

A row that is visible now was visible then, and lies there; or it is new. From this follows all the rest:

* A mark is the first row that is visible, not the first that can be had: others may give back what they have locked.
* A mark read by a later statement than the snapshot is as good: what was visible before and isn't now is gone.
* A mark may be too low (then some dead rows are walked), never too high.
* What the own transaction wrote is visible to it at once, and looks old to whoever comes next: its number goes with the
  snapshot, and its rows are read again.
* What a transaction learnt holds if it commits. Undone, its frontier is what it was: rows it had taken are back.
* One frontier serves one transaction at a time: between the snapshot and the marks nobody else may move them.
* Snapshots mean nothing to another server, or to this one after a crash: a connection uses only what was learnt while
  it was open, and the server says since when it runs.

A lane is a tenant's queue. It has a mark for each priority that somebody has there, because dead rows lie at the
beginning of each; of a keyed queue a mark only says that somebody is there. A mark is looked at again only after jobs
were found behind it, with the next look at its lane. `scheduled`, `inbox` and `claimed` are read from their beginnings
too: one mark for each queue of the first, one each for the others.

While nobody holds a transaction all this saves little, and what is new must be read, also of queues that a process has
nothing to do with. So a claim without a frontier counts the index entries and pages it reads. One that had to read many
makes the process keep frontiers, for a minute.
"""

import time
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

import msgspec

from tenure.domain.model.tables import Lane
from tenure.domain.names import Ms

PATIENCE = 8_000
"""Index entries that a claim may read to find out who has jobs. A dead one takes about 60 ns. While nobody holds a
transaction, a lone claimer of 500 jobs at a time meets some hundred."""
KEEP_SECONDS = 60.0
"""For how long frontiers are kept before a claim does without, to see whether they are still needed."""
MOST_LANES = 20_000
"""With more lanes than these, a process keeps none."""
MOST_PLACES = 5 * MOST_LANES
"""With more lanes and priorities, neither."""
MOST_QUEUES = 64

Mark = tuple[Ms, int]
"""(run_at, arrival number)"""
KEYED = -1000
"""What stands for -priority where there are groups."""
NOTHING: Mark = (1 << 62, 0)
"""The mark of a `scheduled` without rows."""


class Frontier:
    """What one claim after the other knows of some queues."""

    def __init__(self, queues: Iterable[str]) -> None:
        self.queues = sorted(queues)
        self.snapshot: str | None = None
        """None before anything is known."""
        self.own: str | None = None
        """The transaction that took the snapshot."""
        self.server: str | None = None
        self.sent = 0.0
        """When the snapshot wasn't yet taken."""
        self._lanes: dict[Lane, dict[int, Mark]] = {}
        """Lane → -priority → mark."""
        self._old: set[tuple[Lane, int]] = set()
        """Where jobs were found: the first of them may be gone."""
        self._names: dict[str, list[str]] = {queue: [] for queue in self.queues}
        self._merged: dict[tuple[str, ...], list[str]] = {}
        """Names of several queues together, until one changes."""
        self._due: dict[str, Mark] = dict.fromkeys(self.queues, NOTHING)
        self.begin()

    # A transaction

    def begin(self) -> None:
        """What is learnt from now on can be undone."""
        self._before: dict[tuple[Lane, int], Mark | None] = {}
        self._due_before = dict(self._due)
        self._moment_before = (self.snapshot, self.own, self.server, self.sent)

    def undo(self) -> None:
        """Nothing of what was learnt since `begin` happened."""
        for (lane, prio_neg), mark in self._before.items():
            self._put(lane, prio_neg, mark)
        self._due = self._due_before
        self.snapshot, self.own, self.server, self.sent = self._moment_before

    # Reading

    def marks(self, lane: Lane) -> dict[int, Mark]:
        """From where on a lane must be read, by priority; empty if nobody is there."""
        return self._lanes.get(lane, {})

    def is_old(self, lane: Lane, prio_neg: int) -> bool:
        """Whether it is worth while to look where a mark should be."""
        return prio_neg == KEYED or (lane, prio_neg) in self._old

    def names(self, queues: Sequence[str]) -> list[str]:
        """The tenants that may have jobs in the queues, in order."""
        if len(queues) == 1:
            return self._names[queues[0]]
        of = tuple(queues)
        if of not in self._merged:
            self._merged[of] = sorted({name for queue in queues for name in self._names[queue]})
        return self._merged[of]

    def due_at(self, queue: str) -> Mark:
        """From where on `scheduled` must be read."""
        return self._due[queue]

    # Learning

    def at(self, snapshot: str, own: str | None, server: str, sent: float) -> None:
        """The moment that what is learnt now belongs to."""
        self.snapshot, self.own, self.server, self.sent = snapshot, own, server, sent

    def newcomer(self, lane: Lane, prio_neg: int, mark: Mark) -> None:
        """Somebody came, perhaps before all others."""
        known = self.marks(lane).get(prio_neg)
        if known is None or mark < known:
            self._learn(lane, prio_neg, mark)

    def first(self, lane: Lane, prio_neg: int, mark: Mark | None) -> None:
        """The first row that is visible."""
        self._old.discard((lane, prio_neg))
        self._learn(lane, prio_neg, mark)

    def found(self, lane: Lane, prio_negs: Iterable[int], whole: bool) -> None:
        """Jobs that a claim may take, and whether they are all that it could have."""
        self._old.update((lane, prio_neg) for prio_neg in (self.marks(lane) if whole else prio_negs))

    def first_due(self, queue: str, mark: Mark | None) -> None:
        self._due[queue] = NOTHING if mark is None else mark

    def _learn(self, lane: Lane, prio_neg: int, mark: Mark | None) -> None:
        self._before.setdefault((lane, prio_neg), self.marks(lane).get(prio_neg))
        self._put(lane, prio_neg, mark)

    def _put(self, lane: Lane, prio_neg: int, mark: Mark | None) -> None:
        tenant, names, marks = lane[0], self._names[lane[1]], self._lanes.get(lane)
        if mark is not None:
            if marks is None:
                marks = self._lanes[lane] = {}
                insort(names, tenant)
                self._merged.clear()
            marks[prio_neg] = mark
        elif marks is not None and marks.pop(prio_neg, None) is not None and not marks:
            del self._lanes[lane]
            del names[bisect_left(names, tenant)]
            self._merged.clear()

    def __len__(self) -> int:
        return len(self._lanes)


class Frontiers:
    """The frontiers of one process, lent to one transaction at a time, and the rule when to keep any."""

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self._until = 0.0
        self._too_many_until = 0.0
        self._kept: list[Frontier] = []

    def looked(self, entries: int) -> None:
        """How many index entries a claim without a frontier has read; fewer than none in a small index (`@walked`)."""
        now = time.monotonic()
        if self._patience is None or now < self._too_many_until:
            return
        if max(0, entries) >= self._patience:
            self._until = now + KEEP_SECONDS

    @property
    def needed(self) -> bool:
        """Whether claims are to keep any, for now."""
        return time.monotonic() < self._until

    def lend(self, queues: Sequence[str], since: float) -> Frontier | None:
        """A frontier for a connection that is open since then; None if none is needed. A new one knows nothing yet."""
        if not self.needed:
            self._kept.clear()
            return None
        try:
            kept = self._kept.pop()
        except IndexError:
            kept = Frontier(queues)
        if not set(queues) <= set(kept.queues):
            wider = {*queues, *kept.queues}
            kept = Frontier(queues if len(wider) > MOST_QUEUES else wider)
        elif kept.sent <= since:
            kept = Frontier(kept.queues)
        kept.begin()
        return kept

    def give_back(self, frontier: Frontier) -> None:
        """After its transaction."""
        if len(frontier) > MOST_LANES:
            self.too_many()
        elif frontier.snapshot is not None:
            self._kept.append(frontier)

    def too_many(self) -> None:
        """There are more lanes than a process should know: claims do without for a while."""
        self._until, self._too_many_until = 0.0, time.monotonic() + KEEP_SECONDS


class Border(msgspec.Struct, frozen=True):
    """A frontier of one lane: of `inbox`, or of `claimed`."""

    mark: int = 0
    snapshot: str | None = None
    own: str | None = None
    server: str | None = None
    sent: float = 0.0
    """When the snapshot wasn't yet taken."""
    whole: float = 0.0
    """When it was last read from the very beginning."""

    def usable(self, since: float) -> bool:
        """By a connection that is open since then."""
        return self.sent > since and time.monotonic() < self.whole + KEEP_SECONDS

    def then(self, mark: int, snapshot: str, own: str | None, server: str, sent: float) -> "Border":
        """What is known now."""
        whole = sent if self.snapshot is None or server != self.server else self.whole
        return Border(mark, snapshot, own, server, sent, whole)
