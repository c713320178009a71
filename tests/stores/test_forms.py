"""What forms write of jobs of one kind is what the model makes of each: no server, no store."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenure.domain.event import Event, decode_events, encode_events, unfold
from tenure.domain.job import Job, NewJob
from tenure.domain.model.enqueue import pending
from tenure.domain.names import MAX_DURATION, MAX_TIME
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import Command, Unique
from tenure.domain.transitions import Step, apply
from tenure.stores import records
from tenure.stores.forms import DUE_MARK, NOW, NOW_MARK, SEQ, EnqueueForm, EnqueueForms, kind_of

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


OTHERS = st.lists(st.tuples(IDS, PAYLOADS, TEXTS), min_size=1, max_size=4)


def alike(kind: NewJob, others: list[tuple[str, bytes, str]]) -> list[NewJob]:
    """Jobs of a kind."""
    keyed = kind.key is not None
    return [replace(kind, id=id, payload=payload, key=key if keyed else None) for id, payload, key in others]


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


@given(new_jobs(), OTHERS, st.integers(1, 2**62), TIMES)
def test_new_jobs_with_room_for_what_the_store_will_know(
    kind: NewJob, others: list[tuple[str, bytes, str]], seq: int, now: int
) -> None:
    jobs = alike(kind, others)
    form = EnqueueForms().of(kind)
    ids, payloads, keys = [one.id for one in jobs], [one.payload for one in jobs], [one.key for one in jobs]
    specs, fingerprints = form.specs([id.encode() for id in ids], payloads, keys=keys)
    steps = [enqueued(new, seq, now) for new in jobs]
    for step, spec, fingerprint, new in zip(steps, specs, fingerprints, jobs, strict=True):
        assert fingerprint == new.fingerprint
        rooms = [(form.seq_at, seq), (form.now_at, now), (form.expires_at(new.key), now + (new.expires or 0))]
        written = bytearray(spec)
        for at, number in rooms:
            if at:
                written[at - 1 : at + 7] = number.to_bytes(8)
        assert same(bytes(written), step.job)
    due = max(kind.run_at or 0, now + (kind.delay or 0))
    events = form.events(ids, payloads, keys).replace(NOW_MARK, str(now)).replace(DUE_MARK, str(due))
    assert same_events(events, steps)


@given(new_jobs(), OTHERS, st.integers(1, 2**62), TIMES)
def test_new_jobs_that_have_their_numbers(
    kind: NewJob, others: list[tuple[str, bytes, str]], seq: int, now: int
) -> None:
    jobs = alike(kind, others)
    form = EnqueueForm(kind, now)
    ids, payloads, keys = [one.id for one in jobs], [one.payload for one in jobs], [one.key for one in jobs]
    specs, _ = form.specs([id.encode() for id in ids], payloads, range(seq, seq + len(jobs)), keys)
    steps = [enqueued(new, seq + number, now) for number, new in enumerate(jobs)]
    assert all(same(spec, step.job) for spec, step in zip(specs, steps, strict=True))
    assert same_events(form.events(ids, payloads, keys), steps)


@given(new_jobs(), new_jobs())
def test_jobs_of_one_kind_share_a_form(one: NewJob, other: NewJob) -> None:
    forms = EnqueueForms()
    assert forms.of(one) is forms.of(replace(one, id=other.id, payload=other.payload))
    for name in set(NewJob.__struct_fields__) - {"id", "payload", "key"}:
        if getattr(one, name) != getattr(other, name):
            unlike = msgspec.structs.force_setattr
            changed = replace(one)
            unlike(changed, name, getattr(other, name))
            assert kind_of(changed) != kind_of(one)
