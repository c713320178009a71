"""What forms write of jobs of one kind is what the model makes of each: no server, no store."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenure.domain.calls import Claim, Succeed
from tenure.domain.config import QueueRules
from tenure.domain.event import Event, decode_events, encode_events, unfold
from tenure.domain.job import Job, NewJob, secret_hash
from tenure.domain.model.claim import lease_for
from tenure.domain.model.enqueue import pending
from tenure.domain.model.plain import claims_plainly, succeeds_plainly
from tenure.domain.names import MAX_DURATION, MAX_TIME
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import Command, Unique
from tenure.domain.transitions import Step, Take, apply
from tenure.stores import records
from tenure.stores.forms import (
    DUE_MARK,
    NOW,
    NOW_MARK,
    SEQ,
    ClaimForm,
    EnqueueForm,
    EnqueueForms,
    SuccessForm,
    alike,
    kind_of,
    store_timed,
)

NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
NASTY = st.sampled_from(['"job_id":"', '","run_at":1,"', '"at":5', "\\", '\\"', "#", "ÿé", str(SEQ), str(NOW), "}\\n"])
TEXTS = NASTY | st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
TIMES = st.integers(0, MAX_TIME)
DURATIONS = st.integers(0, MAX_DURATION)
IDS = st.uuids().map(str)
PAYLOADS = st.binary(max_size=80)


@st.composite
def new_jobs(draw: st.DrawFn) -> NewJob:
    """A plain job of any kind."""
    given: dict[str, Any] = {}
    if draw(st.booleans()):
        given["run_at" if draw(st.booleans()) else "delay"] = draw(DURATIONS)
    if draw(st.booleans()):
        given["key"] = draw(TEXTS)
        given["unique"] = unique = draw(st.sampled_from(Unique))
        given["unique_for"] = draw(st.integers(1, MAX_DURATION)) if unique is Unique.WINDOW else None
    if draw(st.booleans()):
        given["expires"] = draw(st.integers(1, MAX_DURATION))
    return NewJob(
        tenant=draw(NAMES.filter(lambda name: name[0] != "_")),
        id=draw(IDS),
        queue=draw(NAMES),
        job_type=draw(NAMES),
        payload=draw(PAYLOADS),
        codec=draw(NAMES),
        priority=draw(st.integers(-100, 100)),
        group=draw(st.none() | TEXTS),
        labels=draw(st.dictionaries(NAMES, TEXTS, max_size=3)),
        max_attempts=draw(st.integers(1, 1_000)),
        retry=draw(st.sampled_from([RetryPolicy(), RetryPolicy.exponential(base=7)])),
        lease=draw(st.none() | st.integers(1, 80_000_000)),
        grace=draw(st.none() | st.integers(0, 80_000_000)),
        timeout=draw(st.integers(1, MAX_DURATION)),
        result_ttl=draw(DURATIONS),
        **given,
    )


OTHERS = st.lists(
    st.tuples(IDS, PAYLOADS, TEXTS, TEXTS, st.dictionaries(NAMES, TEXTS, min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
)
Other = tuple[str, bytes, str, str, dict[str, str]]


def of_kind(kind: NewJob, others: list[Other], *differ: str) -> list[NewJob]:
    """Jobs that differ in id and payload, and in these fields where the kind has them."""
    given = [
        {"id": id, "payload": payload, "key": key, "group": group, "labels": labels}
        for id, payload, key, group, labels in others
    ]
    own = {"id", "payload", *(name for name in differ if getattr(kind, name))}
    return [replace(kind, **{name: one[name] for name in own}) for one in given]


def enqueued(new: NewJob, seq: int, now: int) -> Step:
    return apply(Command.ENQUEUE, pending(new, seq, now), None, now)


def event_of(step: Step) -> Event:
    assert step.event is not None
    return step.event


def same(record: bytes, job: Job) -> bool:
    """Whether these are the record's bytes, but for the room that numbers have."""
    return records.spec_of(record) == job.spec and records.encode(records.spec_of(record)) == records.encode(job.spec)


def same_events(body: str | bytes, steps: list[Step]) -> bool:
    """Whether a text of events is what the model tells, field by field and byte by byte."""
    lines = unfold(body.encode() if isinstance(body, str) else body)
    return lines == b"".join(encode_events([event_of(step)]) for step in steps) and decode_events(lines) == [
        event_of(step) for step in steps
    ]


# New jobs


@given(new_jobs(), OTHERS, st.integers(1, 2**62), TIMES, st.booleans())
def test_new_jobs_with_room_for_what_the_store_will_know(
    kind: NewJob, others: list[Other], seq: int, now: int, together: bool
) -> None:
    jobs = of_kind(kind, others, "key", *(() if together else ("group", "labels")))
    form = EnqueueForm(kind) if together else EnqueueForms().of(kind)
    ids, payloads = [one.id for one in jobs], [one.payload for one in jobs]
    specs, fingerprints = form.specs([id.encode() for id in ids], payloads, jobs=jobs)
    steps = [enqueued(new, seq, now) for new in jobs]
    for step, spec, fingerprint, new in zip(steps, specs, fingerprints, jobs, strict=True):
        assert fingerprint == new.fingerprint
        rooms = [(form.seq_at, seq), (form.now_at, now), (form.expires_at(new), now + (new.expires or 0))]
        written = bytearray(spec)
        for at, number in rooms:
            if at:
                written[at - 1 : at + 7] = number.to_bytes(8)
        assert same(bytes(written), step.job)
    due = max(kind.run_at or 0, now + (kind.delay or 0))
    events = form.events(ids, payloads, jobs)
    assert same_events(events.replace(NOW_MARK, str(now)).replace(DUE_MARK, str(due)), steps)
    assert events.startswith("#") == (len(jobs) > 1 and not kind.key and (together or not (kind.group or kind.labels)))


@given(new_jobs(), OTHERS, st.integers(1, 2**62), TIMES)
def test_new_jobs_that_have_their_numbers(kind: NewJob, others: list[Other], seq: int, now: int) -> None:
    jobs = of_kind(kind, others, "key")
    form = EnqueueForm(kind, now)
    ids, payloads = [one.id for one in jobs], [one.payload for one in jobs]
    specs, _ = form.specs([id.encode() for id in ids], payloads, range(seq, seq + len(jobs)), jobs)
    steps = [enqueued(new, seq + number, now) for number, new in enumerate(jobs)]
    assert all(same(spec, step.job) for spec, step in zip(specs, steps, strict=True))
    assert same_events(form.events(ids, payloads, jobs), steps)


FREE = {"id", "payload", "key", "group", "labels", "run_at", "delay"}


@given(new_jobs(), new_jobs(), OTHERS)
def test_jobs_of_one_kind_share_a_form(one: NewJob, other: NewJob, others: list[Other]) -> None:
    forms = EnqueueForms()
    for twin in of_kind(one, others, "key", "group", "labels"):
        assert forms.of(one) is forms.of(twin)
    (twin, *_) = of_kind(one, others, "key")
    assert alike([one, twin])
    for name in set(NewJob.__struct_fields__) - {"id", "payload", "key"}:
        if getattr(one, name) != getattr(other, name):
            changed = replace(one)
            msgspec.structs.force_setattr(changed, name, getattr(other, name))
            assert not alike([one, changed])
            assert name in FREE or kind_of(changed) != kind_of(one)


# Claims and successes

CLAIMS = st.builds(
    Claim,
    claim_id=st.binary(min_size=16, max_size=16),
    worker=NAMES,
    queues=st.just((("mail", None),)),
    n=st.just(1),
    ttl=st.integers(1, 80_000_000),
    grace=st.integers(0, 80_000_000),
)
RULES = st.builds(
    QueueRules, lease=st.none() | st.integers(1, 80_000_000), grace=st.none() | st.integers(0, 80_000_000)
)
SEVERAL = st.lists(new_jobs(), min_size=1, max_size=4)
SAME_LEASE = ("tenant", "queue", "job_type", "group", "lease", "grace")


def leased_alike(jobs: list[NewJob], now: int) -> list[Job]:
    """Waiting jobs as different as those may be that one form leases."""
    common = {name: getattr(jobs[0], name) for name in SAME_LEASE}
    found = [pending(replace(new, **common, expires=None), seq, now) for seq, new in enumerate(jobs, 1)]
    assert all(claims_plainly(job.spec, job.lease_seq, job.updated_at, now) for job in found)
    return found


def is_like(like: Job, before: Job, step: Step) -> bool:
    """Whether a record is as the model's but for what is each job's own, and whether it is written so."""
    same = replace(like, spec=before.spec, priority=before.priority, run_at=before.run_at) == step.job
    return same and records.live_blob(like) == records.live_blob(step.job)


@given(SEVERAL, CLAIMS, RULES, TIMES, DURATIONS, st.none() | st.integers(1, 99), st.none() | st.integers(1, 9))
def test_claims(
    new: list[NewJob],
    request: Claim,
    rules: QueueRules,
    begun: int,
    later: int,
    holders: int | None,
    limit: int | None,
) -> None:
    now, jobs = begun + later, leased_alike(new, begun)
    lease = lease_for(request, jobs[0].spec, rules, now, now)
    takes = [
        Take(secret_hash(request.claim_id), lease, None if holders is None else holders + more, limit)
        for more in range(len(jobs))
    ]
    form = ClaimForm(jobs[0], takes[0], now)
    steps = [apply(Command.CLAIM, job, take, now) for job, take in zip(jobs, takes, strict=True)]
    told = [
        form.event(job.spec.id, now - job.run_at, take.group_holders) for job, take in zip(jobs, takes, strict=True)
    ]
    assert same_events(encode_events(told), steps)
    for job, step in zip(jobs, steps, strict=True):
        assert is_like(form.like, job, step)


def plain_end(new: NewJob) -> NewJob:
    """The same, so that its spec ends plainly."""
    return replace(
        new, unique=Unique.ACTIVE, unique_for=None, group=None, labels={}, lease=None, grace=None, expires=None
    )


@given(SEVERAL, CLAIMS, RULES, TIMES, DURATIONS)
def test_claims_whose_times_the_store_puts_in(
    new: list[NewJob], request: Claim, rules: QueueRules, begun: int, later: int
) -> None:
    now, token = begun + later, secret_hash(request.claim_id)
    lane = (new[0].tenant, new[0].queue)
    jobs = [
        pending(replace(plain_end(one), tenant=lane[0], queue=lane[1]), seq, begun) for seq, one in enumerate(new, 1)
    ]
    assert all(records.encode(job.spec).endswith(records.PLAIN_END) for job in jobs)
    form = store_timed(request, lane, rules)
    until = now + form.lease.ttl
    live = bytearray(form.live(token))
    for at, number in zip(form.rooms, (now, now, until), strict=True):
        live[at - 1 : at + 7] = number.to_bytes(8)
    steps = [apply(Command.CLAIM, job, Take(token, lease_for(request, job.spec, rules, now, now)), now) for job in jobs]
    before_at, before_id, before_type, before_until, before_waited, end = form.story
    told = "".join(
        f"{before_at}{now}{before_id}{job.spec.id}{before_type}{job.spec.job_type}{before_until}{until}{before_waited}"
        f"{now - job.run_at}{end}\n"
        for job in jobs
    )
    assert same_events(told, steps)
    for job, step in zip(jobs, steps, strict=True):
        assert form.version == step.job.version
        filled = records.job_of(job.spec, step.job.state, job.priority, job.run_at, bytes(live))
        assert records.live_blob(filled) == records.live_blob(step.job)
        assert filled == step.job


RESULTS = st.none() | st.binary(max_size=30)


@given(SEVERAL, CLAIMS, TIMES, DURATIONS, DURATIONS, st.lists(RESULTS, min_size=4, max_size=4))
def test_successes(
    new: list[NewJob], request: Claim, begun: int, ran: int, later: int, results: list[bytes | None]
) -> None:
    claimed_at, token = begun + later, secret_hash(request.claim_id)
    waiting = leased_alike(new, begun)
    lease = lease_for(request, waiting[0].spec, QueueRules(), claimed_at, claimed_at)
    jobs = [apply(Command.CLAIM, job, Take(token, lease), claimed_at).job for job in waiting]
    now = min(claimed_at + ran, lease.deadline)
    assert all(succeeds_plainly(job, job.lease_seq, token, now) for job in jobs)
    form = SuccessForm(jobs[0], now)
    ended = [(job, result) for job, result in zip(jobs, results, strict=False)]
    steps = [apply(Command.SUCCEED, job, Succeed(result), now) for job, result in ended]
    assert same_events(encode_events([form.event(job.spec.id, result) for job, result in ended]), steps)
    for job, step in zip(jobs, steps, strict=True):
        assert is_like(form.like, job, step)
