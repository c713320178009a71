"""The checker: fed entry by entry, it raises at the first contradiction."""

from typing import TYPE_CHECKING

from tenure.testing.checker.concurrent import Concurrent
from tenure.testing.checker.feed import Streams
from tenure.testing.checker.ledger import Body
from tenure.testing.checker.liveness import Healing, check_alive
from tenure.testing.checker.paths import Account
from tenure.testing.checker.sequential import Sequential
from tenure.testing.checker.violation import Summary, Violation

if TYPE_CHECKING:  # the recorder knows the domain's values; the checker must run without them
    from tenure.testing.history import Entry

NOTES = frozenset({"clock", "crash", "heal", "end"})
CHANGES = frozenset(
    {"enqueue", "claim", "renew", "settle", "exchange", "command", "sweep", "purge", "put_document", "load"}
)


class Checker:
    """Checks one history against the contract, in one of two modes.

    Sequential: one client whose calls follow each other and whose clock (`Entry.at`) is the store's. Everything is
    checked exactly. Concurrent: several clients' entries merged by time. What holds under any interleaving is checked.
    """

    def __init__(self, *, sequential: bool) -> None:
        self.account = Account()
        self._latest = 0
        """The latest time on any client's clock: retention may have gone by it, even if the clock went back since."""
        self._streams = Streams(self._event)
        self._sequential = Sequential() if sequential else None
        self._concurrent = Concurrent(self.account)
        self._healing = Healing()
        self._open: dict[tuple[str, int], Entry] = {}
        self._pages: list[tuple[Entry, Entry]] = []
        self._counts = {"entries": 0, "calls": 0, "refused": 0, "unknown": 0}
        self._changed_at = -1
        self._changed_by: set[str] = set()
        self._complete = False

    # Feeding

    def feed(self, entry: "Entry") -> None:
        """The next entry of the history. Raises `Violation`."""
        self._latest = max(self._latest, entry.at)
        try:
            self._feed(entry)
        except Violation as violation:
            violation.entry = violation.entry or entry
            raise

    def _feed(self, entry: "Entry") -> None:
        self._counts["entries"] += 1
        self._read_pages(before=entry.at)
        if entry.verb in NOTES:
            self._healing.note(entry.verb, entry.body)
            if entry.verb == "crash" and self._sequential is not None:
                self._abandon(list(self._open))
        elif entry.phase == "invoke":
            self._abandon([(entry.process, entry.call)])
            self._open[(entry.process, entry.call)] = entry
            self._counts["calls"] += 1
            if self._sequential is None:
                self._concurrent.asked(entry.verb, entry.body)
        else:
            self._completed(entry)

    def _abandon(self, calls: list[tuple[str, int]]) -> None:
        """Whoever sent these calls died, or was started anew: their answers will never come."""
        for call in calls:
            invoke = self._open.pop(call, None)
            if invoke is not None:
                self._unanswered(invoke, "")

    def _completed(self, entry: "Entry") -> None:
        invoke = self._open.pop((entry.process, entry.call), None)
        if invoke is None:
            raise ValueError(f"{entry.process}/{entry.call} {entry.verb}: a completion without its invoke")
        if entry.verb in CHANGES:
            self._note_change(entry)
        if entry.phase == "unknown":
            self._counts["unknown"] += 1
            self._unanswered(invoke, str(entry.body.get("error", "")))
        else:
            self._counts["refused"] += entry.phase == "refused"
            self._answered(invoke, entry)

    def _note_change(self, entry: "Entry") -> None:
        self._complete = False
        if entry.at > self._changed_at:
            self._changed_at, self._changed_by = entry.at, set()
        self._changed_by.add(entry.process)

    def _after_changes(self, invoke: "Entry") -> bool:
        """Whether a call was surely sent after every change was answered."""
        same = invoke.at == self._changed_at and self._changed_by <= {invoke.process}
        return self._sequential is not None or invoke.at > self._changed_at or same

    def _unanswered(self, invoke: "Entry", error: str) -> None:
        if self._sequential is not None:
            self._sequential.unanswered(invoke.verb, invoke.at, invoke.body, error)
        else:
            self._concurrent.unanswered(invoke.verb, invoke.body)

    def _answered(self, invoke: "Entry", entry: "Entry") -> None:
        if entry.verb == "events":
            self._pages.append((invoke, entry))
            if self._sequential is not None:
                self._read_pages()
            return
        if self._sequential is not None:
            self._sequential.answered(entry.verb, invoke.at, invoke.body, entry.body)
        if entry.phase != "ok":
            self._concurrent.refused(entry.verb, invoke.body)
            return
        if self._sequential is None:
            self._concurrent.told(entry.verb, invoke.body, entry.body, invoke.at, entry.at)
        elif entry.verb == "enqueue":
            self._concurrent.clients.acknowledge(invoke.body["jobs"], entry.body["replies"], entry.at)
        if entry.verb == "sweep":
            self._healing.sweep(invoke.body, entry.body["reply"])
        elif entry.verb == "load":
            self._streams.forget_cursors()

    # The feed

    def _read_pages(self, before: int | None = None) -> None:
        """Looks at pages of events; in concurrent mode only when everything asked before them is known."""
        while self._pages and (before is None or self._pages[0][1].at < before):
            self._page(*self._pages.pop(0))

    def _page(self, invoke: "Entry", entry: "Entry") -> None:
        if entry.phase == "refused":
            self._streams.check_expired(invoke.body, self._latest)
            return
        reply = entry.body["reply"]
        tenant, room = invoke.body["tenant"], invoke.body["limit"] - len(reply["events"])
        followed = self._streams.page(invoke.body, reply, self._latest)
        if not followed:
            return
        if self._sequential is not None:
            self._streams.check_shown(invoke.body, reply)
            self._sequential.caught_up(tenant, room)
        at_end = not reply["events"] or (self._sequential is not None and room > 0)
        if tenant is None and at_end and self._after_changes(invoke):
            self._complete = True

    def _event(self, event: Body) -> None:
        job = self.account.event(event)
        if self._sequential is not None:
            self._sequential.observe(event)
        elif job is not None:
            self._concurrent.observe(job, event)

    # The end

    def finish(self) -> Summary:
        """What can only be said at the end, and a summary. Raises `Violation`."""
        self._read_pages()
        for invoke in self._open.values():
            self._concurrent.unanswered(invoke.verb, invoke.body)
        if self._complete:
            self._concurrent.clients.check_complete()
            check_alive(self.account, self._concurrent.clients, self._healing)
        return self._summary()

    def _summary(self) -> Summary:
        counts, clients = self.account.counts, self._concurrent.clients
        known = self.account.jobs
        return Summary(
            **self._counts,
            events=self._streams.total,
            acknowledged=len(clients.acknowledged),
            enqueued=self.account.enqueued,
            claimed=counts.get("claimed", 0),
            succeeded=counts.get("succeeded", 0),
            failed=counts.get("failed", 0),
            cancelled=counts.get("cancelled", 0),
            recovered=counts.get("lease_lost", 0),
            dead_lettered=self.account.dead_lettered,
            live=len(self.account.live()),
            lost=sum(1 for ref in clients.acknowledged if ref not in known),
            feed_complete=self._complete,
        )
