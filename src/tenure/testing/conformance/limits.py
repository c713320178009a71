"""Limits of a whole queue (§11): over all workers, per tenant, draining slots included."""

import pytest

from tenure.domain.names import EVERYONE
from tenure.testing.conformance.kit import DEADLINE, World, ok


def test_a_limit_holds_within_a_claim(world: World) -> None:
    world.configure(limit=2)
    jobs = world.add_many(3)
    assert world.claim_ids(9) == jobs[:2]


def test_a_limit_holds_over_claims_and_workers(world: World) -> None:
    world.configure(limit=2)
    world.add_many(3)
    world.take(worker="w1")
    world.take(worker="w2")
    assert world.nothing(worker="w3")


def test_everyones_limit_is_counted_per_tenant(world: World) -> None:
    world.configure(limit=1, tenant=EVERYONE)
    for tenant in ("a", "b"):
        world.add_many(2, tenant=tenant)
    assert len(world.claim(9).jobs) == 2


def test_a_tenants_own_limit_holds_over_everyones(world: World) -> None:
    world.configure(limit=1)
    world.configure(limit=3, tenant="acme")
    world.add_many(5)
    assert len(world.claim(9).jobs) == 3


@pytest.mark.parametrize("end", ["succeed", "retry", "fail", "release"])
def test_every_settle_frees_a_slot(world: World, end: str) -> None:
    world.configure(limit=1)
    token = world.start()
    waiting = world.add(priority=1)
    assert world.nothing()
    ok(getattr(world, end)(token))
    assert world.claim_ids(9) == [waiting]


def test_a_lost_lease_frees_a_slot_once_swept(world: World) -> None:
    world.configure(limit=1)
    world.start()
    waiting = world.add(priority=1)
    world.tick(DEADLINE + 1)
    assert world.nothing()
    world.sweep()
    assert world.claim_ids(9) == [waiting]


def test_a_cancelled_running_job_drains(world: World) -> None:
    world.configure(limit=1)
    token = world.start()
    waiting = world.add()
    ok(world.cancel(token.job_id))
    assert world.nothing()
    world.release(token)
    assert world.claim_ids() == [waiting]


def test_sweep_frees_a_drained_slot(world: World) -> None:
    world.configure(limit=1)
    token = world.start()
    waiting = world.add()
    ok(world.cancel(token.job_id))
    world.tick(DEADLINE + 1)
    assert world.sweep().counts.drained == 1
    assert world.claim_ids() == [waiting]


def test_sweep_frees_at_most_its_limit(world: World) -> None:
    world.add_many(3)
    for job in world.claim(3).jobs:
        ok(world.cancel(job.token.job_id))
    world.tick(DEADLINE + 1)
    assert [world.sweep(limit=2).counts.drained for _ in range(3)] == [2, 1, 0]


def test_a_requested_cancel_that_ended_leaves_no_slot(world: World) -> None:
    world.configure(limit=1)
    token = world.start()
    waiting = world.add()
    ok(world.request_cancel(token.job_id))
    ok(world.release(token))
    assert world.claim_ids() == [waiting]


def test_a_limit_can_be_raised(world: World) -> None:
    world.configure(limit=1)
    jobs = world.add_many(3)
    assert world.claim_ids(9) == jobs[:1]
    world.configure(limit=2)
    assert world.claim_ids(9) == jobs[1:2]
    world.configure()
    assert world.claim_ids(9) == jobs[2:]


def test_a_lowered_limit_stops_nobody(world: World) -> None:
    jobs = world.add_many(4)
    first, second, third = (job.token for job in world.claim(3).jobs)
    world.configure(limit=2)
    ok(world.succeed(first))
    assert world.nothing()
    ok(world.succeed(second))
    assert world.claim_ids(9) == jobs[3:]
    ok(world.succeed(third))


def test_a_full_queue_doesnt_hold_the_tenants_others(world: World) -> None:
    world.configure("mail", limit=1)
    world.start("mail")
    world.add("mail")
    video = world.add("video")
    assert world.claim_ids(9, "mail", "video") == [video]
