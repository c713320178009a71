"""Cancel wins (§8): both ways to call a job off, in every state."""

from tenure.domain.calls import AnyCommand, Cancel, Cancelled, CancelRequested, Renewed, RequestCancel, Settled
from tenure.domain.errors import JobCancelled, JobFinished, JobNotFound
from tenure.domain.job import Parent
from tenure.domain.states import State
from tenure.testing.conformance.kit import DEADLINE, LEASE, World, ok


def test_cancel_of_a_pending_job(world: World) -> None:
    id = world.add()
    assert world.cancel(id) == Cancelled(was_running=False)
    record = world.record(id)
    assert (record.state, record.reason, record.finished_at) == (State.CANCELLED, "cancelled", world.now)
    assert world.nothing()


def test_cancel_of_a_blocked_job(world: World) -> None:
    child = world.add(parents=(Parent(world.add()),))
    assert world.cancel(child) == Cancelled(was_running=False)
    assert world.state(child) is State.CANCELLED


def test_cancel_of_a_running_job_kills_its_token_at_once(world: World) -> None:
    token = world.start()
    assert world.cancel(token.job_id) == Cancelled(was_running=True)
    assert world.renew(token) == JobCancelled()
    assert world.succeed(token, b"1") == JobCancelled()
    view = world.get(token.job_id)
    assert (view.job.state, view.job.attempt, view.job.lease, view.result) == (State.CANCELLED, 1, None, None)


def test_cancel_of_an_expired_lease(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE + 1)
    assert world.cancel(token.job_id) == Cancelled(was_running=True)
    assert world.sweep().counts.lost == 0
    assert world.state(token.job_id) is State.CANCELLED


def test_cancel_of_an_ended_job(world: World) -> None:
    assert world.cancel(world.succeeded()) == JobFinished("succeeded")
    assert world.cancel(world.failed()) == JobFinished("failed")
    assert world.cancel(world.cancelled()) == JobFinished("cancelled")


def test_cancel_of_an_unknown_job(world: World) -> None:
    assert world.cancel(world.id()) == JobNotFound()
    assert world.request_cancel(world.id()) == JobNotFound()


def test_a_settle_before_cancel_wins(world: World) -> None:
    token = world.start()
    ok(world.succeed(token))
    assert world.cancel(token.job_id) == JobFinished("succeeded")
    assert world.state(token.job_id) is State.SUCCEEDED


def test_request_cancels_what_isnt_running(world: World) -> None:
    parent = world.add()
    child = world.add(parents=(Parent(parent),))
    assert world.request_cancel(child) == Cancelled(was_running=False)
    assert world.request_cancel(parent) == Cancelled(was_running=False)
    assert world.states([parent, child]) == [State.CANCELLED, State.CANCELLED]


def test_request_flags_a_running_job(world: World) -> None:
    token = world.start()
    assert world.request_cancel(token.job_id) == CancelRequested()
    record = world.record(token.job_id)
    assert (record.state, record.cancel_requested) == (State.RUNNING, True)
    assert world.renew(token) == Renewed(world.now + LEASE, True)


def test_request_again_changes_nothing(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    before = world.record(token.job_id)
    assert world.request_cancel(token.job_id) == CancelRequested()
    assert world.record(token.job_id) == before


def test_request_of_an_ended_job(world: World) -> None:
    assert world.request_cancel(world.succeeded()) == JobFinished("succeeded")
    assert world.request_cancel(world.cancelled()) == JobFinished("cancelled")


def test_after_a_request_success_still_wins(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    assert world.succeed(token) == Settled(State.SUCCEEDED)


def test_after_a_request_failure_still_wins(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    assert world.fail(token) == Settled(State.FAILED)


def test_after_a_request_a_retry_cancels(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    assert world.retry(token) == Settled(State.CANCELLED)
    assert world.state(token.job_id) is State.CANCELLED
    assert world.retry(token) == Settled(State.CANCELLED)


def test_after_a_request_a_spent_retry_cancels(world: World) -> None:
    token = world.start(max_attempts=1)
    ok(world.request_cancel(token.job_id))
    assert world.retry(token) == Settled(State.CANCELLED)


def test_after_a_request_a_release_cancels_and_refunds(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    assert world.release(token) == Settled(State.CANCELLED)
    record = world.record(token.job_id)
    assert (record.state, record.attempt) == (State.CANCELLED, 0)


def test_after_a_request_a_lost_lease_cancels(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    world.tick(DEADLINE + 1)
    assert world.sweep().counts.lost == 1
    record = world.record(token.job_id)
    assert (record.state, record.reason) == (State.CANCELLED, "lease_lost")


def test_after_a_request_cancel_is_at_once(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    assert world.cancel(token.job_id) == Cancelled(was_running=True)
    assert world.succeed(token) == JobCancelled()


def test_a_request_doesnt_outlive_its_job(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    ok(world.retry(token))
    world.sweep()
    assert world.nothing()


def test_commands_of_a_batch_are_independent(world: World) -> None:
    id, token = world.add("video"), world.start()
    commands: list[AnyCommand] = [
        Cancel(tenant="acme", id=world.id()),
        RequestCancel(tenant="acme", id=token.job_id),
        Cancel(tenant="acme", id=id),
        Cancel(tenant="acme", id=id),
    ]
    assert world.run(world.store.command(commands)) == [
        JobNotFound(),
        CancelRequested(),
        Cancelled(was_running=False),
        JobFinished("cancelled"),
    ]


def test_a_cancelled_job_is_a_state_and_stays_readable(world: World) -> None:
    id = world.cancelled(payload=b"[7]")
    view = world.get(id)
    assert (view.status, view.payload, view.job.version) == ("cancelled", b"[7]", 2)
