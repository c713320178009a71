"""The store's own account: the events of the feed, replayed. Holds under any interleaving.

Per job: dense versions, a path of the table, terminal is terminal, leases one at a time with growing numbers, attempts
in range, times that don't go back. Per queue and group: what runs at once, and how fast.
"""

from dataclasses import dataclass, field

from tenure.testing.checker.ledger import TERMINAL, Body, Ref
from tenure.testing.checker.violation import Violation

TABLE: dict[str, tuple[frozenset[str], str | None]] = {
    "unblocked": (frozenset({"blocked"}), "pending"),
    "claimed": (frozenset({"pending"}), "running"),
    "retry_scheduled": (frozenset({"running"}), "pending"),
    "lease_lost": (frozenset({"running"}), "pending"),
    "released": (frozenset({"running"}), "pending"),
    "succeeded": (frozenset({"running"}), "succeeded"),
    "failed": (frozenset({"running", "blocked"}), "failed"),
    "cancelled": (frozenset({"blocked", "pending", "running"}), "cancelled"),
    "cancel_requested": (frozenset({"running"}), None),
    "progress": (frozenset({"running"}), None),
    "rescheduled": (frozenset({"pending"}), None),
    "reprioritised": (frozenset({"pending"}), None),
    "replayed": (frozenset({"failed"}), None),
    "discarded": (frozenset({"failed"}), None),
}
"""Event kind → states it may come from, and the state it leads to (None: the same)."""

STORE_KINDS = frozenset({"purged", "configured", "paused", "resumed", "clock_jump"})
ENDS_LEASE = frozenset({"retry_scheduled", "lease_lost", "released", "succeeded"})


@dataclass(slots=True)
class Told:
    """One job as the feed tells it."""

    ref: Ref
    queue: str
    job_type: str
    group: str | None
    key_hash: str | None
    max_attempts: int
    parents: tuple[str, ...]
    replay_of: str | None
    payload_hash: str | None
    payload_size: int | None
    run_at: int
    enqueued_at: int
    at: int
    was_at: int = 0
    """The time of the event before."""
    state: str = "pending"
    version: int = 1
    attempt: int = 0
    lease_seq: int = 0
    claimed_at: int | None = None
    lease_until: int = 0
    finished_at: int | None = None
    ends: dict[int, tuple[str, int, bool]] = field(default_factory=dict)
    """How each lease ended, by lease_seq: kind, time, and whether sweep took it."""

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL


class Account:
    """All jobs as the feed tells them."""

    def __init__(self) -> None:
        self.jobs: dict[Ref, Told] = {}
        self.running: dict[tuple[str, str], dict[Ref, Told]] = {}
        self.counts: dict[str, int] = {}
        self.purges = 0
        self.reborn: set[Ref] = set()
        """Ids that were enqueued again after a purge."""
        self.enqueued = 0
        self.dead_lettered = 0

    def event(self, event: Body) -> Told | None:
        """The next event of its tenant; answers the job it is about."""
        kind = event["kind"]
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind in STORE_KINDS:
            self._store_event(event)
            return None
        if kind == "enqueued":
            return self._enqueued(event)
        if kind not in TABLE:
            raise Violation("H2", f"no such kind of event: {kind}")
        return self._moved(event)

    def _store_event(self, event: Body) -> None:
        if event.get("job_id") is not None or event.get("version") is not None:
            raise Violation("H11", f"{event['kind']} concerns no job, it names {event.get('job_id')}")
        if event["kind"] == "purged":
            self.purges += 1

    def _enqueued(self, event: Body) -> Told:
        ref = (event["tenant"], event["job_id"])
        before = self.jobs.get(ref)
        if event.get("version") != 1:
            raise Violation("H2", f"{_name(ref)} starts at version {event.get('version')}")
        if before is not None and not (before.terminal and self.purges):
            raise Violation("H2", f"{_name(ref)} is enqueued twice")
        if before is not None:
            self.reborn.add(ref)
        job = Told(
            ref=ref,
            queue=event["queue"],
            job_type=event["job_type"],
            group=event.get("group"),
            key_hash=event.get("key_hash"),
            max_attempts=event["max_attempts"],
            parents=tuple(event.get("parents") or ()),
            replay_of=event.get("replay_of"),
            payload_hash=event.get("payload_hash"),
            payload_size=event.get("payload_size"),
            run_at=event["run_at"],
            enqueued_at=event["at"],
            at=event["at"],
        )
        self._check_numbers(job, event, attempt=(0,), lease_seq=0)
        self._attach(job)
        self.jobs[ref] = job
        self.enqueued += 1
        return job

    def _attach(self, job: Told) -> None:
        for parent in job.parents:
            above = self.jobs.get((job.ref[0], parent))
            if above is None:
                raise Violation("H12", f"{_name(job.ref)} waits for {parent}, which the feed doesn't know")
            if not above.terminal:
                job.state = "blocked"

    def _moved(self, event: Body) -> Told:
        ref, kind = (event["tenant"], event["job_id"]), event["kind"]
        job = self.jobs.get(ref)
        if job is None:
            raise Violation("H11", f"{kind} of {_name(ref)} comes before it was enqueued")
        if event.get("version") != job.version + 1:
            raise Violation("H2", f"{kind} of {_name(ref)} has version {event.get('version')} after {job.version}")
        if event["at"] < job.at:
            raise Violation("H11", f"{kind} of {_name(ref)} at {event['at']}, its last event was at {job.at}")
        self._check_move(job, event)
        job.version += 1
        job.was_at, job.at = job.at, event["at"]
        self._apply(job, event)
        return job

    def _check_move(self, job: Told, event: Body) -> None:
        kind = event["kind"]
        sources, _ = TABLE[kind]
        at_once = job.version == 1 and job.parents and kind in ("failed", "cancelled")
        if job.state in sources or (at_once and job.state == "pending"):
            return
        if job.terminal:
            property = "H8" if job.state == "cancelled" and kind in ENDS_LEASE else "H2"
            raise Violation(property, f"{kind} of {_name(job.ref)}, which ended: {job.state}")
        property = "H3" if kind == "claimed" and job.state == "running" else "H2"
        if kind == "claimed" and job.state == "blocked":
            property = "H12"
        raise Violation(property, f"{kind} of {_name(job.ref)}, which is {job.state}")

    def _apply(self, job: Told, event: Body) -> None:
        kind = event["kind"]
        if kind == "claimed":
            self._claimed(job, event)
            return
        was_running = job.state == "running"
        refunds = kind in ("released", "replayed", "discarded") or (was_running and kind in ("failed", "cancelled"))
        attempts = (job.attempt, job.attempt - 1) if refunds else (job.attempt,)
        self._check_numbers(job, event, attempt=attempts, lease_seq=job.lease_seq)
        _, target = TABLE[kind]
        if kind == "unblocked":
            self._check_unblocked(job)
        if was_running and target is not None:
            self._end_lease(job, event)
        job.run_at = event.get("run_at", job.run_at)
        if target is not None:
            job.state = target
        if job.terminal and target is not None:
            job.finished_at = event["at"]
            self.dead_lettered += job.state == "failed"

    def _claimed(self, job: Told, event: Body) -> None:
        if event.get("lease_seq") != job.lease_seq + 1:
            raise Violation("H3", f"{_name(job.ref)} claimed with lease {event.get('lease_seq')} after {job.lease_seq}")
        if event.get("attempt") != job.attempt + 1 or job.attempt + 1 > job.max_attempts:
            raise Violation(
                "H3",
                f"{_name(job.ref)} claimed as attempt {event.get('attempt')} after {job.attempt} of {job.max_attempts}",
            )
        if event["at"] < job.run_at:
            raise Violation("H10", f"{_name(job.ref)} claimed at {event['at']}, before its time {job.run_at}")
        job.lease_seq += 1
        job.attempt += 1
        job.state = "running"
        job.claimed_at = event["at"]
        job.lease_until = event["lease_until"]
        self.running.setdefault((job.ref[0], job.queue), {})[job.ref] = job

    def _end_lease(self, job: Told, event: Body) -> None:
        kind, at = event["kind"], event["at"]
        if event.get("run_ms") is None or event["run_ms"] != at - (job.claimed_at or 0):
            raise Violation("H11", f"{kind} of {_name(job.ref)} ended a lease, run_ms is {event.get('run_ms')}")
        if _lost(event) and at <= job.lease_until:
            raise Violation("H3", f"{_name(job.ref)}: lease until {job.lease_until} taken at {at}")
        job.ends[job.lease_seq] = (kind, at, _lost(event))
        if kind == "released":
            job.attempt -= 1
        self.running[(job.ref[0], job.queue)].pop(job.ref)

    def _check_unblocked(self, job: Told) -> None:
        for parent in job.parents:
            if not self.jobs[(job.ref[0], parent)].terminal:
                raise Violation("H12", f"{_name(job.ref)} is unblocked before its parent {parent} ended")

    def _check_numbers(self, job: Told, event: Body, *, attempt: tuple[int, ...], lease_seq: int) -> None:
        if event.get("lease_seq") != lease_seq or event.get("attempt") not in attempt:
            raise Violation(
                "H3",
                f"{event['kind']} of {_name(job.ref)}: lease {event.get('lease_seq')} attempt {event.get('attempt')},"
                f" must be {lease_seq} and {attempt[0]}",
            )

    def live(self) -> list[Told]:
        return [job for job in self.jobs.values() if not job.terminal]


def _lost(event: Body) -> bool:
    """Whether sweep took the lease; a worker's own failure carries its error."""
    if event["kind"] == "lease_lost":
        return True
    return event["kind"] == "failed" and event.get("reason") == "lease_lost" and event.get("error_family") is None


def _name(ref: Ref) -> str:
    return f"{ref[0]}/{ref[1]}"
