"""fsck: the records against everything that is derived from them or must agree with them."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from tenure.domain.job import Job
from tenure.domain.model.attached import ATTACHED
from tenure.domain.model.entries import labels as labels_of
from tenure.domain.model.entries import waiting
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.stores.records import spec_of
from tenure.stores.sql import rows
from tenure.stores.sql.rows import Row
from tenure.stores.sql.tables import SqlTables

PAGE = 1_000

Stored = dict[str, set[Row]]
"""Table → the places it holds."""


def questions(tables: SqlTables, asked: dict[str, str]) -> Iterator[str]:
    """What is wrong, by questions whose every answer is a fault."""
    for says, question in asked.items():
        found = tables.stream(question, ())
        yield from (f"{says}: {row}" for row, _ in zip(found, range(20), strict=False))


def records(
    tables: SqlTables, stored: Stored, border: Ms, take: Callable[[Stored, str, Row, Job], str | None]
) -> Iterator[str]:
    """Places, labels and columns rebuilt from the records, against the stored ones.

    `take` removes a place of a job from the stored ones, and says what is wrong with it.
    """
    labels = set(tables.stream("SELECT tenant, name, value, seq FROM tenure.label", ()))
    for row in tables.stream(RECORDS, ()):
        try:
            job = rows.job_of(spec_of(row[1]), *row[2:6])
        except (msgspec.DecodeError, KeyError, TypeError, UnicodeError) as error:
            yield f"record {row[0]} of {row[6:8]} can't be read: {error}"
            continue
        if (row[0], *row[6:]) != _columns(job):
            yield f"job {job.ref} has columns {(row[0], *row[6:])}, its record says {_columns(job)}"
        if (job.state is State.RUNNING) != (job.lease is not None):
            yield f"job {job.ref} is {job.state} with lease {job.lease}"
        if job.state.terminal != (job.finished_at is not None) or not 0 <= job.attempt <= job.spec.max_attempts:
            yield f"job {job.ref} contradicts itself"
        for table, place in waiting(job, border):
            wrong = take(stored, table, place, job)
            if wrong is not None:
                yield f"job {job.ref} {wrong}: {place}"
        for label in labels_of(job.spec):
            if label not in labels:
                yield f"label {label} is missing"
            labels.discard(label)
    for table, left in stored.items():
        yield from (f"{table} has a row of no record: {row}" for row in left)
    yield from (f"label {label} is of no record" for label in labels)


def found(stored: Stored, table: str, place: Row, _: Job) -> str | None:
    """Takes a job's place away. A job whose time has come may still be scheduled: the next claim moves it."""
    for holding in (table, "scheduled") if table == "ready" else (table,):
        if place in stored[holding]:
            stored[holding].remove(place)
            return None
    return f"is missing from {table}"


def attached(tables: SqlTables) -> Iterator[str]:
    """Rows beside records that can't be read, or of which a job has more than it may."""
    counts: Counter[tuple[int, str]] = Counter()
    last: Row = (-1, "", "")
    while page := tables.all("verify_attached", *last, PAGE):
        last = page[-1][:3]
        for seq, family, member, body in page:
            counts[seq, family] += 1
            try:
                rows.attached_of(family, body)
            except (msgspec.DecodeError, KeyError, UnicodeError) as error:
                yield f"row {member} of {family} beside job {seq} can't be read: {error!r}"
    for (seq, family), count in counts.items():
        if family in ATTACHED and count > ATTACHED[family].most:
            yield f"job {seq} has {count} rows of {family}, more than {ATTACHED[family].most}"


def _columns(job: Job) -> Row:
    """The columns beside a record that repeat what it says: of `job`, `running` and `finished`."""
    spec = job.spec
    runs = rows.running_row(job)[1:6] if job.lease is not None else (None,) * 5
    ended = rows.finished_row(job)[1:3] if job.state.terminal else (None,) * 2
    return (spec.seq, spec.tenant, spec.id, spec.queue, spec.job_type, spec.enqueued_at, *runs, *ended)


RECORDS = """
SELECT r.seq, r.spec, r.state, r.priority, r.run_at, r.live, r.tenant, r.id, r.queue, r.job_type, r.enqueued_at,
       running.queue, running.tenant, running.grp, running.token, running.deadline, finished.day, finished.state
FROM tenure.record AS r
    LEFT JOIN tenure.running ON running.seq = r.seq LEFT JOIN tenure.finished ON finished.seq = r.seq
"""

QUESTIONS = {
    "row of no job": """
        SELECT seq FROM tenure.running UNION SELECT seq FROM tenure.finished EXCEPT SELECT seq FROM tenure.job""",
    "key bound to a job that is gone": """
        SELECT b.tenant, b.key, b.job_id FROM tenure.binding AS b
        LEFT JOIN tenure.job AS j ON j.tenant = b.tenant AND j.id = b.job_id WHERE j.seq IS NULL""",
    "key outlived its job": """
        SELECT b.tenant, b.key, j.state FROM tenure.binding AS b
        JOIN tenure.record AS j ON j.tenant = b.tenant AND j.id = b.job_id
        WHERE j.state IN ('succeeded', 'failed', 'cancelled') AND (
            b.uniqueness = 'active'
            OR (b.uniqueness = 'window' AND (b.expires_at IS NULL OR j.state <> 'succeeded'))
        )""",
    "edge without its jobs": """
        SELECT e.tenant, e.parent, e.child FROM tenure.edge AS e
        LEFT JOIN tenure.record AS p ON p.tenant = e.tenant AND p.id = e.parent
        LEFT JOIN tenure.record AS c ON c.tenant = e.tenant AND c.id = e.child
        WHERE p.seq IS NULL OR c.seq IS NULL OR c.state IN ('succeeded', 'failed', 'cancelled')""",
    "blocked job that waits for nobody": """
        SELECT tenant, id FROM tenure.record AS record WHERE state = 'blocked' AND NOT EXISTS (
            SELECT 1 FROM tenure.edge AS e WHERE e.tenant = record.tenant AND e.child = record.id AND e.resolved = 0
        )""",
    "dead letter missing or out of place": """
        SELECT tenant, id, state FROM tenure.record AS record WHERE (state = 'failed') <> EXISTS (
            SELECT 1 FROM tenure.dead_letter AS d WHERE d.tenant = record.tenant AND d.job_id = record.id
        )""",
    "dead letter of no job": """
        SELECT d.tenant, d.job_id FROM tenure.dead_letter AS d
        LEFT JOIN tenure.job AS j ON j.tenant = d.tenant AND j.id = d.job_id WHERE j.seq IS NULL""",
    "slot of a job that wasn't cancelled": """
        SELECT s.tenant, s.job_id FROM tenure.slot AS s
        JOIN tenure.record AS j ON j.tenant = s.tenant AND j.id = s.job_id
        WHERE j.state <> 'cancelled'""",
    "row beside no job": """
        SELECT a.seq, a.family, a.member FROM tenure.attached AS a LEFT JOIN tenure.job AS j ON j.seq = a.seq
        WHERE j.seq IS NULL""",
    "result without a success": """
        SELECT r.seq, j.state FROM tenure.result AS r LEFT JOIN tenure.record AS j ON j.seq = r.seq
        WHERE j.state IS NULL OR j.state <> 'succeeded'""",
}
"""Questions whose every answer is a fault."""
