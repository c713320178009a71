"""Where a job stands: the narrow tables that the scans walk, derived from its record alone."""

from tenure.domain.job import Job
from tenure.domain.names import DAY, Ms
from tenure.domain.states import State
from tenure.stores.sql.sqlite.rows import Row

KEYS = {
    "ready": 6,
    "scheduled": 3,
    "blocked": 3,
    "running": 4,
    "in_order": 4,
    "expiring": 3,
    "finished": 3,
}
"""The tables, and how many columns each one's key has."""


def places(job: Job, border: Ms) -> list[tuple[str, Row]]:
    """The tables a job stands in, with its row there. A pending job is ready up to `border`, scheduled after it."""
    spec, state = job.spec, job.state
    tenant, queue, seq, group = spec.tenant, spec.queue, spec.seq, spec.group or ""
    if state is State.PENDING:
        found: list[tuple[str, Row]] = [
            (
                "ready" if job.run_at <= border else "scheduled",
                (queue, tenant, group, -job.priority, job.run_at, seq, job.expires_at),
            )
        ]
        if job.expires_at is not None:
            found.append(("expiring", (job.expires_at, tenant, spec.id, seq)))
    elif state is State.RUNNING and job.lease is not None:
        found = [("running", (queue, tenant, group, seq, job.token, job.lease.deadline))]
    elif state is State.BLOCKED:
        return [("blocked", (queue, tenant, seq))]
    else:
        return [("finished", ((job.finished_at or 0) // DAY, state.value, seq))]
    if group:
        found.append(("in_order", (queue, tenant, group, seq, job.expires_at)))
    return found


def key_of(table: str, row: Row) -> Row:
    """The key of a row, as `drop_…` takes it."""
    return (row[0], row[4], row[5]) if table == "scheduled" else row[: KEYS[table]]
