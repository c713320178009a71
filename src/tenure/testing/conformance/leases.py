"""Leases (§5): who may act, until which millisecond, and what a lost lease costs."""

import asyncio

import pytest

from tenure.domain.calls import Renewal, Renewed, Settled, SweptJob
from tenure.domain.errors import JobNotFound, LeaseExpired, LeaseLost
from tenure.domain.job import Lease, Progress, Token, secret_hash
from tenure.domain.names import SECOND, Ms
from tenure.domain.states import State
from tenure.testing.conformance.kit import DEADLINE, GRACE, LEASE, World, ok


def test_a_claim_gives_a_lease(world: World) -> None:
    id = world.add()
    taken = world.take(claim_id=b"0123456789abcdef", worker="w7")
    assert taken.token == Token("acme", id, 1, b"0123456789abcdef")
    assert taken.payload == b"{}"
    record = world.record(id)
    assert record == taken.job
    assert (record.state, record.attempt, record.lease_seq) == (State.RUNNING, 1, 1)
    assert record.lease == Lease("w7", world.now, world.now + LEASE, LEASE, GRACE)
    assert record.token == secret_hash(b"0123456789abcdef")


def test_a_leased_job_is_given_to_nobody_else(world: World) -> None:
    world.start()
    assert world.nothing()


def test_concurrent_claims_share_no_job(world: World) -> None:
    jobs = world.add_many(20)
    requests = [world.request(3, worker=f"w{number}") for number in range(10)]

    async def race() -> list[str]:
        other = await world.factory.second(world.store, world.clock)
        replies = await asyncio.gather(
            *(store.claim(r) for r in requests[:5] for store in (world.store,)),
            *(store.claim(r) for r in requests[5:] for store in (other,)),
        )
        if other is not world.store:
            await other.close()
        return [job.token.job_id for reply in replies for job in ok(reply).jobs]

    assert sorted(world.run(race())) == jobs


@pytest.mark.parametrize(
    ("job_lease", "queue_lease", "length"),
    [(7_000, 9_000, 7_000), (None, 9_000, 9_000), (None, None, 11_000)],
    ids=["job", "queue", "claim"],
)
def test_the_nearest_lease_length_holds(world: World, job_lease: Ms | None, queue_lease: Ms | None, length: Ms) -> None:
    world.configure(lease=queue_lease)
    world.add(lease=job_lease)
    lease = world.take(ttl=11_000).job.lease
    assert lease is not None
    assert (lease.ttl, lease.until) == (length, world.now + length)


@pytest.mark.parametrize(
    ("job_grace", "queue_grace", "length"),
    [(0, 2_000, 0), (None, 2_000, 2_000), (None, None, 3_000)],
    ids=["job", "queue", "claim"],
)
def test_the_nearest_grace_holds(world: World, job_grace: Ms | None, queue_grace: Ms | None, length: Ms) -> None:
    world.configure(grace=queue_grace)
    world.add(grace=job_grace)
    lease = world.take(grace=3_000).job.lease
    assert lease is not None
    assert lease.grace == length


def test_lease_length_is_fixed_at_the_claim(world: World) -> None:
    token = world.start()
    world.configure(lease=1_000, grace=0)
    world.tick(10 * SECOND)
    assert world.renew(token) == Renewed(world.now + LEASE, False)


def test_renewal_extends_by_the_ttl_from_now(world: World) -> None:
    token = world.start()
    world.tick(20 * SECOND)
    assert world.renew(token) == Renewed(world.now + LEASE, False)
    assert world.record(token.job_id).version == 2, "a renewal without progress is no event"


def test_renewal_never_shortens(world: World) -> None:
    token = world.start()
    until = world.now + LEASE
    world.tick(-30 * SECOND)
    assert world.renew(token) == Renewed(until, False)


def test_renewal_carries_progress(world: World) -> None:
    token = world.start()
    ok(world.renew(token, Progress(0.5, "half")))
    assert world.record(token.job_id).progress == Progress(0.5, "half")
    ok(world.renew(token))
    assert world.record(token.job_id).progress == Progress(0.5, "half")


def test_renewal_tells_that_cancel_was_requested(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    assert world.renew(token) == Renewed(world.now + LEASE, True)


def test_renewals_of_a_batch_are_independent(world: World) -> None:
    good, stale = world.start(), world.start()
    unknown = Token("acme", world.id(), 1, good.secret)
    ok(world.succeed(stale))
    replies = world.run(world.store.renew([Renewal(unknown), Renewal(good)]))
    assert replies == [JobNotFound(), Renewed(world.now + LEASE, False)]


def test_at_the_deadline_the_holder_may_still_renew(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE)
    assert world.renew(token) == Renewed(world.now + LEASE, False)


def test_at_the_deadline_the_holder_may_still_settle(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE)
    assert world.succeed(token) == Settled(State.SUCCEEDED)


def test_at_the_deadline_sweep_may_not_take(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE)
    assert world.sweep().counts.lost == 0
    assert world.state(token.job_id) is State.RUNNING


def test_past_the_deadline_the_holder_may_not_act(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE + 1)
    assert world.renew(token) == LeaseExpired()
    assert world.succeed(token) == LeaseExpired()
    assert world.retry(token) == LeaseExpired()
    assert world.fail(token) == LeaseExpired()
    assert world.release(token) == LeaseExpired()
    assert world.state(token.job_id) is State.RUNNING


def test_past_the_deadline_sweep_takes(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE + 1)
    assert world.sweep().counts.lost == 1
    record = world.record(token.job_id)
    assert (record.state, record.attempt, record.lease_seq, record.lease) == (State.PENDING, 1, 1, None)


def test_an_expired_lease_is_claimable_only_after_a_sweep(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE + 1)
    assert world.nothing()
    world.sweep()
    assert world.claim_ids() == [token.job_id]


def test_a_lost_lease_costs_an_attempt_and_kills_the_old_token(world: World) -> None:
    old = world.start()
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.succeed(old) == LeaseLost()
    taken = world.take()
    assert (taken.job.attempt, taken.token.lease_seq) == (2, 2)
    assert world.renew(old) == LeaseLost()
    assert world.succeed(old) == LeaseLost()
    assert world.succeed(taken.token) == Settled(State.SUCCEEDED)


def test_a_lost_lease_keeps_run_at_and_gets_no_delay(world: World) -> None:
    run_at = world.now
    token = world.start()
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.record(token.job_id).run_at == run_at


def test_a_lease_lost_on_the_last_attempt_fails_the_job(world: World) -> None:
    token = world.start(max_attempts=1)
    world.tick(DEADLINE + 1)
    assert world.sweep().counts.lost == 1
    record = world.record(token.job_id)
    assert (record.state, record.reason, record.attempt) == (State.FAILED, "lease_lost", 1)
    assert world.nothing()


def test_sweep_names_the_jobs_that_it_fails(world: World) -> None:
    """And no other: a lost lease with attempts left is an attempt, and one asked to end is cancelled."""
    world.start(max_attempts=2)
    ok(world.request_cancel(world.start(max_attempts=1).job_id))
    last = world.start(max_attempts=1, job_type="last")
    world.tick(DEADLINE + 1)
    swept = world.sweep()
    assert swept.counts.lost == 3
    spec = world.record(last.job_id).spec
    assert swept.failed == (SweptJob(spec.tenant, spec.id, "last", spec.queue, 1, "lease_lost"),)
    assert world.sweep().failed == ()


def test_renewal_postpones_the_sweep(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE)
    ok(world.renew(token))
    world.tick(DEADLINE)
    assert world.sweep().counts.lost == 0
    world.tick(1)
    assert world.sweep().counts.lost == 1


def test_a_settled_job_has_no_lease_to_lose(world: World) -> None:
    token = world.start()
    ok(world.succeed(token))
    world.tick(DEADLINE + 1)
    assert world.sweep().counts.lost == 0
    assert world.state(token.job_id) is State.SUCCEEDED


def test_sweep_takes_the_earliest_deadline_first(world: World) -> None:
    late, early = world.start(lease=20 * SECOND), world.start(lease=10 * SECOND)
    world.tick(DEADLINE)
    assert world.sweep(limit=1).counts.lost == 1
    assert world.states([late.job_id, early.job_id]) == [State.RUNNING, State.PENDING]


def test_sweep_takes_equal_deadlines_by_tenant_and_id(world: World) -> None:
    world.add(tenant="bolt")
    acme = world.add_many(2)
    world.claim(3)
    world.tick(DEADLINE + 1)
    world.sweep(limit=1)
    assert world.states(acme) == [State.PENDING, State.RUNNING]
    world.sweep(limit=1)
    assert world.states(acme) == [State.PENDING, State.PENDING]


def test_grace_counts_into_the_deadline_order(world: World) -> None:
    first = world.start(lease=10 * SECOND, grace=9 * SECOND)
    second = world.start(lease=11 * SECOND, grace=0)
    world.tick(DEADLINE)
    world.sweep(limit=1)
    assert world.states([first.job_id, second.job_id]) == [State.RUNNING, State.PENDING]


def test_sweep_has_one_turn_per_interval(world: World) -> None:
    assert world.sweep(10 * SECOND).turn
    world.tick(10 * SECOND - 1)
    assert not world.sweep(10 * SECOND).turn
    world.tick(1)
    swept = world.sweep(10 * SECOND)
    assert (swept.turn, swept.now) == (True, world.now)


def test_a_sweep_without_the_turn_does_nothing(world: World) -> None:
    token = world.start(lease=SECOND, grace=0)
    world.sweep(10 * SECOND)
    world.tick(2 * SECOND)
    assert world.sweep(10 * SECOND).counts.lost == 0
    assert world.state(token.job_id) is State.RUNNING


def test_interval_zero_always_has_the_turn(world: World) -> None:
    assert world.sweep(0).turn
    assert world.sweep(0).turn
