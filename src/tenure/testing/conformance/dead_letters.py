"""Dead letters (§14): every failed job leaves one, replay makes a new job of it."""

from typing import Any

import pytest

from tenure.domain.calls import Discarded, Enqueued, Purged, Replayed, Retention
from tenure.domain.errors import AlreadyReplayed, JobNotFound, KeyHeld, NotDeadLettered, QueueFull
from tenure.domain.job import Parent, fingerprint
from tenure.domain.names import DAY, HOUR, SECOND
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import Disposition, Mode, OnParentFailure, State, Unique
from tenure.testing.conformance.kit import DEADLINE, World, ok


@pytest.mark.parametrize("way", ["permanent", "exhausted", "lost", "released", "parent"])
def test_every_failed_job_leaves_one(world: World, way: str) -> None:
    token = world.start(max_attempts=1)
    id = token.job_id
    if way == "permanent":
        ok(world.fail(token))
    elif way == "exhausted":
        ok(world.retry(token))
    elif way == "lost":
        world.tick(DEADLINE + 1)
        world.sweep()
    elif way == "released":
        ok(world.release(token, 1, "snooze", 0))
    else:
        id = world.add(parents=(Parent(id, OnParentFailure.FAIL),))
        ok(world.fail(token))
    assert (world.state(id), world.get(id).dead_letter) == (State.FAILED, Disposition.OPEN)


def test_other_ends_leave_none(world: World) -> None:
    assert world.get(world.succeeded()).dead_letter is None
    assert world.get(world.cancelled()).dead_letter is None


def test_replay_makes_a_new_job(world: World) -> None:
    id = world.failed(payload=b"[1]")
    new_id = world.id()
    world.tick(HOUR)
    assert world.replay(id, new_id) == Replayed(new_id, created=True)
    old, new = world.get(id), world.get(new_id)
    assert (old.job.state, old.dead_letter, old.replayed_as) == (State.FAILED, Disposition.REPLAYED, new_id)
    assert (new.job.state, new.job.attempt, new.job.run_at, new.payload) == (State.PENDING, 0, world.now, b"[1]")
    assert (new.job.spec.replay_of, new.job.spec.root_id) == (id, id)
    assert world.claim_ids() == [new_id]


def test_replay_copies_what_the_job_is(world: World) -> None:
    world.configure(mode=Mode.KEYED)
    fields: dict[str, Any] = {
        "job_type": "render",
        "payload": b"[2]",
        "codec": "msgpack",
        "priority": 9,
        "group": "g",
        "labels": {"team": "crm"},
        "max_attempts": 7,
        "retry": RetryPolicy.ladder(SECOND),
        "lease": 7_000,
        "grace": 1_000,
        "timeout": 8_000,
        "result_ttl": 9_000,
    }
    new = world.get(world.replayed(world.failed(**fields)))
    assert (new.payload, new.job.priority) == (b"[2]", 9)
    rest = {name: value for name, value in fields.items() if name not in ("payload", "priority")}
    assert {name: getattr(new.job.spec, name) for name in rest} == rest


def test_replay_copies_no_times_and_no_parents(world: World) -> None:
    parent = world.succeeded()
    id = world.failed(parents=(Parent(parent),), expires=HOUR)
    world.tick(2 * HOUR)
    spec = world.record(world.replayed(id)).spec
    assert (spec.parents, spec.expires_at, spec.enqueued_at) == ((), None, world.now)


def test_replay_may_edit_the_payload(world: World) -> None:
    id = world.failed(payload=b"bad")
    new = world.get(world.replayed(id, payload=b"better", codec="text"))
    assert (new.payload, new.job.spec.codec, new.job.spec.payload_size) == (b"better", "text", 6)
    assert new.job.spec.fingerprint == fingerprint("send", "text", b"better", "mail")
    assert world.get(id).payload == b"bad"


def test_replay_asked_again_answers_the_first(world: World) -> None:
    id = world.failed()
    first, second = world.id(), world.id()
    assert world.replay(id, first) == Replayed(first, created=True)
    assert world.replay(id, second) == Replayed(first, created=False)
    assert world.look(second) == JobNotFound()
    assert world.replay(id, first) == Replayed(first, created=True), "the very same call"


def test_replay_asked_again_of_an_id_that_came_again(world: World) -> None:
    """The job that it made says so, whatever became of the one it was made of: the same call, the same answer."""
    id = world.failed(payload=b"[1]")
    new_id = world.replayed(id)
    ok(world.succeed(world.take().token))
    world.tick(DAY)
    assert isinstance(world.purge(Retention(failed=0)), Purged)
    assert world.look(id) == JobNotFound()
    world.failed(id=id, payload=b"[2]")
    assert world.replay(id, new_id) == Replayed(new_id, created=True)
    assert world.get(id).dead_letter is Disposition.OPEN


def test_replay_again_on_demand(world: World) -> None:
    id = world.failed()
    first, second = world.replayed(id), world.id()
    assert world.replay(id, second, again=True) == Replayed(second, created=True)
    assert world.claim_ids(9) == [first, second]


def test_replay_of_a_replay_knows_the_root(world: World) -> None:
    first = world.failed()
    second = world.replayed(first)
    ok(world.fail(world.take().token))
    third = world.record(world.replayed(second))
    assert (third.spec.replay_of, third.spec.root_id) == (second, first)


def test_only_failed_jobs_are_replayed(world: World) -> None:
    pending, succeeded, cancelled = world.add(delay=HOUR), world.succeeded(), world.cancelled()
    running = world.start().job_id
    expected = {pending: "pending", running: "running", succeeded: "succeeded", cancelled: "cancelled"}
    for id, state in expected.items():
        assert world.replay(id, world.id()) == NotDeadLettered(state)
        assert world.discard(id) == NotDeadLettered(state)


def test_unknown_jobs_are_not_found(world: World) -> None:
    assert world.replay(world.id(), world.id()) == JobNotFound()
    assert world.discard(world.id()) == JobNotFound()


def test_discard_closes_the_letter(world: World) -> None:
    id = world.failed()
    assert world.discard(id) == Discarded()
    view = world.get(id)
    assert (view.job.state, view.dead_letter) == (State.FAILED, Disposition.DISCARDED)


def test_a_discarded_job_can_be_replayed(world: World) -> None:
    id = world.failed()
    ok(world.discard(id))
    new_id = world.replayed(id)
    assert world.get(id).dead_letter is Disposition.REPLAYED
    assert world.claim_ids() == [new_id]


def test_a_replayed_job_cant_be_discarded(world: World) -> None:
    id = world.failed()
    new_id = world.replayed(id)
    assert world.discard(id) == AlreadyReplayed(new_id)


def test_replay_takes_its_place_in_the_depth(world: World) -> None:
    id = world.failed()
    world.configure(max_depth=1)
    world.add()
    assert world.replay(id, world.id()) == QueueFull(1)
    assert world.get(id).dead_letter is Disposition.OPEN


@pytest.mark.parametrize("unique", [Unique.ACTIVE, Unique.WINDOW])
def test_replay_takes_its_key(world: World, unique: Unique) -> None:
    unique_for = HOUR if unique is Unique.WINDOW else None
    id = world.failed(key="k", unique=unique, unique_for=unique_for)
    new_id = world.replayed(id)
    assert world.record(new_id).spec.key == "k"
    assert world.put(world.job(key="k")) == Enqueued(new_id, created=False, state=State.PENDING)


def test_replay_is_refused_while_the_key_is_held(world: World) -> None:
    id = world.failed(key="k")
    holder = world.add(key="k")
    assert world.replay(id, world.id()) == KeyHeld(holder)
    assert world.get(id).dead_letter is Disposition.OPEN
    ok(world.cancel(holder))
    assert ok(world.replay(id, new_id := world.id())) == Replayed(new_id)


def test_replay_moves_a_retained_key(world: World) -> None:
    id = world.failed(key="k", unique=Unique.RETAINED)
    new_id = world.replayed(id)
    assert world.put(world.job(key="k")) == Enqueued(new_id, created=False, state=State.PENDING)


def test_replay_again_finds_its_own_key_held(world: World) -> None:
    id = world.failed(key="k")
    first = world.replayed(id)
    assert world.replay(id, world.id(), again=True) == KeyHeld(first)


def test_a_dead_letter_doesnt_touch_what_ended(world: World) -> None:
    id = world.failed()
    before = world.record(id)
    world.tick(HOUR)
    ok(world.discard(id))
    world.replayed(id)
    after = world.record(id)
    assert (after.state, after.attempt, after.lease_seq, after.finished_at, after.last_error, after.reason) == (
        before.state,
        before.attempt,
        before.lease_seq,
        before.finished_at,
        before.last_error,
        before.reason,
    )
    assert after.version == before.version + 2
