"""Idempotency (§9): ids, keys and the order of enqueue's guards."""

import pytest

from tenure.domain.calls import Enqueued
from tenure.domain.errors import (
    BatchRefused,
    GroupNeedsKeyed,
    IdConflict,
    IdempotencyMismatch,
    JobNotFound,
    ParentNotFound,
    QueueFull,
    StoreFrozen,
)
from tenure.domain.job import Parent, Result
from tenure.domain.names import HOUR, MINUTE
from tenure.domain.states import State, Unique
from tenure.testing.conformance.kit import World, ok


def test_a_new_job(world: World) -> None:
    job = world.job(payload=b'{"to":1}', labels={"team": "crm"}, priority=7)
    assert world.put(job) == Enqueued(job.id, created=True, state=None, result=None)
    view = world.get(job.id)
    spec = view.job.spec
    assert (view.payload, spec.payload_size, spec.fingerprint) == (b'{"to":1}', 8, job.fingerprint)
    assert (spec.labels, spec.enqueued_at, view.job.run_at) == ({"team": "crm"}, world.now, world.now)
    assert (view.job.state, view.job.version, view.job.priority) == (State.PENDING, 1, 7)


def test_the_same_id_with_another_body(world: World) -> None:
    id = world.add(payload=b"1")
    assert world.put(world.job(id=id, payload=b"2")) == IdConflict()
    assert world.put(world.job(id=id, payload=b"1", codec="msgpack")) == IdConflict()
    assert world.put(world.job(id=id, payload=b"1", job_type="other")) == IdConflict()
    assert world.put(world.job("video", id=id, payload=b"1")) == IdConflict()
    assert world.get(id).payload == b"1"


@pytest.mark.parametrize("unique", [Unique.ACTIVE, Unique.WINDOW, Unique.RETAINED])
def test_a_held_key_answers_with_its_holder(world: World, unique: Unique) -> None:
    for_ = HOUR if unique is Unique.WINDOW else None
    id = world.add(key="k", unique=unique, unique_for=for_)
    again = world.job(key="k", unique=unique, unique_for=for_)
    assert world.put(again) == Enqueued(id, created=False, state=State.PENDING)
    world.take()
    assert world.put(again) == Enqueued(id, created=False, state=State.RUNNING)
    assert world.look(again.id) == JobNotFound()


def test_a_held_key_with_another_body(world: World) -> None:
    id = world.add(key="k")
    assert world.put(world.job(key="k", payload=b"[]")) == IdempotencyMismatch(id)


def test_a_blocked_job_holds_its_key(world: World) -> None:
    id = world.add(key="k", parents=(Parent(world.add()),))
    assert world.put(world.job(key="k")) == Enqueued(id, created=False, state=State.BLOCKED)


def test_a_key_is_of_one_queue_and_type(world: World) -> None:
    world.add(key="k")
    world.add("video", key="k")
    world.add(key="k", job_type="other")
    world.add(key="K")


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
def test_active_frees_the_key_with_the_end(world: World, end: str) -> None:
    first = getattr(world, end)(key="k")
    second = world.add(key="k", payload=b"another body is fine now")
    assert second != first


def test_active_holds_through_a_retry(world: World) -> None:
    token = world.start(key="k")
    ok(world.retry(token))
    assert world.put(world.job(key="k")) == Enqueued(token.job_id, created=False, state=State.PENDING)


def test_window_holds_after_success_with_the_result(world: World) -> None:
    id = world.succeeded(key="k", unique=Unique.WINDOW, unique_for=2 * HOUR, result=b"42")
    until = world.now + 2 * HOUR
    again = world.job(key="k", unique=Unique.WINDOW, unique_for=2 * HOUR)
    world.tick(2 * HOUR - 1)
    assert world.put(again) == Enqueued(id, created=False, state=State.SUCCEEDED, result=Result(b"42", "json", until))
    world.tick(1)
    assert world.put(again) == Enqueued(again.id)


def test_window_still_tells_bodies_apart_after_success(world: World) -> None:
    id = world.succeeded(key="k", unique=Unique.WINDOW, unique_for=HOUR)
    assert world.put(world.job(key="k", payload=b"[]")) == IdempotencyMismatch(id)


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_window_frees_the_key_at_once_otherwise(world: World, end: str) -> None:
    getattr(world, end)(key="k", unique=Unique.WINDOW, unique_for=HOUR)
    world.add(key="k", payload=b"[]")


def test_the_holders_policy_decides(world: World) -> None:
    id = world.succeeded(key="k", unique=Unique.WINDOW, unique_for=HOUR)
    world.tick(HOUR - 1)
    assert world.put(world.job(key="k", unique=Unique.ACTIVE)) == Enqueued(id, created=False, state=State.SUCCEEDED)


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
def test_retained_holds_while_the_record_is_there(world: World, end: str) -> None:
    id = getattr(world, end)(key="k", unique=Unique.RETAINED)
    world.tick(3 * 24 * HOUR)
    assert world.put(world.job(key="k")) == Enqueued(id, created=False, state=State(end))


def test_retained_answers_with_the_result_while_it_lives(world: World) -> None:
    id = world.succeeded(key="k", unique=Unique.RETAINED, result=b"42", result_ttl=MINUTE)
    result = Result(b"42", "json", world.now + MINUTE)
    assert world.put(world.job(key="k")) == Enqueued(id, created=False, state=State.SUCCEEDED, result=result)
    world.tick(MINUTE)
    assert world.put(world.job(key="k")) == Enqueued(id, created=False, state=State.SUCCEEDED)


def test_retained_frees_the_key_with_the_purge(world: World) -> None:
    world.succeeded(key="k", unique=Unique.RETAINED)
    world.tick(9 * 24 * HOUR)
    assert len(world.purge_all()) == 1
    world.add(key="k")


def test_a_duplicate_isnt_remembered_by_its_id(world: World) -> None:
    token = world.start(key="k")
    again = world.job(key="k")
    assert not ok(world.put(again)).created
    ok(world.succeed(token))
    assert world.put(again) == Enqueued(again.id)


def test_items_see_those_before_them(world: World) -> None:
    first, second, other = world.job(key="k"), world.job(key="k"), world.job(key="k", payload=b"[]")
    assert world.enqueue(first, second, other, first) == [
        Enqueued(first.id),
        Enqueued(first.id, created=False, state=State.PENDING),
        IdempotencyMismatch(first.id),
        Enqueued(first.id),
    ]


def test_frozen_comes_before_the_id(world: World) -> None:
    job = world.job()
    ok(world.put(job))
    world.freeze()
    assert world.enqueue(job, world.job()) == [StoreFrozen(), StoreFrozen()]


def test_the_id_comes_before_the_key(world: World) -> None:
    world.add(key="k")
    id = world.add(payload=b"2")
    assert world.put(world.job(id=id, key="k", payload=b"3")) == IdConflict()
    assert world.put(world.job(id=id, key="k", payload=b"2")) == Enqueued(id)


def test_the_key_comes_before_the_group(world: World) -> None:
    id = world.add(key="k")
    assert world.put(world.job(key="k", group="g")) == Enqueued(id, created=False, state=State.PENDING)
    assert world.put(world.job(key="k", group="g", payload=b"[]")) == IdempotencyMismatch(id)


def test_the_group_comes_before_the_parents(world: World) -> None:
    assert world.put(world.job(group="g", parents=(Parent(world.id()),))) == GroupNeedsKeyed("mail")


def test_the_parents_come_before_the_depth(world: World) -> None:
    world.configure(max_depth=0)
    missing = world.id()
    assert world.put(world.job(parents=(Parent(missing),))) == ParentNotFound(missing)
    assert world.put(world.job()) == QueueFull(0)


def test_a_refused_job_leaves_its_key_free(world: World) -> None:
    world.configure(max_depth=0)
    assert world.put(world.job(key="k")) == QueueFull(0)
    world.configure()
    world.add(key="k")


def test_an_atomic_batch_is_created_whole(world: World) -> None:
    jobs = [world.job(), world.job(), world.job()]
    assert world.enqueue(*jobs, atomic=True) == [Enqueued(job.id) for job in jobs]


def test_an_atomic_batch_is_refused_whole(world: World) -> None:
    good, bad = world.job(), world.job(group="g")
    assert world.enqueue(good, bad, atomic=True) == [BatchRefused(), GroupNeedsKeyed("mail")]
    assert world.look(good.id) == JobNotFound()
    assert world.events("acme") == []


def test_an_atomic_batch_counts_its_own_depth(world: World) -> None:
    world.configure(max_depth=1)
    assert world.enqueue(world.job(), world.job(), atomic=True) == [BatchRefused(), QueueFull(1)]
    assert world.nothing()


def test_a_duplicate_refuses_an_atomic_batch(world: World) -> None:
    world.add(key="k")
    good = world.job()
    assert world.enqueue(good, world.job(key="k"), atomic=True)[0] == BatchRefused()
    assert world.look(good.id) == JobNotFound()


def test_an_atomic_batch_sent_again(world: World) -> None:
    jobs = [world.job(), world.job(key="k")]
    first = world.enqueue(*jobs, atomic=True)
    assert world.enqueue(*jobs, atomic=True) == first == [Enqueued(job.id) for job in jobs]
    assert len(world.events("acme")) == 2
