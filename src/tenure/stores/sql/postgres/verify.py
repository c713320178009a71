"""fsck of a PostgreSQL schema."""

from tenure.domain.job import Job
from tenure.stores.sql.postgres.keeping import PLACES, WAITING
from tenure.stores.sql.postgres.place import Unreadable
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.sql.rows import Row
from tenure.stores.sql.verify import QUESTIONS, Stored, attached, questions, records

_WAITING = "queue, tenant, grp, prio_neg, run_at, seq, expires_at, version"
COLUMNS = {
    "ready": _WAITING,
    "scheduled": _WAITING,
    "blocked": "queue, tenant, seq, version",
    "in_order": "queue, tenant, grp, seq, expires_at",
    "expiring": "expires_at, tenant, id, seq",
}
"""What a place says of its job; not who wrote it, nor what a newer schema may add."""


def verify(tables: PostgresTables) -> list[str]:
    """Every difference found, in words; empty for a sound store."""
    stored: Stored = {
        table: set(tables.stream(f"SELECT {columns} FROM tenure.{table}", ())) for table, columns in COLUMNS.items()
    }
    return [
        *records(tables, stored, 0, _take),
        *_versions(tables),
        *attached(tables),
        *questions(tables, {**QUESTIONS, **_QUESTIONS}),
    ]


def _take(stored: Stored, table: str, place: Row, job: Job) -> str | None:
    """Takes a job's place away. Which of two tables a pending job stands in depends on when it was last looked at."""
    row = (*place, job.version) if table in PLACES else place
    for holding in WAITING if table in WAITING else (table,):
        if row in stored[holding]:
            stored[holding].remove(row)
            return None
    return f"is missing from {table}, at version {job.version}"


def _versions(tables: PostgresTables) -> list[str]:
    """The versions beside records that run or ended, against their own."""
    found = tables.stream(
        "SELECT seq, version FROM tenure.running UNION ALL SELECT seq, version FROM tenure.finished", ()
    )
    beside: dict[int, int] = {row[0]: row[1] for row in found}
    records = tables.stream("SELECT seq, spec, state, priority, run_at, live FROM tenure.record", ())
    jobs = (job for row in records if (job := _readable(tables, row)) is not None)
    return [
        f"job {job.ref} has version {beside[job.spec.seq]} beside it, its record says {job.version}"
        for job in jobs
        if beside.get(job.spec.seq, job.version) != job.version
    ]


def _readable(tables: PostgresTables, row: Row) -> Job | None:
    try:
        return tables.record(row)
    except Unreadable:
        return None  # the comparison of records has told


_QUESTIONS = {
    "rows set aside": "SELECT seq, reason FROM tenure.quarantine ORDER BY number",
    "child that nobody will tell of its parent's end": """
        SELECT e.tenant, e.parent, e.child FROM tenure.edge AS e
        JOIN tenure.record AS p ON p.tenant = e.tenant AND p.id = e.parent
        WHERE e.resolved = 0 AND p.state IN ('succeeded', 'failed', 'cancelled') AND NOT EXISTS (
            SELECT 1 FROM tenure.cascade AS w WHERE w.tenant = e.tenant AND w.id = e.parent
        ) AND NOT EXISTS (
            SELECT 1 FROM tenure.recheck AS w WHERE w.tenant = e.tenant AND w.id = e.parent
        )""",
    "running job that no claim is known for": """
        SELECT r.seq FROM tenure.running AS r WHERE NOT EXISTS (
            SELECT 1 FROM tenure.claimed AS c
            WHERE c.token = r.token AND r.seq = ANY (c.seqs) AND c.deadline <= r.deadline
        )""",
    "ended jobs of a day that isn't listed": """
        SELECT DISTINCT day, state FROM tenure.finished EXCEPT SELECT day, state FROM tenure.ended""",
    "feed with a gap": """
        SELECT m.feed_floor, f.first, f.last, f.chunks
        FROM tenure.meta AS m,
            (SELECT min(position) AS first, max(position) AS last, count(*) AS chunks FROM tenure.feed) AS f
        WHERE f.chunks > 0 AND (f.first <> m.feed_floor + 1 OR f.last - f.first + 1 <> f.chunks)""",
}
"""Questions whose every answer is a fault."""
