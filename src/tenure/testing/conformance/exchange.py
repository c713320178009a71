"""Exchange (§5b): settles in item order, then a claim that sees what they freed."""

import msgspec

from tenure.domain.calls import Release, Retry, Settled, Succeed
from tenure.domain.errors import JobCancelled, JobFinished, JobNotFound, LeaseLost, StoreFrozen
from tenure.domain.job import Token
from tenure.domain.names import HOUR
from tenure.domain.states import Mode, State
from tenure.testing.conformance.kit import BOOM, World, ids, ok


def test_settles_then_claims(world: World) -> None:
    first, second = world.start(), world.start()
    waiting = world.add()
    answer = world.exchange([(first, Succeed(b"1")), (second, Retry(BOOM, HOUR))], world.request(5))
    assert answer.settled == [Settled(State.SUCCEEDED), Settled(State.PENDING)]
    assert ids(ok(answer.claimed)) == [waiting]


def test_the_claim_sees_the_freed_slot(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_limit=1)
    token = world.start(group="g")
    waiting = world.add(group="g")
    answer = world.exchange([(token, Succeed())], world.request(5))
    assert ids(ok(answer.claimed)) == [waiting]


def test_the_claim_may_take_what_was_released(world: World) -> None:
    token = world.start()
    answer = world.exchange([(token, Release())], world.request(1))
    (job,) = ok(answer.claimed).jobs
    assert (job.token.job_id, job.token.lease_seq) == (token.job_id, 2)


def test_a_refused_item_changes_nothing_for_others(world: World) -> None:
    good, cancelled = world.start(), world.start()
    ok(world.cancel(cancelled.job_id))
    unknown = Token("acme", world.id(), 1, bytes(16))
    stale = msgspec.structs.replace(good, secret=bytes(16))
    foreign = msgspec.structs.replace(good, tenant="bolt")
    waiting = world.add()
    answer = world.exchange(
        [(unknown, Succeed()), (stale, Succeed()), (foreign, Succeed()), (cancelled, Succeed()), (good, Succeed())],
        world.request(5),
    )
    assert answer.settled == [JobNotFound(), LeaseLost(), JobNotFound(), JobCancelled(), Settled(State.SUCCEEDED)]
    assert ids(ok(answer.claimed)) == [waiting]


def test_of_two_items_with_one_token_the_second_sees_the_first(world: World) -> None:
    token = world.start()
    answer = world.exchange([(token, Succeed(b"1")), (token, Succeed(b"2")), (token, Retry(BOOM))], world.request(1))
    assert answer.settled == [Settled(State.SUCCEEDED), Settled(State.SUCCEEDED), JobFinished("succeeded")]
    result = world.get(token.job_id).result
    assert result is not None
    assert result.body == b"1"


def test_without_settles_it_is_a_claim(world: World) -> None:
    id = world.add()
    answer = world.exchange([], world.request(1))
    assert (answer.settled, ids(ok(answer.claimed))) == ([], [id])


def test_with_nothing_to_claim_it_is_a_settle(world: World) -> None:
    token = world.start()
    answer = world.exchange([(token, Succeed())], world.request(1))
    assert answer.settled == [Settled(State.SUCCEEDED)]
    assert ok(answer.claimed).jobs == ()


def test_carried_jobs_can_be_claimed_at_once(world: World) -> None:
    token = world.start()
    child = world.job()
    answer = world.exchange([(token, Succeed(jobs=(child,)))], world.request(1))
    assert ids(ok(answer.claimed)) == [child.id]


def test_sent_again_it_answers_the_same(world: World) -> None:
    token = world.start()
    world.add_many(3)
    request = world.request(2)
    first = world.exchange([(token, Succeed())], request)
    second = world.exchange([(token, Succeed())], request)
    assert second.settled == first.settled
    assert ok(second.claimed).jobs == ok(first.claimed).jobs
    assert len(world.claim(9).jobs) == 1


def test_a_frozen_store_settles_but_gives_nothing(world: World) -> None:
    token = world.start()
    world.add()
    world.freeze()
    answer = world.exchange([(token, Succeed())], world.request(1))
    assert answer.settled == [Settled(State.SUCCEEDED)]
    assert answer.claimed == StoreFrozen()
