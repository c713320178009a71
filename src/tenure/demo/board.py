"""What the feed says, counted: by job, by tenant, by worker."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from tenure.domain.event import Event
from tenure.domain.job import Ref
from tenure.domain.states import TERMINAL, EventKind

ENDINGS = frozenset(EventKind(state.value) for state in TERMINAL)
WAITS = frozenset({EventKind.ENQUEUED, EventKind.RETRY_SCHEDULED, EventKind.LEASE_LOST, EventKind.RELEASED})
DESERTED = frozenset({"crashed", "lease_lost"})
"""How a lease ends whose worker is gone: the supervisor says so, or it runs out."""


class Known(msgspec.Struct):
    """One job, as far as the feed has told."""

    job_type: str
    worker: str | None = None
    """Who holds it now."""
    endings: list[EventKind] = []
    deserted: bool = False
    """A worker died with it in hand."""

    @property
    def live(self) -> bool:
        return not self.endings

    @property
    def recovered(self) -> bool:
        return self.deserted and self.endings == [EventKind.SUCCEEDED]


class Row(msgspec.Struct):
    """A tenant's jobs, or a worker's, by how they stand."""

    waiting: int = 0
    running: int = 0
    succeeded: int = 0


class Board:
    """The state of everything, rebuilt from events."""

    def __init__(self) -> None:
        self.jobs: dict[Ref, Known] = {}
        self.kinds: Counter[EventKind] = Counter()
        self.workers: dict[str, Row] = {}
        """Every worker that ever took a job."""
        self.most_in_a_group = 0
        self.events = 0

    def add(self, event: Event) -> None:
        self.events += 1
        self.kinds[event.kind] += 1
        if event.job_id is None:
            return
        job = self.jobs.setdefault((event.tenant, event.job_id), Known(event.job_type or ""))
        if event.reason in DESERTED and event.run_ms is not None:
            job.deserted = True
        if event.kind is EventKind.CLAIMED:
            self._claimed(job, event)
        elif event.kind in ENDINGS or event.kind in WAITS:
            self._let_go(job, event)

    def _claimed(self, job: Known, event: Event) -> None:
        job.worker = event.worker
        self.workers.setdefault(event.worker or "", Row()).running += 1
        self.most_in_a_group = max(self.most_in_a_group, event.group_holders or 0)

    def _let_go(self, job: Known, event: Event) -> None:
        if event.kind in ENDINGS:
            job.endings.append(event.kind)
        if job.worker is None:
            return
        row = self.workers[job.worker]
        row.running -= 1
        row.succeeded += event.kind is EventKind.SUCCEEDED
        job.worker = None

    # Counts

    @property
    def live(self) -> int:
        """Jobs that haven't ended."""
        return sum(job.live for job in self.jobs.values())

    @property
    def recovered(self) -> int:
        """Jobs that succeeded after a worker had died with them in hand."""
        return sum(job.recovered for job in self.jobs.values())

    def ended(self, refs: Iterable[Ref]) -> bool:
        return all(ref in self.jobs and not self.jobs[ref].live for ref in refs)

    def held(self, worker: str, job_type: str) -> set[Ref]:
        """Jobs of a type that a worker has in hand."""
        return {ref for ref, job in self.jobs.items() if job.worker == worker and job.job_type == job_type}

    def tenants(self) -> dict[str, Row]:
        rows: dict[str, Row] = {}
        for (tenant, _), job in self.jobs.items():
            row = rows.setdefault(tenant, Row())
            row.running += job.worker is not None
            row.waiting += job.live and job.worker is None
            row.succeeded += job.endings == [EventKind.SUCCEEDED]
        return dict(sorted(rows.items()))
