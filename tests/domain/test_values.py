"""Values that cross the store's boundary: valid once made, and a refusal names the field."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tenure.domain.calls import (
    Cancel,
    Claim,
    Document,
    Fail,
    JobFilter,
    Release,
    Replay,
    Reprioritise,
    Reschedule,
    Retention,
    Retry,
    Succeed,
)
from tenure.domain.errors import InvalidValue, JobFinished, JobNotFound, LeaseLost, QueueFull, Refused, TenureError
from tenure.domain.event import Event, Told, decode_events, encode_events, form, unfold
from tenure.domain.job import Failure, NewJob, Parent, Progress, Token, fingerprint, key_hash
from tenure.domain.names import DAY, HOUR, MAX_PAYLOAD, MAX_RESULT, MINUTE, SECOND
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import TERMINAL, EventKind, State, Unique
from tenure.testing.conformance.kit import job_uuid

ID, OTHER = job_uuid(1), job_uuid(2)
BOOM = Failure("ValueError", "boom")


def new(**fields: Any) -> NewJob:
    return NewJob(**{"tenant": "acme", "id": ID, "queue": "mail", "job_type": "send", "payload": b"{}", **fields})


def claim(**fields: Any) -> Claim:
    return Claim(**{"claim_id": bytes(16), "worker": "w1", "queues": (("mail", None),), "n": 1, **fields})


# New jobs


def test_the_defaults_of_a_new_job() -> None:
    job = new()
    assert (job.priority, job.max_attempts, job.retry, job.unique) == (0, 3, RetryPolicy(), Unique.ACTIVE)
    assert (job.timeout, job.result_ttl, job.lease, job.grace) == (HOUR, HOUR, None, None)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tenant": "_system"}, "tenant"),
        ({"tenant": "a b"}, "tenant"),
        ({"id": "1"}, "id"),
        ({"queue": ""}, "queue"),
        ({"job_type": "x" * 65}, "job_type"),
        ({"codec": "a/b"}, "codec"),
        ({"payload": "text"}, "payload"),
        ({"payload": bytes(MAX_PAYLOAD + 1)}, "payload has 262145 bytes"),
        ({"priority": 101}, "priority"),
        ({"priority": -101}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"delay": -1}, "delay"),
        ({"run_at": -1}, "run_at"),
        ({"run_at": 1, "delay": 1}, "run_at and delay"),
        ({"expires": 0}, "expires"),
        ({"lease": 0}, "lease"),
        ({"lease": DAY + 1}, "lease"),
        ({"grace": -1}, "grace"),
        ({"timeout": 0}, "timeout"),
        ({"result_ttl": -1}, "result_ttl"),
        ({"key": ""}, "key"),
        ({"key": "a\x00"}, "key"),
        ({"key": "x" * 257}, "key"),
        ({"group": "a\nb"}, "group"),
        ({"group": ""}, "group"),
        ({"unique": Unique.RETAINED}, "unique='retained' needs a key"),
        ({"key": "k", "unique": Unique.WINDOW}, "unique_for"),
        ({"key": "k", "unique_for": HOUR}, "unique_for"),
        ({"key": "k", "unique": Unique.WINDOW, "unique_for": 0}, "unique_for"),
        ({"labels": {f"l{number}": "x" for number in range(17)}}, "labels"),
        ({"labels": {"a b": "x"}}, "label"),
        ({"parents": (Parent(OTHER), Parent(OTHER))}, "parents"),
        ({"parents": tuple(Parent(job_uuid(number)) for number in range(1_001))}, "parents"),
    ],
)
def test_bad_jobs(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{named}"):
        new(**fields)


def test_the_largest_job() -> None:
    new(payload=bytes(MAX_PAYLOAD), parents=tuple(Parent(job_uuid(number)) for number in range(1_000)))


def test_a_bad_parent() -> None:
    with pytest.raises(InvalidValue, match=r"^parent "):
        Parent("x")


def test_an_invalid_value_is_a_value_error() -> None:
    assert issubclass(InvalidValue, ValueError)
    assert issubclass(InvalidValue, TenureError)


def test_a_fingerprint_tells_bodies_apart() -> None:
    bodies = [
        new(),
        new(payload=b"[]"),
        new(codec="msgpack"),
        new(job_type="other"),
        new(queue="video"),
    ]
    assert len({body.fingerprint for body in bodies}) == len(bodies)
    assert new(priority=5, key="k", id=OTHER).fingerprint == new().fingerprint
    assert fingerprint("a", "b", b"c", "d") != fingerprint("a", "d", b"c", "b")


def test_a_key_is_shown_as_a_hash() -> None:
    assert key_hash("user@example.org") == key_hash("user@example.org") != key_hash("user@example.com")
    assert "user" not in key_hash("user@example.org")


def test_a_token_never_shows_its_secret() -> None:
    token = Token("acme", ID, 3, b"0123456789abcdef")
    assert "0123456789abcdef" not in f"{token!r} {token}"
    assert token.ref == ("acme", ID)


# Claims, settles, commands

Make = Callable[[], object]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: claim(claim_id=b"short"), "claim_id"),
        (lambda: claim(claim_id="0123456789abcdef"), "claim_id"),
        (lambda: claim(worker="a b"), "worker"),
        (lambda: claim(n=0), "n "),
        (lambda: claim(n=1_001), "n "),
        (lambda: claim(ttl=0), "ttl"),
        (lambda: claim(grace=-1), "grace"),
        (lambda: claim(queues=()), "queues"),
        (lambda: claim(queues=(("a b", None),)), "queue"),
        (lambda: claim(queues=(("mail", -1),)), "at most of mail"),
        (lambda: claim(queues=(("mail", 1), ("mail", 2))), "queues: 'mail' is named twice"),
        (lambda: claim(tenants=("_system",)), "tenant"),
        (lambda: Succeed(bytes(MAX_RESULT + 1)), "result has 65537 bytes"),
        (lambda: Succeed(b"1", codec=""), "codec"),
        (lambda: Retry(BOOM, -1), "delay"),
        (lambda: Retry(BOOM, reason="a b"), "reason"),
        (lambda: Fail(BOOM, reason=""), "reason"),
        (lambda: Release(-1), "delay"),
        (lambda: Release(1, "a b"), "reason"),
        (lambda: Release(1, "snooze", -1), "at_most"),
        (lambda: Failure("", "x"), "error family"),
        (lambda: Failure("E", "x" * 1_025), "error message"),
        (lambda: Progress(-0.1), "progress"),
        (lambda: Progress(1.1), "progress"),
        (lambda: Progress(float("nan")), "progress"),
        (lambda: Progress(0.5, "x" * 1_025), "progress message"),
        (lambda: Cancel(tenant="_system", id=ID), "tenant"),
        (lambda: Cancel(tenant="acme", id="1"), "id"),
        (lambda: Reschedule(tenant="acme", id=ID), "give run_at or delay"),
        (lambda: Reschedule(tenant="acme", id=ID, run_at=1, delay=1), "give run_at or delay"),
        (lambda: Reschedule(tenant="acme", id=ID, delay=-1), "delay"),
        (lambda: Reprioritise(tenant="acme", id=ID, priority=101), "priority"),
        (lambda: Replay(tenant="acme", id=ID, new_id="1"), "new_id"),
        (lambda: Replay(tenant="acme", id=ID, new_id=OTHER, codec="json"), "codec"),
        (lambda: Replay(tenant="acme", id=ID, new_id=OTHER, payload=bytes(MAX_PAYLOAD + 1)), "payload"),
        (lambda: Retention(succeeded=-1), "succeeded"),
        (lambda: JobFilter(tenant="a b"), "tenant"),
        (lambda: JobFilter(queue=""), "queue"),
        (lambda: JobFilter(states=("done",)), "state 'done'"),  # type: ignore[arg-type]  # an unknown state
        (lambda: JobFilter(labels={"a b": "x"}), "label"),
        (lambda: Document(tenant="_own", kind="queue", name="mail", body=b"{}"), "tenant"),
        (lambda: Document(tenant="acme", kind="a b", name="mail", body=b"{}"), "kind"),
        (lambda: Document(tenant="acme", kind="queue", name="", body=b"{}"), "document"),
        (lambda: Document(tenant="acme", kind="queue", name="mail", body=bytes(256 * 1024 + 1)), "document has"),
    ],
)
def test_bad_calls(make: Make, named: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{named}"):
        make()


def test_the_defaults_of_a_claim() -> None:
    assert (claim().ttl, claim().grace) == (MINUTE, 5 * SECOND)


def test_how_often_a_release_is_accepted() -> None:
    assert [Release(1, reason).most for reason in ("snooze", "unknown_type", "unknown_argument", "other")] == [
        *(100, 120, 120, 100)
    ]
    assert Release(1, "snooze", 0).most == 0


def test_an_error_can_be_clipped() -> None:
    clipped = Failure.clip("", "é" * 1_000)
    assert clipped == Failure("Error", "é" * 512)
    assert Failure.clip("x" * 200, "").family == "x" * 128


def test_the_retention_of_the_contract() -> None:
    assert Retention() == Retention(succeeded=7 * DAY, cancelled=7 * DAY, failed=30 * DAY)


# Refusals and states


def test_refusals_are_values() -> None:
    assert JobFinished("failed") == JobFinished("failed") != JobFinished("succeeded")
    assert JobNotFound() != LeaseLost()
    assert len({QueueFull(1), QueueFull(1), QueueFull(2)}) == 2
    assert repr(QueueFull(3)) == "QueueFull(3)"
    assert str(QueueFull(3)) == "the queue already holds its 3 waiting jobs"


def test_every_refusal_says_something_of_its_own() -> None:
    refusals = Refused.__subclasses__()
    assert len({refusal.says for refusal in refusals} | {Refused.says}) == len(refusals) + 1


def test_three_states_are_terminal() -> None:
    assert {State.SUCCEEDED, State.FAILED, State.CANCELLED} == TERMINAL
    assert [state.terminal for state in State] == [False, False, False, True, True, True]


# Events


def test_events_survive_their_chunk() -> None:
    events = [
        Event(tenant="acme", kind=EventKind.ENQUEUED, at=5, job_id=ID, version=1, labels={"team": "crm"}),
        Event(tenant="_system", kind=EventKind.CLOCK_JUMP, at=6, hold_until=7),
    ]
    body = encode_events(events)
    assert len(body.splitlines()) == 2
    assert decode_events(body) == events


def test_folded_events_are_lines_again() -> None:
    def line(kind: str, at: int, value: str) -> str:
        return f'{{"tenant":"acme","kind":"{kind}","at":{at}{value}}}\n'

    one = form('{"tenant":"acme","kind":"succeeded","at":5,"job_id":"', '"}')
    two = form('{"tenant":"acme","kind":"claimed","at":6,"job_id":"', '","waited_ms":', "}")
    plain = Event(tenant="acme", kind=EventKind.PURGED, at=7, message="\t# tabs\n#")
    told: list[Told] = [plain, (one, "a\n"), (one, "b\n"), plain, (one, "c\n"), (two, "d\t1\n"), (two, "e\t2\n")]
    told += [line("paused", 8, ""), line("resumed", 9, ""), (two, "f\t3\n")]
    body = encode_events(told)
    assert body.count(b"#{") == 4, "each form once, for as long as it holds"
    assert unfold(body).decode().splitlines(keepends=True) == [
        encode_events([plain]).decode(),
        line("succeeded", 5, ',"job_id":"a"'),
        line("succeeded", 5, ',"job_id":"b"'),
        encode_events([plain]).decode(),
        line("succeeded", 5, ',"job_id":"c"'),
        line("claimed", 6, ',"job_id":"d","waited_ms":1'),
        line("claimed", 6, ',"job_id":"e","waited_ms":2'),
        line("paused", 8, ""),
        line("resumed", 9, ""),
        line("claimed", 6, ',"job_id":"f","waited_ms":3'),
    ]
    assert unfold(unfold(body)) == unfold(body)
    assert unfold(b"") == b""


def test_a_lone_event_is_not_folded() -> None:
    shared = form('{"tenant":"acme","kind":"claimed","at":6,"job_id":"', '","waited_ms":', "}")
    body = encode_events([(shared, "d\t1\n")])
    assert body == b'{"tenant":"acme","kind":"claimed","at":6,"job_id":"d","waited_ms":1}\n'


def test_unknown_fields_are_kept() -> None:
    line = b'{"tenant":"acme","kind":"enqueued","at":5,"shard":3,"trace":{"id":"x"}}'
    (event,) = decode_events(line)
    assert event.more == {"shard": 3, "trace": {"id": "x"}}
    assert msgspec.json.decode(encode_events([event])) == msgspec.json.decode(line)
