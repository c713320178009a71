"""The feed as readers saw it: prefix-stable, each event once, a tenant's view part of the whole.

Events of one tenant come in one order in every view; between tenants the store-wide order is free, so the truth kept
here is one list per tenant, and the store-wide list is a merge of them.
"""

from collections import deque
from collections.abc import Callable

from tenure.testing.checker.ledger import Body, Expected, Ledger
from tenure.testing.checker.violation import Violation

KEPT = 14 * 86_400_000
"""Milliseconds an event stays in the feed at least."""

Handler = Callable[[Body], None]


class Streams:
    """Every page of events that anyone read."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self.views: dict[str, list[Body]] = {}
        self._wide: list[tuple[str, int]] = []
        self._wide_counts: dict[str, int] = {}
        self._cursors: dict[str | None, dict[str | None, int]] = {}

    @property
    def total(self) -> int:
        return sum(map(len, self.views.values()))

    def forget_cursors(self) -> None:
        """The store was transferred: cursors of before mean nothing any more."""
        self._cursors.clear()

    def page(self, asked: Body, reply: Body, now: int) -> bool:
        """A page of events was read; answers whether it goes on from a known place.

        Raises `Violation` if it contradicts what was read before.
        """
        tenant = asked["tenant"]
        events = reply["events"]
        cursors = self._cursors.setdefault(tenant, {None: 0})
        position = cursors.get(asked["after"])
        if tenant is not None:
            self._check_tenant(tenant, events)
        if position is None:
            return False  # a cursor from before this history
        if asked["after"] is None:
            position = self._skip_past_retention(tenant, events, now)
        for offset, event in enumerate(events):
            self._at(tenant, position + offset, event)
        for place, cursor in enumerate(reply.get("cursors", ()), position + 1):
            self._note_cursor(cursors, cursor, place)
        self._note_cursor(cursors, reply["cursor"], position + len(events))
        return True

    def check_shown(self, asked: Body, reply: Body) -> None:
        """A reader that is alone comes to an end, from a place after which something was seen before."""
        position = self._cursors[asked["tenant"]][asked["after"]]
        known = None if asked["after"] is None or reply["events"] else self._known(asked["tenant"], position)
        if known is not None:
            raise Violation(
                "H11", f"{_name(known)} came after {asked['after']!r:.60}, a later reader sees nothing there"
            )

    def check_expired(self, asked: Body, now: int) -> None:
        """A reader was refused with `CursorExpired`: something after its cursor must be past retention.

        A tenant's cursor is a place in the whole feed: what is past retention may be another tenant's.
        """
        position = self._cursors.get(asked["tenant"], {}).get(asked["after"])
        if position is None:
            return
        known = self._known(asked["tenant"], position) if asked["tenant"] is None else self._oldest()
        if known is None or known["at"] > now - KEPT:
            raise Violation("H11", f"cursor {asked['after']!r:.60} is refused, nothing after it is past retention")

    def _check_tenant(self, tenant: str, events: list[Body]) -> None:
        for event in events:
            if event["tenant"] != tenant:
                raise Violation("H14", f"the view of {tenant} shows an event of {event['tenant']}")

    def _note_cursor(self, cursors: dict[str | None, int], cursor: str, position: int) -> None:
        known = cursors.setdefault(cursor, position)
        if known != position:
            raise Violation("H11", f"cursor {cursor!r:.60} stood at event {known} before, now at {position}")

    def _oldest(self) -> Body | None:
        return min((view[0] for view in self.views.values() if view), key=lambda event: int(event["at"]), default=None)

    def _known(self, tenant: str | None, position: int) -> Body | None:
        if tenant is not None:
            view = self.views.get(tenant, [])
            return view[position] if position < len(view) else None
        if position < len(self._wide):
            owner, index = self._wide[position]
            return self.views[owner][index]
        return None

    def _skip_past_retention(self, tenant: str | None, events: list[Body], now: int) -> int:
        """Where the beginning of the feed is now: events past retention may be gone."""
        position = 0
        while (known := self._known(tenant, position)) is not None and known["at"] <= now - KEPT:
            if events and self._fits(tenant, position, events):
                return position
            position += 1
        return position

    def _fits(self, tenant: str | None, position: int, events: list[Body]) -> bool:
        known = (self._known(tenant, position + offset) for offset in range(len(events)))
        return all(one is None or one == event for one, event in zip(known, events, strict=True))

    def _at(self, tenant: str | None, position: int, event: Body) -> None:
        known = self._known(tenant, position)
        if known is not None:
            if known != event:
                raise Violation("H11", f"event {position} was {_name(known)}, a later reader sees {_name(event)}")
            return
        owner = event["tenant"]
        index = len(self.views.get(owner, [])) if tenant is not None else self._wide_counts.get(owner, 0)
        if tenant is None:
            self._wide.append((owner, index))
            self._wide_counts[owner] = index + 1
        self._add(owner, index, event)

    def _add(self, owner: str, index: int, event: Body) -> None:
        view = self.views.setdefault(owner, [])
        if index < len(view):
            if view[index] != event:
                raise Violation(
                    "H11", f"event {index} of {owner} is {_name(view[index])} to its tenant, {_name(event)} to all"
                )
            return
        view.append(event)
        self._handle(event)


def _name(event: Body) -> str:
    where = "" if event.get("job_id") is None else f" of {event['tenant']}/{event['job_id']} v{event.get('version')}"
    return f"{event['kind']}{where}"


# What the ledger expects


def observe(ledger: Ledger, event: Body) -> None:
    """The feed shows an event: it must be the next one due for its tenant."""
    due = ledger.due.get(event["tenant"], deque())
    place = _place(due, event)
    if place is None:
        wanted = next((expected for expected in due if not expected.optional), None)
        raise _unexpected(event, wanted)
    expected = due[place]
    del due[place]
    while place and due[place - 1].optional and due[place - 1].operation < expected.operation:
        place -= 1
        del due[place]
    _compare(event, expected)


def _place(due: deque[Expected], event: Body) -> int | None:
    """Which of the events due this is: the first, or one whose order among its operation's is free."""
    for place, expected in enumerate(due):
        timely = not expected.optional or event["at"] == expected.must["at"]
        if expected.kind == event["kind"] and _same_job(event, expected) and timely:
            return place
        if not (expected.optional or (expected.free and due[0].operation == expected.operation)):
            return None
    return None


def _same_job(event: Body, expected: Expected) -> bool:
    return bool(event.get("job_id") == expected.must["job_id"])


def _unexpected(event: Body, expected: Expected | None) -> Violation:
    if expected is None:
        return Violation(_blame(event["kind"]), f"{_name(event)} is in the feed, nothing that happened explains it")
    wanted = f"{expected.kind} of {expected.must['job_id']} v{expected.must.get('version')}"
    return Violation(_blame(expected.kind), f"{wanted} is due in the feed, it shows {_name(event)}")


def _blame(kind: str) -> str:
    return "H12" if kind == "unblocked" else "H11"


_FIELDS = {"version": "H2", "lease_seq": "H3", "attempt": "H3", "payload_hash": "H5", "payload_size": "H5"}


def _compare(event: Body, expected: Expected) -> None:
    for name, value in expected.must.items():
        if name == "payload_hash":
            told = event.get(name)
            wrong = told is not None and not (len(told) >= 16 and value.startswith(told))
        elif name == "keyed":
            told, name = event.get("key_hash"), "key_hash"
            wrong, value = (told is not None) != value, "present" if value else "absent"
        else:
            told = event.get(name)
            wrong = told != value
        if wrong:
            raise Violation(_FIELDS.get(name, "H11"), f"{_name(event)}: {name} is {told!r}, must be {value!r}")
    for name, values in expected.either.items():
        if event.get(name) not in values:
            raise Violation(
                _FIELDS.get(name, "H11"), f"{_name(event)}: {name} is {event.get(name)!r}, must be one of {values!r}"
            )


def check_caught_up(ledger: Ledger, tenant: str | None, room: int) -> None:
    """A reader came to the end of the feed: every event due must have shown, if it fitted on the page."""
    for owner, due in ledger.due.items():
        if tenant not in (None, owner):
            continue
        first = next((expected for expected in due if not expected.optional), None)
        if first is None:
            if room > 0:
                due.clear()
            continue
        size = sum(1 for other in due if other.operation == first.operation)
        if size <= room:
            wanted = f"{first.kind} of {owner}/{first.must['job_id']} v{first.must.get('version')}"
            raise Violation(_blame(first.kind), f"{wanted} is missing from the feed")
