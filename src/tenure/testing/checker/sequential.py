"""One client, calls one after the other: everything is checked exactly.

Where the contract leaves something open (a call that ended in an exception, whether a no-op moved the store's clock)
the checker follows every possibility until what it sees leaves one.
"""

from collections.abc import Callable

from tenure.testing.checker import commands, documents, feed, keys, leases, order, reads, sweeps, transfer
from tenure.testing.checker.ledger import Body, Ledger
from tenure.testing.checker.violation import Violation

MOST_WORLDS = 64

UNCHANGED = frozenset({"InvalidValue", "Unsupported", "StoreFull", "TypeError", "ValueError"})
"""Exceptions after which the store is surely as it was."""


def _exchange(ledger: Ledger, asked: Body, body: Body | None) -> None:
    leases.settle(ledger, asked["settlements"], None if body is None else body["settled"])
    if asked.get("claim") is not None:
        order.claim(ledger, asked["claim"], None if body is None else body["claimed"])


def _reply(body: Body | None) -> Body | None:
    """A single reply: of an answer, or the refusal of the whole call."""
    if body is None or "refused" in body:
        return body
    reply: Body | None = body["reply"]
    return reply


def _replies(body: Body | None) -> list[Body] | None:
    return None if body is None else body["replies"]


Move = Callable[[Ledger, Body, "Body | None"], None]

MOVES: dict[str, Move] = {
    "enqueue": lambda ledger, asked, body: keys.enqueue(ledger, asked, _replies(body)),
    "claim": lambda ledger, asked, body: order.claim(ledger, asked["claim"], _reply(body)),
    "renew": lambda ledger, asked, body: leases.renew(ledger, asked, _replies(body)),
    "settle": lambda ledger, asked, body: leases.settle(ledger, asked["settlements"], _replies(body)),
    "exchange": _exchange,
    "command": lambda ledger, asked, body: commands.command(ledger, asked, _replies(body)),
    "sweep": lambda ledger, asked, body: sweeps.sweep(ledger, asked, _reply(body)),
    "purge": lambda ledger, asked, body: sweeps.purge(ledger, asked, _reply(body)),
    "put_document": lambda ledger, asked, body: documents.put(ledger, asked, _reply(body)),
    "freeze": lambda ledger, asked, body: transfer.freeze(ledger, asked, _reply(body)),
    "thaw": lambda ledger, asked, body: transfer.thaw(ledger, asked, _reply(body)),
    "load": lambda ledger, asked, body: transfer.needs_freeze(ledger, asked, body),
}
"""Verbs that may change something. Body None: the answer never came."""

READS: dict[str, Move] = {
    "get": lambda ledger, asked, body: reads.get(ledger, asked, _replies(body) or []),
    "query": lambda ledger, asked, body: reads.query(ledger, asked, body or {}),
    "dump": lambda ledger, asked, body: transfer.needs_freeze(ledger, asked, body),
}


class Sequential:
    """All the states the store may be in."""

    def __init__(self) -> None:
        self.worlds = [Ledger()]

    @property
    def gave_up(self) -> bool:
        """Nothing exact can be said any more: a cascade past its budget, or too many possibilities."""
        return not self.worlds or any(world.loose for world in self.worlds)

    @property
    def now(self) -> int:
        return max((world.now for world in self.worlds), default=0)

    def answered(self, verb: str, clock: int, asked: Body, body: Body) -> None:
        """A call was answered, or refused whole."""
        move = MOVES.get(verb) or READS.get(verb)
        if move is None or self.gave_up:
            return
        self._split_time(clock)

        def step(world: Ledger) -> None:
            world.begin(clock)
            move(world, asked, body)

        self.each(step)
        if verb == "load" and "refused" not in body:
            self.worlds = [twin for world in self.worlds for twin in transfer.after_load(world)]
        self._tidy()

    def unanswered(self, verb: str, clock: int, asked: Body, error: str) -> None:
        """A call ended in an exception: it was done, in part or whole, or it wasn't."""
        move = MOVES.get(verb)
        if move is None or self.gave_up or error in UNCHANGED:
            return
        self._split_time(clock)
        worlds = []
        for world in self.worlds:
            for part in self._parts(verb, asked):
                twin = world.copy()
                twin.begin(clock)
                try:
                    move(twin, part, None)
                except Violation:
                    continue
                worlds.append(twin)
            worlds.append(world)
        self.worlds = worlds
        self._tidy()

    def _parts(self, verb: str, asked: Body) -> list[Body]:
        if verb != "exchange":
            return list(transfer.prefixes(verb, asked))
        settled = transfer.prefixes("settle", {"settlements": asked["settlements"]})
        return [asked, *({**part, "claim": None} for part in settled)]

    def each(self, step: Callable[[Ledger], None]) -> None:
        """Takes a step in every world; those it contradicts are left behind, and if none remains it is a violation."""
        if len(self.worlds) == 1:
            step(self.worlds[0])
            return
        worlds, wrong = [], None
        for world in self.worlds:
            try:
                step(world)
            except Violation as violation:
                wrong = wrong or violation
            else:
                worlds.append(world)
        if not worlds and wrong is not None:
            raise wrong
        self.worlds = worlds

    def observe(self, event: Body) -> None:
        """The feed shows a new event."""
        if not self.gave_up:
            self.each(lambda world: feed.observe(world, event))

    def caught_up(self, tenant: str | None, room: int) -> None:
        """A reader came to the end of the feed."""
        if not self.gave_up:
            self.each(lambda world: feed.check_caught_up(world, tenant, room))
            self._tidy()

    def _split_time(self, clock: int) -> None:
        for world in list(self.worlds):
            if world.ambiguous(clock):
                twin = world.copy()
                twin.mark = twin.mark_maybe
                world.mark_maybe = world.mark
                self.worlds.append(twin)

    def _tidy(self) -> None:
        """Worlds that became the same are one."""
        if len(self.worlds) > 1:
            kept: list[Ledger] = []
            for world in self.worlds:
                if not any(world.same(other) for other in kept):
                    kept.append(world)
            self.worlds = kept
        if len(self.worlds) > MOST_WORLDS:
            self.worlds = []
