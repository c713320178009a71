"""The groups that a claim will visit: tried for, counted and begun with few questions."""

from typing import TYPE_CHECKING

from tenure.domain.calls import Claim
from tenure.domain.config import QueueRules
from tenure.domain.model.tables import Lane
from tenure.domain.names import Ms
from tenure.stores.sql.postgres.ring import RING
from tenure.stores.sql.rows import Row
from tenure.stores.ways import Way

if TYPE_CHECKING:
    from tenure.stores.sql.postgres.tables import PostgresTables

FULL = 1 << 60
"""What a lane or group that another claim is at seems to hold: for this claim it has no room."""


class Keyed:
    """Groups of keyed lanes during one claim. As many are read together as it is likely to take jobs from.

    A group with a limit or a rate is this claim's only if nobody else is at it. Its holders are counted by the next
    statement, which sees what those did who were at it before. One that is seen to be full is left to others, unless
    its rate must be known.
    """

    def __init__(self, tables: "PostgresTables", request: Claim, now: Ms, tenants: int) -> None:
        self._tables = tables
        self._now = now
        self.size = max(1, min(RING, -(-request.n // max(1, tenants))))
        """How many groups of a lane are read together."""
        self._coming: dict[Lane, list[str]] = {}
        self._holders: dict[tuple[Lane, str], int] = {}
        self._first: dict[tuple[Lane, str], list[Row]] = {}

    def expect(self, lane: Lane, names: list[str]) -> None:
        """These will be asked for next, in this order."""
        self._coming.setdefault(lane, []).extend(names)

    def holders(self, lane: Lane, group: str) -> int | None:
        """How many jobs of a group run, or seem to; None if it must be looked at by itself."""
        if (lane, group) not in self._holders and group in self._coming.get(lane, ()):
            self._read(lane, group)
        return self._holders.get((lane, group))

    def first(self, lane: Lane, group: str) -> list[Row] | None:
        """The first job of a group's line, if it has any; None if that wasn't read."""
        return self._first.get((lane, group))

    def _read(self, lane: Lane, group: str) -> None:
        names = self._next(lane, group)
        if len(names) > 1:
            self._tables.ways.took(Way.LOOK_GROUPS)
        tables, rules, (tenant, queue) = self._tables, self._tables.rules(*lane), lane
        pipeline = tables.pipeline
        tried = [self._trying(rules, lane, name) for name in names]
        pipeline.ahead_many("group_starts", tried, queue, tenant, self._now, 0 if rules.ordered else 1)
        pipeline.ahead_many("group_counts", [(name,) for name in names], queue, tenant)
        for name in names:
            if rules.ordered:
                pipeline.ahead("head", queue, tenant, name, self._now)
            if rules.group_bucket is not None:
                pipeline.ahead("bucket", tenant, queue, name)
        found = pipeline.ask_many("group_starts", tried)
        counts: dict[str, int] = dict(pipeline.ask_many("group_counts", [(name,) for name in names]))
        locks = {name: number is not None for name, number, _ in tried}
        for name, held, mine, *row in found:
            if mine is not None and locks[name]:
                tables.tried(mine, "group", *lane, name)
            self._holders[lane, name] = held if mine is None else counts[name] if mine else FULL
            if mine and not rules.ordered:
                self._first[lane, name] = [] if row[0] is None else [tuple(row)]

    def _next(self, lane: Lane, group: str) -> list[str]:
        coming = self._coming[lane]
        at = coming.index(group)
        names = list(dict.fromkeys(coming[at : at + self.size]))
        del coming[: at + self.size]
        return names

    def _trying(self, rules: QueueRules, lane: Lane, name: str) -> tuple[str, int | None, int | None]:
        """A group, its lock if it needs one, and with how many holders it needn't be tried for."""
        limit, rated = rules.limit_of(name), rules.group_bucket is not None
        number = self._tables.pipeline.number("group", *lane, name) if rated or limit is not None else None
        return name, number, None if rated else limit
