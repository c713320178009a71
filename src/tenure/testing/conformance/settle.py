"""Settling (§4, §6): what each outcome does to the record."""

import pytest
from msgspec.structs import replace

from tenure.domain.calls import Enqueued, Fail, Release, Retry, Settled, Succeed
from tenure.domain.errors import GroupNeedsKeyed, IdConflict, JobNotFound, LeaseLost, ParentNotFound
from tenure.domain.job import Attempt, Failure, Parent
from tenure.domain.names import MINUTE, SECOND
from tenure.domain.states import Disposition, State, Status
from tenure.testing.conformance.kit import BOOM, World, ok


def test_succeed_ends_the_job(world: World) -> None:
    token = world.start()
    world.tick(1_500)
    assert world.succeed(token) == Settled(State.SUCCEEDED)
    record = world.record(token.job_id)
    assert (record.state, record.reason, record.finished_at) == (State.SUCCEEDED, "ok", world.now)
    assert (record.lease, record.attempt, record.lease_seq, record.version) == (None, 1, 1, 3)


def test_a_number_of_another_lease_among_successes_of_one_claim(world: World) -> None:
    """Each token is looked at for itself, also where the others of its claim are good (§5b)."""
    for _ in range(3):
        world.add()
    first, second, third = (one.token for one in world.claim(3).jobs)
    wrong = replace(second, lease_seq=second.lease_seq + 1)
    done = Settled(State.SUCCEEDED)
    assert world.settle_all((first, Succeed()), (wrong, Succeed()), (third, Succeed())) == [done, LeaseLost(), done]
    assert world.succeed(second) == done


def test_retry_waits_for_its_delay(world: World) -> None:
    token = world.start()
    world.tick(SECOND)
    assert world.retry(token, 7 * SECOND) == Settled(State.PENDING)
    record = world.record(token.job_id)
    assert (record.run_at, record.attempt, record.last_error) == (world.now + 7 * SECOND, 1, BOOM)
    assert world.status(token.job_id) is Status.RETRYING
    world.tick(7 * SECOND - 1)
    assert world.nothing()
    world.tick(1)
    assert world.take().job.attempt == 2


def test_retry_fails_the_job_when_attempts_are_spent(world: World) -> None:
    token = world.start(max_attempts=2)
    assert world.retry(token) == Settled(State.PENDING)
    again = world.take().token
    assert world.retry(again) == Settled(State.FAILED)
    record = world.record(token.job_id)
    assert (record.state, record.reason, record.attempt) == (State.FAILED, "exhausted", 2)
    assert (record.last_error, record.finished_at) == (BOOM, world.now)
    assert world.get(token.job_id).dead_letter is Disposition.OPEN


def test_fail_ends_the_job_with_attempts_left(world: World) -> None:
    token = world.start(max_attempts=5)
    assert world.settle(token, Fail(BOOM)) == Settled(State.FAILED)
    record = world.record(token.job_id)
    assert (record.state, record.reason, record.last_error) == (State.FAILED, "permanent", BOOM)
    assert world.get(token.job_id).dead_letter is Disposition.OPEN


def test_the_caller_names_the_reason(world: World) -> None:
    token = world.start(max_attempts=1)
    ok(world.settle(token, Fail(BOOM, "undecodable")))
    assert world.record(token.job_id).reason == "undecodable"


def test_the_last_error_survives_success(world: World) -> None:
    token = world.start()
    ok(world.settle(token, Retry(Failure("Timeout", "slow"), reason="timeout")))
    ok(world.succeed(world.take().token))
    assert world.record(token.job_id).last_error == Failure("Timeout", "slow")


def test_release_refunds_the_attempt(world: World) -> None:
    token = world.start(max_attempts=1)
    assert world.release(token) == Settled(State.PENDING)
    record = world.record(token.job_id)
    assert (record.attempt, record.lease_seq) == (0, 1)
    again = world.take()
    assert (again.job.attempt, again.token.lease_seq) == (1, 2)


def test_release_without_delay_is_not_counted(world: World) -> None:
    run_at = world.now
    token = world.start()
    world.tick(SECOND)
    ok(world.release(token))
    record = world.record(token.job_id)
    assert (record.run_at, record.releases) == (run_at, {})


def test_release_with_delay_waits_and_is_counted_per_reason(world: World) -> None:
    token = world.start()
    ok(world.release(token, SECOND, "snooze"))
    assert world.record(token.job_id).run_at == world.now + SECOND
    world.tick(SECOND)
    ok(world.release(world.take().token, SECOND, "unknown_type"))
    assert world.record(token.job_id).releases == {"snooze": 1, "unknown_type": 1}
    assert world.status(token.job_id) is Status.SCHEDULED, "the attempts were given back"


def test_one_release_too_many_fails_the_job(world: World) -> None:
    token = world.start()
    for _ in range(2):
        assert world.release(token, SECOND, "snooze", 2) == Settled(State.PENDING)
        world.tick(SECOND)
        token = world.take().token
    assert world.release(token, SECOND, "snooze", 2) == Settled(State.FAILED)
    record = world.record(token.job_id)
    assert (record.state, record.reason, record.attempt) == (State.FAILED, "snooze", 0)
    assert world.get(token.job_id).dead_letter is Disposition.OPEN


@pytest.mark.parametrize(("reason", "most"), [("unknown_type", 120), ("unknown_argument", 120), ("snooze", 100)])
def test_how_often_a_reason_may_release(world: World, reason: str, most: int) -> None:
    token = world.start()
    for _ in range(most):
        assert world.release(token, 1, reason) == Settled(State.PENDING)
        world.tick(1)
        token = world.take().token
    assert world.release(token, 1, reason) == Settled(State.FAILED)
    assert world.record(token.job_id).reason == reason


def test_reasons_are_counted_apart(world: World) -> None:
    """What one reason has used up leaves the others what they have."""
    token = world.start()
    for reason in ("unknown_type", "unknown_argument", "snooze"):
        for _ in range(2):
            assert world.release(token, 1, reason, 2) == Settled(State.PENDING)
            world.tick(1)
            token = world.take().token
    assert world.record(token.job_id).releases == {"unknown_type": 2, "unknown_argument": 2, "snooze": 2}
    assert world.release(token, 1, "unknown_argument", 2) == Settled(State.FAILED)


def test_shutdowns_never_add_up(world: World) -> None:
    token = world.start()
    for _ in range(3):
        assert world.release(token, 0, "snooze", 1) == Settled(State.PENDING)
        token = world.take().token
    assert world.release(token, 1, "snooze", 1) == Settled(State.PENDING)


def test_history_tells_each_lease(world: World) -> None:
    started = world.now
    token = world.start()
    world.tick(SECOND)
    ok(world.settle(token, Retry(BOOM, reason="timeout")))
    again = world.take(worker="w2").token
    world.tick(2 * SECOND)
    ok(world.succeed(again))
    assert world.record(token.job_id).history == (
        Attempt(1, 1, "w1", started, started + SECOND, "retry_scheduled", "timeout", BOOM),
        Attempt(2, 2, "w2", started + SECOND, started + 3 * SECOND, "succeeded", "ok", None),
    )


def test_history_keeps_the_last_twenty(world: World) -> None:
    token = world.start(max_attempts=100)
    for _ in range(22):
        ok(world.retry(token))
        token = world.take().token
    assert [entry.lease_seq for entry in world.record(token.job_id).history] == list(range(3, 23))


def test_settles_of_a_batch_are_independent(world: World) -> None:
    first, second = world.start(), world.start()
    ok(world.cancel(first.job_id))
    replies = world.settle_all((first, Release()), (second, Retry(BOOM)), (second, Retry(BOOM)))
    assert str(replies[0]) == "the job was cancelled"
    assert replies[1:] == [Settled(State.PENDING), Settled(State.PENDING)]


def test_terminal_is_terminal(world: World) -> None:
    token = world.start()
    ok(world.fail(token))
    before = world.record(token.job_id)
    world.tick(MINUTE)
    world.retry(token)
    world.release(token)
    world.cancel(token.job_id)
    world.request_cancel(token.job_id)
    world.reschedule(token.job_id, delay=0)
    world.reprioritise(token.job_id, 5)
    world.sweep()
    assert world.record(token.job_id) == before
    assert world.nothing()


def test_a_success_carries_new_jobs(world: World) -> None:
    token = world.start()
    child = world.job(payload=b"[1]")
    assert world.succeed(token, None, child) == Settled(State.SUCCEEDED)
    assert world.get(child.id).payload == b"[1]"
    assert world.claim_ids(2) == [child.id]


def test_carried_jobs_pass_the_depth_limit(world: World) -> None:
    token = world.start()
    world.configure(max_depth=0)
    children = [world.job(), world.job()]
    assert world.succeed(token, None, *children) == Settled(State.SUCCEEDED)
    assert world.claim_ids(3) == [child.id for child in children]


def test_a_carried_job_with_a_held_key_is_a_duplicate(world: World) -> None:
    held = world.add("video", key="k")
    token = world.start()
    same, other = world.job("video", key="k"), world.job("video", key="k", payload=b"[]")
    assert world.succeed(token, None, same, other) == Settled(State.SUCCEEDED)
    assert world.look(same.id) == world.look(other.id) == JobNotFound()
    assert world.claim_ids(3, "video") == [held]


def test_a_refused_carried_job_refuses_the_settle(world: World) -> None:
    taken = world.add("video")
    token = world.start()
    good = world.job()
    conflict = world.job("video", id=taken, payload=b"[]")
    assert world.succeed(token, b"1", good, conflict) == IdConflict()
    assert world.succeed(token, b"1", good, world.job(group="g")) == GroupNeedsKeyed("mail")
    orphan = world.job(parents=(Parent(missing := world.id()),))
    assert world.succeed(token, b"1", good, orphan) == ParentNotFound(missing)
    assert world.state(token.job_id) is State.RUNNING
    assert world.look(good.id) == JobNotFound()
    assert world.get(token.job_id).result is None
    assert world.succeed(token, None, good) == Settled(State.SUCCEEDED)


def test_a_repeated_success_creates_nothing_twice(world: World) -> None:
    token = world.start()
    child = world.job()
    ok(world.succeed(token, None, child))
    ok(world.succeed(token, None, child, world.job()))
    assert world.claim_ids(3) == [child.id]
    assert world.put(child) == Enqueued(child.id)
