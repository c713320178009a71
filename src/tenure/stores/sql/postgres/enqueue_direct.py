"""Enqueueing without a transaction of several statements: new jobs that need nothing but room, all in one.

The model reads, decides and writes; here the server does all of it, because there is nothing to decide. A job with
parents, one for a queue with a depth, one that the queue's mode refuses, an id or a key that is known already: all of
these take the model's path, the whole batch with them. What this writes must read as what the model would have written:
lockstep compares them. One job took 1.1 ms instead of 3.9 by eight statements.

Most batches are of one kind: their jobs differ in id, payload and key alone. What they share is made and sent once.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tenure.domain.job import Alike, NewJob
from tenure.domain.model.plain import enqueues_plainly
from tenure.domain.names import Ms
from tenure.stores.forms import EnqueueForm, alike
from tenure.stores.sql.postgres import modes
from tenure.stores.sql.postgres.arrays import bigints, byteas, encoded_texts, texts
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.sql.postgres.wake import News
from tenure.stores.ways import Way

MANY = 200
"""From here on jobs get their numbers first: two such calls can be on their way at once and keep their order."""

COLUMNS = (
    *("text", "text", "text", "text", "bytea", "bigint", "bigint", "bigint"),
    *("bigint", "bigint", "bigint", "bigint", "text", "text", "text", "bytea", "text"),
)
"""Of the rows of a mixed batch, in the statement's order; the fingerprint follows later."""


def arrive(
    tables: PostgresTables,
    jobs: Sequence[NewJob],
    now: Ms | None,
    news: News | None = None,
    placed: Callable[[], None] = lambda: None,
) -> bool:
    """Whether the jobs were all created; if not, nothing was done. A known id or key fails the statement.

    Jobs of one kind take news with them, which reach others as they are committed. `placed` is called once nobody who
    comes later can come before them, if that is known before they are there.
    """
    if type(jobs) is Alike and jobs.kind.key is None:
        return _plain(tables, jobs.kind) and _arrive_alike(tables, jobs.kind, jobs, now, news, placed)
    if not jobs or _twice(jobs):
        return False
    one_kind = _alike(jobs)
    if not all(_plain(tables, job) for job in (jobs[:1] if one_kind else jobs)):
        return False
    if not one_kind:
        return _arrive_mixed(tables, jobs, now)
    return _arrive_alike(tables, jobs[0], jobs, now, news, placed)


def _plain(tables: PostgresTables, job: NewJob) -> bool:
    return enqueues_plainly(job, tables.rules(job.tenant, job.queue))


def _twice(jobs: Sequence[NewJob]) -> bool:
    """Whether one of them may see another: the second of an id or of a key."""
    if len(jobs) == 1:
        return False
    keys = [(job.tenant, job.queue, job.job_type, job.key) for job in jobs if job.key is not None]
    return len({(job.tenant, job.id) for job in jobs}) < len(jobs) or len(set(keys)) < len(keys)


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


# Jobs of one kind


def _alike(jobs: Sequence[NewJob]) -> bool:
    """Whether the jobs are of one kind. Where an expiry stands in a spec depends on the key."""
    return alike(jobs) and (jobs[0].key is None or jobs[0].expires is None)


def _arrive_alike(
    tables: PostgresTables,
    kind: NewJob,
    jobs: Sequence[NewJob],
    now: Ms | None,
    news: News | None,
    placed: Callable[[], None],
) -> bool:
    parts = _parts([kind])
    if len(jobs) == 1 and not parts:
        way = Way.ENQUEUE_ONE
        name, values = "arrive_one", _one_values(jobs[0], tables, now)
    elif len(jobs) >= MANY and not parts:
        moment, numbers = tables.row("arrival_numbers", len(jobs), now)
        placed()
        if type(jobs) is not Alike:
            jobs = Alike(kind, [one.id for one in jobs], [one.payload for one in jobs])
        way = Way.ENQUEUE_NUMBERED
        name, values = "arrive_numbered", _numbered_values(jobs, tables, moment, numbers)
    else:
        way = Way.ENQUEUE_ALIKE
        name, values = "arrive_alike", _alike_values(jobs, tables, now)
    tables.ways.took(way)
    text = None if news is None else news.text()
    if news is None or text is None:
        return _any(tables.pipeline.ask_part(name, parts, *values))
    done = _any(tables.pipeline.ask_part(name, parts | {"heard"}, *values, news.channel, text))
    if done:
        news.told()
    return done


def _any(found: Sequence[Sequence[Any]]) -> bool:
    return bool(found and found[0][0])


def _numbered_values(jobs: Alike, tables: PostgresTables, now: Ms, numbers: Sequence[int]) -> list[Any]:
    job, form = jobs.kind, EnqueueForm(jobs.kind, now)
    held = tables.lane_keys((job.tenant, job.queue))
    ids = [id.encode() for id in jobs.ids]
    specs, _ = form.specs(ids, jobs.payloads, numbers)
    events = form.events(jobs.ids, jobs.payloads)
    whose = (tables.config, now, job.tenant, job.queue, job.job_type, job.priority)
    return [*whose, bigints(numbers), encoded_texts(ids), byteas(specs), byteas(jobs.payloads), events, *held]


def one_values(tables: PostgresTables, job: NewJob, now: Ms | None) -> list[Any] | None:
    """What `arrive_one` wants of a job, if it is one for it and that is known without asking."""
    if tables.config < 0 or not tables.knows_rules(job.tenant, job.queue):
        return None
    if job.key is not None or _parts([job]) or not _plain(tables, job):
        return None
    return _one_values(job, tables, now)


def _one_values(job: NewJob, tables: PostgresTables, now: Ms | None) -> list[Any]:
    form = tables.place.forms.of(job)
    (spec,), _ = form.specs([job.id.encode()], [job.payload])
    whose = (tables.config, now, job.tenant, job.id, job.queue, job.job_type)
    events, held = form.events([job.id], [job.payload]), tables.lane_keys((job.tenant, job.queue))
    return [*whose, spec, form.seq_at, form.now_at, job.priority, job.payload, events, *held]


def _alike_values(jobs: Sequence[NewJob], tables: PostgresTables, now: Ms | None) -> list[Any]:
    job = jobs[0]
    folds = len(jobs) > 1 and (job.group is not None or job.labels)  # only where these are a part of the form
    form = EnqueueForm(job) if folds else tables.place.forms.of(job)
    ids, payloads = [one.id for one in jobs], [one.payload for one in jobs]
    specs, fingerprints = form.specs([id.encode() for id in ids], payloads, jobs=jobs)
    return [
        tables.config,
        now,
        job.tenant,
        job.queue,
        job.job_type,
        job.priority,
        job.group or "",
        job.unique.value,
        job.run_at or 0,
        job.delay or 0,
        job.expires,
        form.seq_at,
        form.now_at,
        form.expires_at(job),
        texts(ids),
        byteas(specs),
        byteas(payloads),
        form.events(ids, payloads, jobs),
        texts([one.key for one in jobs]),
        byteas(fingerprints),
        texts(list(job.labels)),
        texts(list(job.labels.values())),
        *tables.lane_keys((job.tenant, job.queue)),
    ]


# Jobs of several kinds


def _arrive_mixed(tables: PostgresTables, jobs: Sequence[NewJob], now: Ms | None) -> bool:
    tables.ways.took(Way.ENQUEUE_MIXED)
    column = tables.pipeline.column
    made = [_row(tables, job) for job in jobs]
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
        column("bigint", modes.keys(tables, {(job.tenant, job.queue) for job in jobs})),
    )
    return bool(row[0])


def _row(tables: PostgresTables, job: NewJob) -> tuple[Any, ...]:
    form = tables.place.forms.of(job)
    (spec,), (fingerprint,) = form.specs([job.id.encode()], [job.payload], jobs=[job])
    return (
        job.tenant,
        job.id,
        job.queue,
        job.job_type,
        spec,
        form.seq_at,
        form.now_at,
        form.expires_at(job),
        job.priority,
        job.run_at or 0,
        job.delay or 0,
        job.expires,
        job.group or "",
        job.key,
        None if job.key is None else job.unique.value,
        job.payload,
        form.events([job.id], [job.payload], [job]),
        fingerprint,
    )
