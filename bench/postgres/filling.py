"""Rows by the million, straight into the tables: copies of a job that is really there, hence as wide as a real one.

What is put in so is never claimed, settled or read: its spec is the other job's.
"""

from collections.abc import Iterator
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

AT_ONCE = 200_000
ID = "'ffffffff-ffff-7fff-8fff-' || lpad(to_hex(seq), 12, '0')"

_JOBS = f"""
WITH new AS MATERIALIZED (SELECT nextval('tenure.arrival') AS seq FROM generate_series(1, %(count)s)),
one AS MATERIALIZED (SELECT * FROM tenure.job ORDER BY seq LIMIT 1),
jobs AS (
    INSERT INTO tenure.job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live, payload)
    SELECT new.seq, coalesce(%(tenant)s, one.tenant), {ID.replace("seq", "new.seq")}, one.queue, one.job_type,
           one.enqueued_at, one.spec, one.state, one.priority, one.run_at, one.live, one.payload
    FROM new CROSS JOIN one
)
"""
READY = (
    _JOBS
    + """INSERT INTO tenure.ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
SELECT one.queue, coalesce(%(tenant)s, one.tenant), '', 0, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       new.seq, NULL, 1
FROM new CROSS JOIN one"""
)
"""Behind all that is there: they are due since now."""
SCHEDULED = (
    _JOBS
    + """INSERT INTO tenure.scheduled (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
SELECT one.queue, coalesce(%(tenant)s, one.tenant), '', 0,
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + 86400000 + new.seq, new.seq, NULL, 1
FROM new CROSS JOIN one"""
)
"""For tomorrow."""
FINISHED = (
    _JOBS
    + """, ended AS (INSERT INTO tenure.ended (day, state) VALUES (20000, 'succeeded') ON CONFLICT DO NOTHING)
INSERT INTO tenure.finished (seq, day, state, version, live)
SELECT seq, 20000, 'succeeded', 3, decode(repeat('ab', 117), 'hex') FROM new"""
)


def fill(connection: Connection, statement: str, count: int, tenant: str | None = None) -> None:
    """So many rows of a kind, of the first job's tenant or of another."""
    connection.execute("SET synchronous_commit = off")
    for size in _parts(count):
        connection.execute(statement, {"count": size, "tenant": tenant})
    connection.execute("VACUUM (ANALYZE)")


def _parts(count: int) -> Iterator[int]:
    for start in range(0, count, AT_ONCE):
        yield min(AT_ONCE, count - start)
