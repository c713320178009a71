"""Enqueueing without a transaction of several statements: new jobs that need nothing but room, all in one.

The model reads, decides and writes; here the server does all of it, because there is nothing to decide. A job with
parents, one for a queue with a depth, one that the queue's mode refuses, an id or a key that is known already: all of
these take the model's path, the whole batch with them. What this writes must read as what the model would have written:
lockstep compares them. One job took 1.1 ms
instead of 3.9 by eight statements, each of 500 took 42 µs instead of 74.
"""

from collections.abc import Sequence
from typing import Any

from tenure.domain.job import NewJob, Spec, key_hash
from tenure.domain.names import Ms
from tenure.domain.states import Mode
from tenure.stores.sql import rows
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.sql.rows import json_text

SEQ, NOW, EXPIRES = 0x7A11_5EA7_0000_0001, 0x7A11_5EA7_0000_0002, 0x7A11_5EA7_0000_0003
"""Room in a spec for what the server will know: MessagePack writes such numbers in eight bytes."""
_ROOM = [number.to_bytes(8) for number in (SEQ, NOW, EXPIRES)]

COLUMNS = (
    *("text", "text", "text", "text", "bytea", "bigint", "bigint", "bigint"),
    *("bigint", "bigint", "bigint", "bigint", "text", "text", "text", "bytea", "text"),
)
"""Of the rows, in the statement's order; the fingerprint follows later."""


def arrive(tables: PostgresTables, jobs: Sequence[NewJob], now: Ms | None) -> bool:
    """Whether the jobs were all created; if not, nothing was done. A known id or key fails the statement."""
    if not jobs or not all(_plain(tables, job) for job in jobs) or _twice(jobs):
        return False
    column = tables.pipeline.column
    made = [_row(job) for job in jobs]
    columns = list(zip(*made, strict=True))
    arrays = [column(kind, values) for kind, values in zip(COLUMNS, columns[:-1], strict=True)]
    labels = [(number, *label) for number, job in enumerate(jobs, 1) for label in job.labels.items()]
    named = [[row[at] for row in labels] for at in range(3)]
    (row,) = tables.pipeline.ask_part(
        "arrive_at_once",
        _parts(jobs),
        *arrays,
        tables.config,
        now,
        column("bytea", columns[-1]),
        column("bigint", named[0]),
        column("text", named[1]),
        column("text", named[2]),
    )
    return bool(row[0])


def _parts(jobs: Sequence[NewJob]) -> frozenset[str]:
    """The parts of the statement that these jobs need."""
    needed: set[str] = set()
    for job in jobs:
        if job.run_at is not None or job.delay is not None:
            needed.add("later")
        if job.group is not None:
            needed.add("grouped")
        if job.expires is not None:
            needed.add("ending")
        if job.key is not None:
            needed.add("bound")
        if job.labels:
            needed.add("labelled")
    return frozenset(needed)


def _plain(tables: PostgresTables, job: NewJob) -> bool:
    if job.parents:
        return False
    rules = tables.rules(job.tenant, job.queue)
    return rules.max_depth is None and (rules.mode is Mode.KEYED) == (job.group is not None)


def _twice(jobs: Sequence[NewJob]) -> bool:
    """Whether one of them may see another: the second of an id or of a key."""
    if len(jobs) == 1:
        return False
    keys = [(job.tenant, job.queue, job.job_type, job.key) for job in jobs if job.key is not None]
    return len({(job.tenant, job.id) for job in jobs}) < len(jobs) or len(set(keys)) < len(keys)


def _row(job: NewJob) -> tuple[Any, ...]:
    key, group, expires = job.key, job.group, job.expires
    fingerprint = job.fingerprint
    spec = rows.encode(
        Spec(
            job.tenant,
            job.id,
            SEQ,
            job.queue,
            job.job_type,
            job.codec,
            fingerprint,
            len(job.payload),
            NOW,
            job.max_attempts,
            job.retry,
            job.timeout,
            job.result_ttl,
            key,
            job.unique,
            job.unique_for,
            group,
            job.labels,
            job.lease,
            job.grace,
            None if expires is None else EXPIRES,
        )
    )
    seq_at, now_at, expires_at = [spec.find(room) + 1 for room in _ROOM]
    return (
        job.tenant,
        job.id,
        job.queue,
        job.job_type,
        spec,
        seq_at,
        now_at,
        expires_at,
        job.priority,
        job.run_at or 0,
        job.delay or 0,
        expires,
        group or "",
        key,
        None if key is None else job.unique.value,
        job.payload,
        _story(job),
        fingerprint,
    )


def _story(job: NewJob) -> str:
    """The event's line after its time, up to when the job is due."""
    more = "" if job.key is None else f',"key_hash":"{key_hash(job.key)}"'
    if job.group is not None:
        more += f',"group":{json_text(job.group)}'
    labels = f',"labels":{json_text(job.labels)}' if job.labels else ""
    return (
        f',"job_id":"{job.id}","version":1,"queue":"{job.queue}","job_type":"{job.job_type}","attempt":0,"lease_seq":0,'
        f'"priority":{job.priority}{more},"max_attempts":{job.max_attempts},"payload_size":{len(job.payload)}{labels},'
        f'"run_at":'
    )
