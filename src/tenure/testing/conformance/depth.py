"""Backpressure (§11): max_depth counts what waits, per tenant and queue."""

from tenure.domain.calls import Enqueued
from tenure.domain.errors import QueueFull
from tenure.domain.job import Parent
from tenure.domain.names import HOUR
from tenure.domain.states import State
from tenure.testing.conformance.kit import DEADLINE, World, ok


def test_a_full_queue_refuses(world: World) -> None:
    world.configure(max_depth=2)
    world.add_many(2)
    assert world.put(world.job()) == QueueFull(2)


def test_a_batch_fills_up_in_order(world: World) -> None:
    world.configure(max_depth=2)
    first, second, third = world.job(), world.job(), world.job()
    assert world.enqueue(first, second, third) == [Enqueued(first.id), Enqueued(second.id), QueueFull(2)]


def test_scheduled_and_blocked_jobs_count(world: World) -> None:
    world.configure(max_depth=2)
    parent = world.add(delay=HOUR)
    world.add(parents=(Parent(parent),))
    assert world.put(world.job()) == QueueFull(2)


def test_running_and_ended_jobs_dont_count(world: World) -> None:
    world.configure(max_depth=1)
    token = world.start()
    world.cancelled()
    id = world.add()
    ok(world.succeed(token))
    assert world.put(world.job()) == QueueFull(1)
    ok(world.cancel(id))
    world.add()


def test_each_tenant_and_queue_counts_for_itself(world: World) -> None:
    world.configure(max_depth=1)
    world.add()
    world.add(tenant="bolt")
    world.add("video")
    assert world.put(world.job(tenant="bolt")) == QueueFull(1)


def test_a_tenants_own_depth_holds(world: World) -> None:
    world.configure(max_depth=1)
    world.configure(max_depth=2, tenant="acme")
    world.add_many(2)
    assert world.put(world.job()) == QueueFull(2)


def test_a_job_always_finds_its_way_back(world: World) -> None:
    world.configure(max_depth=1)
    token = world.start()
    world.add()
    assert ok(world.retry(token)).state is State.PENDING
    assert world.put(world.job()) == QueueFull(1)


def test_a_lost_job_finds_its_way_back(world: World) -> None:
    world.configure(max_depth=1)
    token = world.start()
    world.add()
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.state(token.job_id) is State.PENDING


def test_known_ids_and_keys_answer_although_full(world: World) -> None:
    world.configure(max_depth=1)
    job = world.job(key="k")
    ok(world.put(job))
    assert world.put(job) == Enqueued(job.id)
    assert world.put(world.job(key="k")) == Enqueued(job.id, created=False, state=State.PENDING)


def test_depth_zero_closes_a_queue(world: World) -> None:
    world.configure(max_depth=0)
    assert world.put(world.job()) == QueueFull(0)


def test_an_expired_job_counts_until_it_is_swept(world: World) -> None:
    world.configure(max_depth=1)
    world.add(expires=HOUR)
    world.tick(HOUR)
    assert world.put(world.job()) == QueueFull(1)
    world.sweep()
    world.add()


def test_a_job_cancelled_at_birth_takes_no_place(world: World) -> None:
    world.configure(max_depth=1)
    parent = world.cancelled()
    world.add(parents=(Parent(parent),))
    world.add()
