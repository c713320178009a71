"""Time (§2): one clock, milliseconds, standing still when it goes back, and held leases when it jumped."""

import pytest

from tenure.domain.calls import Renewed
from tenure.domain.errors import LeaseExpired
from tenure.domain.names import HOUR, MINUTE, SECOND
from tenure.domain.states import EventKind, State
from tenure.domain.store import ClockFloor
from tenure.testing.conformance.kit import DEADLINE, LEASE, World, ok


def jumps(world: World) -> list[int | None]:
    return [event.hold_until for event in world.events() if event.kind is EventKind.CLOCK_JUMP]


def test_replies_tell_the_stores_time(world: World) -> None:
    world.tick(123)
    assert world.claim().now == world.now
    assert world.sweep().now == world.now


def test_one_now_per_operation(world: World) -> None:
    jobs = world.add_many(3)
    world.tick(7)
    world.claim(3)
    assert {world.record(id).updated_at for id in jobs} == {world.now}
    assert {event.at for event in world.events()} == {world.now - 7, world.now}


def test_time_stands_still_when_the_clock_goes_back(world: World) -> None:
    if world.store.capabilities.clock_floor is not ClockFloor.STORE:
        pytest.skip("this store's clock has a floor per job")
    world.add()
    high = world.now
    world.tick(-HOUR)
    id = world.add(delay=SECOND)
    record = world.record(id)
    assert (record.spec.enqueued_at, record.run_at) == (high, high + SECOND)
    assert world.last(id).at == high
    world.tick(HOUR + SECOND)
    assert world.claim_ids(9) != []


def test_a_jobs_times_never_go_back(world: World) -> None:
    token = world.start()
    high = world.now
    world.tick(-MINUTE)
    ok(world.retry(token))
    record = world.record(token.job_id)
    assert (record.updated_at, record.run_at) == (high, high)
    assert [event.at for event in world.story(token.job_id)] == [high, high, high]


def test_a_job_ran_from_its_claim_to_its_end_whatever_the_clock_did_before(world: World) -> None:
    token = world.start()
    world.tick(10)
    ok(world.release(token))
    world.tick(-5)
    again = world.take().token
    world.tick(100)
    ok(world.succeed(again))
    *_, claimed, succeeded = world.story(token.job_id)
    assert succeeded.run_ms == succeeded.at - claimed.at
    assert world.record(token.job_id).history[-1].claimed_at == claimed.at


def test_a_clock_that_goes_back_frees_no_lease_and_takes_none(world: World) -> None:
    token = world.start()
    until = world.now + LEASE
    world.tick(-HOUR)
    assert world.sweep().counts.lost == 0
    assert world.renew(token) == Renewed(until, False)


def test_a_floor_survives_a_crash(world: World) -> None:
    if world.store.capabilities.clock_floor is not ClockFloor.STORE:
        pytest.skip("this store's clock has a floor per job")
    world.add()
    high = world.now
    world.tick(-HOUR)
    world.crash()
    assert world.record(world.add()).spec.enqueued_at == high


def test_a_hold_keeps_sweep_from_taking_leases(world: World) -> None:
    token = world.start()
    world.tick(HOUR)
    assert world.sweep(hold=MINUTE).counts.lost == 0
    world.tick(MINUTE - 1)
    assert world.sweep().counts.lost == 0
    assert world.state(token.job_id) is State.RUNNING
    world.tick(1)
    assert world.sweep().counts.lost == 1


def test_a_hold_keeps_drained_slots(world: World) -> None:
    token = world.start()
    ok(world.cancel(token.job_id))
    world.tick(HOUR)
    assert world.sweep(hold=MINUTE).counts.drained == 0
    world.tick(MINUTE)
    assert world.sweep().counts.drained == 1


def test_a_hold_doesnt_extend_leases(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE + 1)
    world.sweep(hold=MINUTE)
    assert world.succeed(token) == LeaseExpired()


def test_a_hold_doesnt_stop_expiry_or_claims(world: World) -> None:
    expired = world.add(expires=SECOND)
    world.tick(HOUR)
    assert world.sweep(hold=MINUTE).counts.expired == 1
    assert world.state(expired) is State.CANCELLED
    id = world.add()
    assert world.claim_ids() == [id]


def test_a_hold_is_one_clock_jump(world: World) -> None:
    world.sweep(hold=MINUTE)
    until = world.now + MINUTE
    world.tick(SECOND)
    world.sweep(hold=MINUTE)
    assert jumps(world) == [until]
    world.tick(MINUTE)
    world.sweep(hold=MINUTE)
    assert jumps(world) == [until, world.now + MINUTE]


def test_a_later_hold_is_added_and_a_shorter_one_isnt(world: World) -> None:
    world.start()
    world.tick(HOUR)
    world.sweep(hold=MINUTE)
    world.sweep(hold=SECOND)
    world.tick(MINUTE - 1)
    assert world.sweep().counts.lost == 0
    world.sweep(hold=MINUTE)
    world.tick(MINUTE - 1)
    assert world.sweep().counts.lost == 0
    world.tick(1)
    assert world.sweep().counts.lost == 1


def test_a_hold_is_kept_without_the_turn(world: World) -> None:
    world.start()
    world.tick(HOUR)
    world.sweep(hold=1)
    swept = world.sweep(10 * SECOND, hold=MINUTE)
    assert not swept.turn
    world.tick(MINUTE - 1)
    assert world.sweep().counts.lost == 0
    world.tick(1)
    assert world.sweep().counts.lost == 1


def test_a_hold_survives_a_crash(world: World) -> None:
    world.start()
    world.tick(HOUR)
    world.sweep(hold=MINUTE)
    world.crash()
    assert world.sweep().counts.lost == 0
