"""Expiry (§4): a job nobody claimed in time is passed over, and cancelled by sweep."""

from tenure.domain.calls import Cancelled, Enqueued
from tenure.domain.job import Parent
from tenure.domain.names import HOUR, SECOND
from tenure.domain.states import State, Status
from tenure.testing.conformance.kit import DEADLINE, World, ok


def test_expires_counts_from_enqueue(world: World) -> None:
    id = world.add(expires=SECOND)
    assert world.record(id).spec.expires_at == world.now + SECOND


def test_a_job_can_be_claimed_until_it_expires(world: World) -> None:
    id = world.add(expires=SECOND)
    world.tick(SECOND - 1)
    assert world.status(id) is Status.READY
    assert world.claim_ids() == [id]


def test_claims_pass_over_an_expired_job(world: World) -> None:
    id = world.add(expires=SECOND)
    live = world.add()
    world.tick(SECOND)
    assert world.status(id) is Status.EXPIRED
    assert world.claim_ids(9) == [live]
    assert world.state(id) is State.PENDING


def test_sweep_cancels_an_expired_job(world: World) -> None:
    id = world.add(expires=SECOND)
    world.tick(SECOND - 1)
    assert world.sweep().counts.expired == 0
    world.tick(1)
    assert world.sweep().counts.expired == 1
    record = world.record(id)
    assert (record.state, record.reason, record.finished_at) == (State.CANCELLED, "expired", world.now)
    assert world.get(id).dead_letter is None


def test_a_claimed_job_never_expires(world: World) -> None:
    token = world.start(expires=SECOND)
    world.tick(2 * SECOND)
    ok(world.retry(token))
    assert world.sweep().counts.expired == 0
    assert world.claim_ids() == [token.job_id]


def test_a_released_job_never_expires(world: World) -> None:
    token = world.start(expires=SECOND)
    ok(world.release(token))
    world.tick(HOUR)
    assert world.sweep().counts.expired == 0
    assert world.status(token.job_id) is Status.READY


def test_a_lost_job_never_expires(world: World) -> None:
    token = world.start(expires=SECOND)
    world.tick(DEADLINE + 1)
    counts = world.sweep().counts
    assert (counts.lost, counts.expired) == (1, 0)
    assert world.claim_ids() == [token.job_id]


def test_a_scheduled_job_may_expire_before_its_time(world: World) -> None:
    id = world.add(delay=HOUR, expires=SECOND)
    world.tick(SECOND)
    assert world.status(id) is Status.EXPIRED
    world.sweep()
    assert world.state(id) is State.CANCELLED


def test_sweep_expires_by_time_then_tenant_then_id(world: World) -> None:
    late, early = world.add(expires=2 * SECOND), world.add(expires=SECOND)
    other = world.add(tenant="bolt", expires=SECOND)
    world.tick(2 * SECOND)
    assert world.sweep(limit=1).counts.expired == 1
    assert world.states([late, early]) == [State.PENDING, State.CANCELLED]
    world.sweep(limit=1)
    assert world.state(other, "bolt") is State.CANCELLED
    assert world.state(late) is State.PENDING


def test_a_blocked_job_expires_once_unblocked(world: World) -> None:
    token = world.start()
    child = world.add(parents=(Parent(token.job_id),), expires=SECOND)
    world.tick(2 * SECOND)
    assert world.sweep().counts.expired == 0
    ok(world.succeed(token))
    assert world.status(child) is Status.EXPIRED
    world.sweep()
    assert world.state(child) is State.CANCELLED


def test_expiry_fails_children(world: World) -> None:
    parent = world.add(expires=SECOND)
    child = world.add(parents=(Parent(parent),))
    world.tick(SECOND)
    world.sweep()
    assert world.state(child) is State.CANCELLED


def test_an_expired_job_holds_its_key_until_swept(world: World) -> None:
    id = world.add(key="k", expires=SECOND)
    world.tick(SECOND)
    assert world.put(world.job(key="k")) == Enqueued(id, created=False, state=State.PENDING)
    world.sweep()
    world.add(key="k")


def test_an_expired_job_can_still_be_cancelled(world: World) -> None:
    id = world.add(expires=SECOND)
    world.tick(SECOND)
    assert world.cancel(id) == Cancelled(was_running=False)
    assert world.record(id).reason == "cancelled"
    assert world.sweep().counts.expired == 0
