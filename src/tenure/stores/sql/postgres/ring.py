"""The tenants that a claim will visit, and the beginnings of their lines, read with few questions."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from tenure.domain.calls import Claim
from tenure.domain.job import secret_hash
from tenure.domain.model.tables import Lane
from tenure.domain.names import Ms
from tenure.domain.states import Mode
from tenure.stores.sql.postgres.frontier import Frontier
from tenure.stores.sql.postgres.place import Overtaken
from tenure.stores.sql.rows import Row
from tenure.stores.ways import Way

if TYPE_CHECKING:
    from tenure.stores.sql.postgres.tables import PostgresTables

RING = 256
"""Tenants whose lines one claim reads ahead, at most."""


_WITHIN = itemgetter(4, 0)
_PRIORITY = itemgetter(3)


def _sorted(line: list[Row]) -> list[Row]:
    """Jobs as they stand in their line: by priority, time and arrival."""
    line.sort(key=_WITHIN)
    if len(set(map(_PRIORITY, line))) > 1:
        line.sort(key=_PRIORITY, reverse=True)
    return line


class Ring:
    """A ring whose names are known, its lines read from their beginnings.

    With an edge, only the names from the cursor up to it are all known.
    """

    def __init__(
        self, tables: "PostgresTables", request: Claim, now: Ms, names: list[str], edge: str | None = None
    ) -> None:
        self._tables = tables
        self._request = request
        self._now = now
        self._queues = sorted(queue for queue, _ in request.queues)
        self._edge = edge
        self._given = names if request.tenants is None else sorted(set(request.tenants))
        self._lines: dict[Lane, list[Row]] = {}
        self._sizes: dict[Lane, int] = {}

    def names(self) -> list[str]:
        return self._given

    def after(self, tenant: str, limit: int) -> list[str] | None:
        """The next names of the ring; None if they aren't all known."""
        names = self.names()
        at = bisect_right(names, tenant)
        if self._edge is not None:
            known = bisect_right(names, self._edge)
            if tenant < self._request.cursor.tenant or at + limit > known:
                return None
        return names[at : at + limit]

    def lone(self, most: int) -> str | None:
        """The only tenant in the ring, if there is one only and so much of its line is read at once."""
        names = self.names()
        if len(names) != 1 or self._edge is not None or self._request.tenants is not None:
            return None
        return names[0] if (self._tables.tenant_config(names[0]).weight or 1) <= most else None

    def peek(self, lane: Lane) -> list[Row]:
        """The beginning of a line, which stays."""
        line, _ = self.line(lane)
        self._lines[lane] = line
        return line

    def read_all(self, lane: Lane, wanted: int) -> bool:
        """Whether so much of a line is read, or all of it: a look may find out that a tenant is alone, and read for
        several.
        """
        size = self._sizes.get(lane)
        return size is None or size >= wanted or len(self._lines[lane]) < size

    def line(self, lane: Lane) -> tuple[list[Row], int]:
        """The beginning of a line, and how many were asked for."""
        if lane not in self._sizes:
            self._read(lane[0])
        return _sorted(self._lines.pop(lane, [])), self._sizes[lane]

    def _read(self, first: str) -> None:
        """Reads lines from a tenant on, about as many jobs as the claim wants."""
        section = self._section(first)
        self._sizes.update(section)
        wanted = [(queue, tenant, most) for (tenant, queue), most in section.items() if most]
        if len(wanted) > 1:
            self._tables.ways.took(Way.LOOK_RING)
        for row in self._tables.pipeline.ask_many("lines", wanted, self._now):
            self._lines.setdefault((row[8], row[9]), []).append(row)

    def _section(self, first: str) -> dict[Lane, int]:
        """The lanes to read next, from a tenant on, and how much of each; nothing of a keyed one."""
        names, tables, sizes = self.names(), self._tables, self._sizes
        at = bisect_right(names, first)
        coming = [first, *names[at : at + RING - 1]]
        coming += names[: min(bisect_left(names, first), RING - len(coming))]
        each = -(-self._request.n // len(coming))
        section: dict[Lane, int] = {}
        total = 0
        for tenant in coming:
            size = max(each, tables.tenant_config(tenant).weight or 1)
            for queue in self._queues:
                lane = (tenant, queue)
                if lane not in sizes:
                    section[lane] = 0 if tables.rules(*lane).mode is Mode.KEYED else size
            total += size
            if each == 1 and total >= self._request.n:
                break
        return section


class FrontierRing(Ring):
    """A ring that grows as tenants come, its lines read from a frontier on."""

    def __init__(self, tables: "PostgresTables", request: Claim, now: Ms, frontier: Frontier) -> None:
        super().__init__(tables, request, now, [])
        self.frontier = frontier
        self._token = secret_hash(request.claim_id)
        self.known = False
        """Whether the claim's id is known already."""

    def names(self) -> list[str]:
        return self._given if self._request.tenants is not None else self.frontier.names(self._queues)

    def look(self) -> None:
        """Learns what is new, and reads the lines that are likely to be asked for first.

        If these are all that the frontier knows then the other lanes that got jobs are as new, and read too.
        """
        names = self.names()
        at = bisect_left(names, self._request.cursor.tenant)
        section = self._section(names[at] if at < len(names) else names[0]) if names else {}
        every = self._request.tenants is None and len(section) == len(names) * len(self._queues)
        self._ask(section, min(RING, self._request.n) if every else 0)

    def line(self, lane: Lane) -> tuple[list[Row], int]:
        if lane not in self._sizes and not self.frontier.marks(lane):
            return [], 1
        return super().line(lane)

    def _read(self, first: str) -> None:
        self._ask(self._section(first), 0)

    def _ask(self, section: dict[Lane, int], most: int) -> None:
        """Reads these lanes, and others that got their first jobs, as long as there aren't more than `most` in all."""
        frontier, column = self.frontier, self._tables.pipeline.column
        lanes = {lane: size for lane, size in section.items() if frontier.marks(lane)}  # nobody was in the others
        self._sizes.update(lanes)
        places = [
            (lane[1], lane[0], prio_neg, *mark, size, frontier.is_old(lane, prio_neg))
            for lane, size in lanes.items()
            for prio_neg, mark in frontier.marks(lane).items()
        ]
        columns: Sequence[Sequence[object]] = list(zip(*places, strict=True)) or [()] * len(_PLACES)
        due = [frontier.due_at(queue) for queue in frontier.queues]
        sent = time.monotonic()
        found = self._tables.all(
            "claim_from",
            self._token,
            frontier.snapshot,
            frontier.own,
            column("text", frontier.queues),
            column("bigint", [run_at for run_at, _ in due]),
            column("bigint", [seq for _, seq in due]),
            self._now,
            *(column(kind, values) for kind, values in zip(_PLACES, columns, strict=True)),
            self._request.cursor.tenant,
            column("text", self._queues),
            max(0, most - len(lanes)),
            self._request.n,
        )
        self._learn(found, list(lanes), sent)

    def _learn(self, found: list[Row], read: list[Lane], sent: float) -> None:
        frontier = self.frontier
        count, _, snapshot, _, _, _, _, _, own, server, _ = found[-1]
        if server != frontier.server:
            self._tables.forsake()
            raise Overtaken
        self.known = count > 0
        for row in found:
            seq, _, _, prio_neg, run_at, _, _, _, tenant, queue, kind = row
            lane = (tenant, queue)
            if kind == "job":
                self._lines.setdefault(lane, []).append(row)
            elif kind == "read":
                self._sizes[lane] = seq  # so many were asked for
                read.append(lane)
            elif kind == "first":
                frontier.first(lane, prio_neg, None if seq is None else (run_at, seq))
            elif kind == "new":
                frontier.newcomer(lane, prio_neg, (run_at, seq))
            elif kind == "due":
                frontier.first_due(queue, None if seq is None else (run_at, seq))
        for lane in read:
            jobs = self._lines.get(lane, ())
            frontier.found(lane, {-row[3] for row in jobs}, whole=len(jobs) < self._sizes[lane])
        frontier.at(snapshot, own, server, sent)


_PLACES = ("text", "text", "bigint", "bigint", "bigint", "bigint", "boolean")
"""What `claim_from` is told of a lane and priority: queue, tenant, -priority, mark, how much to read, is it old."""
