"""Where a job stands in line: the narrow tables that the scans walk, derived from its record alone."""

from tenure.domain.job import Job
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.stores.sql.rows import Row

KEYS = {"ready": 6, "scheduled": 3, "blocked": 3, "in_order": 4, "expiring": 3}
"""The tables, and how many columns each one's key has."""


def places(job: Job, border: Ms) -> list[tuple[str, Row]]:
    """The tables a job stands in, with its row there. A pending job is ready up to `border`, scheduled after it."""
    spec, state = job.spec, job.state
    tenant, queue, seq, group = spec.tenant, spec.queue, spec.seq, spec.group or ""
    if state is State.BLOCKED:
        return [("blocked", (queue, tenant, seq))]
    found: list[tuple[str, Row]] = []
    expires_at = None
    if state is State.PENDING:
        expires_at = spec.expires_at if job.lease_seq == 0 else None
        table = "ready" if job.run_at <= border else "scheduled"
        found.append((table, (queue, tenant, group, -job.priority, job.run_at, seq, expires_at)))
        if expires_at is not None:
            found.append(("expiring", (expires_at, tenant, spec.id, seq)))
    elif state is not State.RUNNING:
        return found
    if group:
        found.append(("in_order", (queue, tenant, group, seq, expires_at)))
    return found


def moved(before: Job, after: Job, border: Ms) -> tuple[list[tuple[str, Row]], list[tuple[str, Row]]]:
    """The places a job leaves, and those it takes; one that stays the same is in neither."""
    here, there = places(before, border), places(after, border)
    return [place for place in here if place not in there], [place for place in there if place not in here]


def key_of(table: str, row: Row) -> Row:
    """The key of a row, as `drop_…` takes it."""
    return (row[0], row[4], row[5]) if table == "scheduled" else row[: KEYS[table]]
