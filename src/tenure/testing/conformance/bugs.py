"""Bugs of the designs Tenure learned from (§17), one test each: none of them may live here."""

from collections.abc import Callable

import pytest

from tenure.domain.calls import Enqueued, Renewed, Settled
from tenure.domain.errors import JobCancelled, LeaseLost
from tenure.domain.job import Parent, Progress, Token
from tenure.domain.names import DAY, HOUR, SECOND
from tenure.domain.rate import Rate
from tenure.domain.states import Mode, OnParentFailure, State, Unique
from tenure.testing.conformance.kit import DEADLINE, LEASE, World, ok


def test_a_worker_dying_on_the_last_attempt_wedges_nothing(world: World) -> None:
    doomed = world.start(max_attempts=1)
    world.tick(DEADLINE + 1)
    waiting = world.add_many(2)
    world.sweep()
    assert world.state(doomed.job_id) is State.FAILED
    assert world.claim_ids(9) == waiting


def test_a_cancel_requested_of_a_dead_worker_is_kept(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.state(token.job_id) is State.CANCELLED
    assert world.nothing()


def test_a_stale_success_isnt_accepted_while_the_next_attempt_runs(world: World) -> None:
    stale = world.start()
    world.tick(DEADLINE + 1)
    world.sweep()
    fresh = world.take().token
    assert world.succeed(stale, b"stale") == LeaseLost()
    assert world.state(stale.job_id) is State.RUNNING
    assert world.succeed(fresh, b"fresh") == Settled(State.SUCCEEDED)


def test_recovery_needs_no_restart(world: World) -> None:
    for lease_seq in (1, 2):
        if lease_seq == 1:
            world.add()
        assert world.take().token.lease_seq == lease_seq
        world.tick(DEADLINE + 1)
        assert world.sweep(10 * SECOND).counts.lost == 1


def test_a_key_doesnt_leak_another_tenants_job(world: World) -> None:
    world.succeeded(key="order-1", result=b"secret", unique=Unique.WINDOW, unique_for=DAY)
    job = world.job(tenant="bolt", key="order-1")
    assert world.put(job) == Enqueued(job.id, created=True)


def test_cancel_then_enqueue_again_runs_once(world: World) -> None:
    first = world.add(key="k")
    ok(world.cancel(first))
    second = world.add(key="k")
    assert world.claim_ids(9) == [second]
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.claim_ids(9) == [second]


def test_a_crash_after_the_claim_loses_nothing(world: World) -> None:
    id = world.add()
    world.take()
    world.crash()
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.claim_ids(9) == [id]


def test_a_forgotten_lease_never_vanishes(world: World) -> None:
    token = world.start()
    world.tick(365 * DAY)
    assert world.purge() is None
    assert world.sweep().counts.lost == 1
    assert world.claim_ids() == [token.job_id]


def test_nobody_depends_on_a_hint(world: World) -> None:
    token = world.start()
    ok(world.succeed(token, b"1"))
    result = world.get(token.job_id).result
    assert result is not None
    assert (world.state(token.job_id), result.body) == (State.SUCCEEDED, b"1")
    stalled = world.start()
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.claim_ids() == [stalled.job_id]


def test_a_slot_freed_twice_is_one_slot(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_limit=1)
    token = world.start(group="g")
    world.add_many(4, group="g")
    ok(world.cancel(token.job_id))
    assert world.release(token) == world.release(token) == JobCancelled()
    world.tick(DEADLINE + 1)
    world.sweep()
    world.sweep()
    assert len(world.claim(9).jobs) == 1
    assert world.nothing()


def behind(world: World) -> tuple[Token, str]:
    """A running job and one that waits for its slot, in a queue that runs one per group."""
    world.configure(mode=Mode.KEYED, group_limit=1)
    return world.start(group="g"), world.add(group="g", priority=1)


def by_enqueue(world: World) -> str:
    return world.add()


def by_unblocking(world: World) -> str:
    token = world.start("video")
    id = world.add(parents=(Parent(token.job_id),))
    ok(world.succeed(token))
    return id


def by_an_ignored_failure(world: World) -> str:
    token = world.start("video")
    id = world.add(parents=(Parent(token.job_id, OnParentFailure.IGNORE),))
    ok(world.fail(token))
    return id


def by_success(world: World) -> str:
    token, id = behind(world)
    ok(world.succeed(token))
    return id


def by_retry(world: World) -> str:
    token, id = behind(world)
    ok(world.retry(token))
    return id


def by_failure(world: World) -> str:
    token, id = behind(world)
    ok(world.fail(token))
    return id


def by_release(world: World) -> str:
    token, id = behind(world)
    ok(world.release(token))
    return id


def by_a_lost_lease(world: World) -> str:
    _, id = behind(world)
    world.tick(DEADLINE + 1)
    world.sweep()
    return id


def by_a_lost_lease_for_good(world: World) -> str:
    world.configure(limit=1)
    world.start(max_attempts=1)
    id = world.add()
    world.tick(DEADLINE + 1)
    world.sweep()
    return id


def by_a_confirmed_cancel(world: World) -> str:
    token, id = behind(world)
    ok(world.cancel(token.job_id))
    world.release(token)
    return id


def by_a_drained_slot(world: World) -> str:
    token, id = behind(world)
    ok(world.cancel(token.job_id))
    world.tick(DEADLINE + 1)
    world.sweep()
    return id


def by_a_cancelled_head(world: World) -> str:
    world.configure(mode=Mode.KEYED, ordered=True)
    head, id = world.add(group="g", delay=HOUR), world.add(group="g")
    ok(world.cancel(head))
    return id


def by_an_expired_head(world: World) -> str:
    world.configure(mode=Mode.KEYED, ordered=True)
    world.add(group="g", delay=HOUR, expires=SECOND)
    id = world.add(group="g")
    world.tick(SECOND)
    world.sweep()
    return id


def by_rescheduling(world: World) -> str:
    id = world.add(delay=HOUR)
    ok(world.reschedule(id, delay=0))
    return id


def by_a_higher_group_limit(world: World) -> str:
    _, id = behind(world)
    world.configure(mode=Mode.KEYED, group_limit=2)
    return id


def by_a_higher_limit(world: World) -> str:
    world.configure(limit=1)
    world.start()
    id = world.add()
    world.configure(limit=2)
    return id


def by_a_dropped_rate(world: World) -> str:
    world.configure(rate=Rate(1, HOUR))
    world.start()
    id = world.add()
    world.configure()
    return id


def by_resuming_the_queue(world: World) -> str:
    world.configure(paused=True)
    id = world.add()
    world.configure(paused=False)
    return id


def by_resuming_the_tenant(world: World) -> str:
    world.configure_tenant(paused=True)
    id = world.add()
    world.configure_tenant(paused=False)
    return id


def by_replay(world: World) -> str:
    return world.replayed(world.failed())


def by_thawing(world: World) -> str:
    id = world.add()
    world.freeze()
    world.thaw()
    return id


def by_a_carried_job(world: World) -> str:
    token = world.start("video")
    job = world.job()
    ok(world.succeed(token, None, job))
    return job.id


PATHS = [
    by_enqueue,
    by_unblocking,
    by_an_ignored_failure,
    by_success,
    by_retry,
    by_failure,
    by_release,
    by_a_lost_lease,
    by_a_lost_lease_for_good,
    by_a_confirmed_cancel,
    by_a_drained_slot,
    by_a_cancelled_head,
    by_an_expired_head,
    by_rescheduling,
    by_a_higher_group_limit,
    by_a_higher_limit,
    by_a_dropped_rate,
    by_resuming_the_queue,
    by_resuming_the_tenant,
    by_replay,
    by_thawing,
    by_a_carried_job,
]


@pytest.mark.parametrize("free", PATHS, ids=lambda path: path.__name__)
def test_no_path_forgets_to_make_a_job_claimable(world: World, free: Callable[[World], str]) -> None:
    id = free(world)
    assert world.claim_ids() == [id]


def test_jobs_in_back_off_hide_no_ready_ones(world: World) -> None:
    world.add_many(20, priority=100)
    for job in world.claim(20).jobs:
        ok(world.retry(job.token, HOUR))
    ready = world.add(priority=-100)
    assert world.claim_ids(9) == [ready]


def test_attempts_are_counted_without_a_report(world: World) -> None:
    id = world.add(max_attempts=3)
    for attempt in (1, 2, 3):
        assert world.take().job.attempt == attempt
        world.tick(DEADLINE + 1)
        world.sweep()
    assert world.state(id) is State.FAILED
    assert world.nothing()


def test_a_workers_name_is_no_fence(world: World) -> None:
    old = world.start()
    world.tick(DEADLINE + 1)
    world.sweep()
    new = world.take(worker="w1").token
    assert world.renew(old) == LeaseLost()
    assert world.succeed(old) == LeaseLost()
    assert world.succeed(new) == Settled(State.SUCCEEDED)


def test_a_renewal_writes_back_nothing_stale(world: World) -> None:
    token = world.start()
    ok(world.renew(token, Progress(0.5)))
    ok(world.request_cancel(token.job_id))
    assert world.renew(token, Progress(0.75)) == Renewed(world.now + LEASE, True)
    record = world.record(token.job_id)
    assert (record.cancel_requested, record.progress) == (True, Progress(0.75))


def test_an_enqueue_of_unknown_outcome_is_one_job(world: World) -> None:
    job = world.job()
    assert world.put(job) == world.put(job) == Enqueued(job.id)
    world.crash()
    assert world.put(job) == Enqueued(job.id)
    assert world.claim_ids(9) == [job.id]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_claim_takes_no_more_than_n(world: World, n: int) -> None:
    for tenant in ("a", "b", "c"):
        for queue in ("mail", "video"):
            world.add_many(3, queue, tenant=tenant)
    assert len(world.claim(n, "mail", "video").jobs) == n
    assert len(world.query(states=(State.RUNNING,))) == n
