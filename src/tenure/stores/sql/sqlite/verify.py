"""fsck: the records against everything that is derived from them or must agree with them."""

from collections.abc import Iterator

from tenure.domain.job import Job
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.stores.sql.sqlite import rows
from tenure.stores.sql.sqlite.places import KEYS, places
from tenure.stores.sql.sqlite.rows import Row
from tenure.stores.sql.sqlite.tables import SqliteTables


def verify(tables: SqliteTables) -> list[str]:
    """Every difference found, in words; empty for a sound store."""
    connection = tables.connection
    connection.execute("BEGIN")
    try:
        problems = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        problems += _records(tables)
        for says, question in _QUESTIONS.items():
            problems += [f"{says}: {row}" for row in connection.execute(question).fetchmany(20)]
        return problems
    finally:
        connection.execute("ROLLBACK")


def _records(tables: SqliteTables) -> Iterator[str]:
    """Places, labels and columns rebuilt from the records, against the stored ones."""
    stored = {table: set(tables.connection.execute(f"SELECT * FROM {table}")) for table in KEYS}
    labels = set(tables.connection.execute("SELECT tenant, name, value, seq FROM label"))
    (border,) = tables.connection.execute("SELECT max(promoted, mark) FROM meta").fetchone()
    for row in tables.connection.execute(_RECORDS):
        job = rows.job_of(rows.spec_of(row[1]), *row[2:6])
        if (row[0], *row[6:]) != _columns(job):
            yield f"job {job.ref} has columns {(row[0], *row[6:])}, its record says {_columns(job)}"
        if (job.state is State.RUNNING) != (job.lease is not None):
            yield f"job {job.ref} is {job.state} with lease {job.lease}"
        if job.state.terminal != (job.finished_at is not None) or not 0 <= job.attempt <= job.spec.max_attempts:
            yield f"job {job.ref} contradicts itself"
        for table, row in places(job, border):
            if not _take(stored, table, row, border):
                yield f"job {job.ref} is missing from {table}: {row}"
        for label in rows.label_rows(job.spec):
            if label not in labels:
                yield f"label {label} is missing"
            labels.discard(label)
    for table, left in stored.items():
        yield from (f"{table} has a row of no record: {row}" for row in left)
    yield from (f"label {label} is of no record" for label in labels)


def _take(stored: dict[str, set[Row]], table: str, row: Row, border: Ms) -> bool:
    """Finds a job's row. A job whose time has come may still be scheduled: the next claim moves it."""
    if row in stored[table]:
        stored[table].remove(row)
        return True
    if table == "ready" and row in stored["scheduled"]:
        stored["scheduled"].remove(row)
        return True
    return False


def _columns(job: Job) -> Row:
    """The columns beside a record that repeat what it says: of `job`, `running` and `finished`."""
    spec = job.spec
    runs = rows.running_row(job)[1:6] if job.lease is not None else (None,) * 5
    ended = rows.finished_row(job)[1:3] if job.state.terminal else (None,) * 2
    return (spec.seq, spec.tenant, spec.id, spec.queue, spec.job_type, spec.enqueued_at, *runs, *ended)


_RECORDS = """
SELECT r.seq, r.spec, r.state, r.priority, r.run_at, r.live, r.tenant, r.id, r.queue, r.job_type, r.enqueued_at,
       running.queue, running.tenant, running.grp, running.token, running.deadline, finished.day, finished.state
FROM record AS r LEFT JOIN running ON running.seq = r.seq LEFT JOIN finished ON finished.seq = r.seq
"""

_QUESTIONS = {
    "row of no job": "SELECT seq FROM running UNION SELECT seq FROM finished EXCEPT SELECT seq FROM job",
    "job without a body": "SELECT seq FROM job EXCEPT SELECT seq FROM body",
    "body without a job": "SELECT seq FROM body EXCEPT SELECT seq FROM job",
    "key bound to a job that is gone": """
        SELECT b.tenant, b.key, b.job_id FROM binding AS b
        LEFT JOIN job AS j ON j.tenant = b.tenant AND j.id = b.job_id WHERE j.seq IS NULL""",
    "key outlived its job": """
        SELECT b.tenant, b.key, j.state FROM binding AS b JOIN record AS j ON j.tenant = b.tenant AND j.id = b.job_id
        WHERE j.state IN ('succeeded', 'failed', 'cancelled') AND (
            b.uniqueness = 'active'
            OR (b.uniqueness = 'window' AND (b.expires_at IS NULL OR j.state <> 'succeeded'))
        )""",
    "edge without its jobs": """
        SELECT e.tenant, e.parent, e.child FROM edge AS e
        LEFT JOIN record AS p ON p.tenant = e.tenant AND p.id = e.parent
        LEFT JOIN record AS c ON c.tenant = e.tenant AND c.id = e.child
        WHERE p.seq IS NULL OR c.seq IS NULL OR c.state IN ('succeeded', 'failed', 'cancelled')""",
    "blocked job that waits for nobody": """
        SELECT tenant, id FROM record WHERE state = 'blocked' AND NOT EXISTS (
            SELECT 1 FROM edge AS e WHERE e.tenant = record.tenant AND e.child = record.id AND NOT e.resolved
        )""",
    "child that nobody will tell of its parent's end": """
        SELECT e.tenant, e.parent, e.child FROM edge AS e JOIN record AS p ON p.tenant = e.tenant AND p.id = e.parent
        WHERE NOT e.resolved AND p.state IN ('succeeded', 'failed', 'cancelled') AND NOT EXISTS (
            SELECT 1 FROM cascade AS w WHERE w.tenant = e.tenant AND w.id = e.parent
        )""",
    "dead letter missing or out of place": """
        SELECT tenant, id, state FROM record WHERE (state = 'failed') <> EXISTS (
            SELECT 1 FROM dead_letter AS d WHERE d.tenant = record.tenant AND d.job_id = record.id
        )""",
    "dead letter of no job": """
        SELECT d.tenant, d.job_id FROM dead_letter AS d
        LEFT JOIN job AS j ON j.tenant = d.tenant AND j.id = d.job_id WHERE j.seq IS NULL""",
    "slot of a job that wasn't cancelled": """
        SELECT s.tenant, s.job_id FROM slot AS s JOIN record AS j ON j.tenant = s.tenant AND j.id = s.job_id
        WHERE j.state <> 'cancelled'""",
    "result without a success": """
        SELECT r.seq, j.state FROM result AS r LEFT JOIN record AS j ON j.seq = r.seq
        WHERE j.state IS NULL OR j.state <> 'succeeded'""",
    "feed with a gap": """
        SELECT m.feed_floor, m.feed_head, f.first, f.last, f.chunks
        FROM meta AS m, (SELECT min(position) AS first, max(position) AS last, count(*) AS chunks FROM feed) AS f
        WHERE f.chunks <> m.feed_head - m.feed_floor
           OR (f.chunks > 0 AND (f.first <> m.feed_floor + 1 OR f.last <> m.feed_head))""",
}
"""Questions whose every answer is a fault."""
