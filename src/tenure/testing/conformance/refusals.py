"""Refusals of a token (§5), in their order."""

import msgspec
import pytest

from tenure.domain.calls import Fail, Outcome, Release, Retry, Settled, Succeed
from tenure.domain.errors import JobCancelled, JobFinished, JobNotFound, LeaseExpired, LeaseLost
from tenure.domain.job import Token
from tenure.domain.states import State
from tenure.testing.conformance.kit import BOOM, DEADLINE, World, ok

OUTCOMES = [Succeed(), Retry(BOOM), Fail(BOOM), Release()]
tagged = pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.tag)


@tagged
def test_an_unknown_job(world: World, outcome: Outcome) -> None:
    assert world.settle(Token("acme", world.id(), 1, world.claim_id()), outcome) == JobNotFound()


@tagged
def test_a_foreign_job(world: World, outcome: Outcome) -> None:
    token = world.start()
    assert world.settle(msgspec.structs.replace(token, tenant="bolt"), outcome) == JobNotFound()
    assert world.state(token.job_id) is State.RUNNING


@tagged
def test_another_secret(world: World, outcome: Outcome) -> None:
    token = world.start()
    assert world.settle(msgspec.structs.replace(token, secret=bytes(16)), outcome) == LeaseLost()
    assert world.state(token.job_id) is State.RUNNING


@tagged
def test_an_older_lease(world: World, outcome: Outcome) -> None:
    old = world.start()
    ok(world.release(old))
    new = world.take().token
    assert world.settle(old, outcome) == LeaseLost()
    assert world.record(new.job_id).lease_seq == 2


@tagged
def test_a_lease_that_was_never_given(world: World, outcome: Outcome) -> None:
    token = world.start()
    assert world.settle(msgspec.structs.replace(token, lease_seq=2), outcome) == LeaseLost()


def test_a_job_never_claimed(world: World) -> None:
    id = world.add()
    assert world.succeed(Token("acme", id, 0, bytes(16))) == LeaseLost()
    assert world.state(id) is State.PENDING


@tagged
def test_a_cancelled_job(world: World, outcome: Outcome) -> None:
    token = world.start()
    ok(world.cancel(token.job_id))
    assert world.settle(token, outcome) == JobCancelled()
    assert world.renew(token) == JobCancelled()


@tagged
def test_cancelled_comes_before_expired(world: World, outcome: Outcome) -> None:
    token = world.start()
    ok(world.cancel(token.job_id))
    world.tick(DEADLINE + 1)
    assert world.settle(token, outcome) == JobCancelled()


def test_another_outcome_of_a_succeeded_job(world: World) -> None:
    token = world.start()
    ok(world.succeed(token))
    for outcome in (Retry(BOOM), Fail(BOOM), Release()):
        assert world.settle(token, outcome) == JobFinished("succeeded")
    assert world.renew(token) == JobFinished("succeeded")


def test_another_outcome_of_a_failed_job(world: World) -> None:
    token = world.start()
    ok(world.fail(token))
    for outcome in (Succeed(), Retry(BOOM), Release()):
        assert world.settle(token, outcome) == JobFinished("failed")
    assert world.renew(token) == JobFinished("failed")


def test_a_job_that_failed_by_its_lost_lease(world: World) -> None:
    token = world.start(max_attempts=1)
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.fail(token) == JobFinished("failed"), "the token didn't settle: its lease was lost"


def test_another_outcome_after_a_retry(world: World) -> None:
    token = world.start()
    ok(world.retry(token))
    for outcome in (Succeed(), Fail(BOOM), Release()):
        assert world.settle(token, outcome) == LeaseLost()
    assert world.renew(token) == LeaseLost()


def test_a_lost_lease_not_yet_claimed_again(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.retry(token) == LeaseLost()
    assert world.renew(token) == LeaseLost()


def test_an_expired_lease(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE + 1)
    assert world.succeed(token) == LeaseExpired()


def test_settled_comes_before_cancelled(world: World) -> None:
    token = world.start()
    ok(world.retry(token))
    ok(world.cancel(token.job_id))
    assert world.retry(token) == Settled(State.PENDING)
    assert world.succeed(token) == JobCancelled()


def test_settled_comes_before_expired(world: World) -> None:
    token = world.start()
    ok(world.succeed(token))
    world.tick(10 * DEADLINE)
    assert world.succeed(token) == Settled(State.SUCCEEDED)


def test_a_retry_after_a_new_claim(world: World) -> None:
    token = world.start()
    ok(world.retry(token))
    world.take()
    assert world.retry(token) == LeaseLost()


def test_a_refusal_writes_nothing(world: World) -> None:
    token = world.start()
    ok(world.succeed(token, b"1"))
    before = world.get(token.job_id), world.events()
    world.fail(token)
    world.renew(token)
    world.succeed(msgspec.structs.replace(token, secret=bytes(16)), b"2")
    assert (world.get(token.job_id), world.events()) == before
