"""Tracebacks (§6): kept apart from the record by lease, the last 20 a job, and gone with it."""

import pytest

from tenure.domain.calls import Fail, JobFilter, Outcome, Reading, Retry, Settled
from tenure.domain.errors import InvalidValue, JobNotFound, LeaseLost
from tenure.domain.job import Token, Traceback
from tenure.domain.names import DAY, MAX_BATCH, MAX_MESSAGE, MAX_TRACEBACK
from tenure.domain.states import State
from tenure.testing.conformance.freeze import kept, move
from tenure.testing.conformance.kit import ACME, BOLT, BOOM, DEADLINE, TRACE, World, ok, only

OTHER = Traceback("shop.errors.Declined", "no", "é" * (MAX_TRACEBACK // 2))


def again(traceback: Traceback | None = TRACE, delay: int = 0) -> Outcome:
    return Retry(BOOM, delay, traceback=traceback)


def fail_once(world: World, traceback: Traceback | None = TRACE) -> Token:
    """The next job fails, and will be tried again."""
    token = world.take().token
    assert world.settle(token, again(traceback)) == Settled(State.PENDING)
    return token


def test_a_retry_and_a_failure_keep_theirs_by_lease(world: World) -> None:
    id = world.add()
    fail_once(world)
    assert world.tracebacks(id) == {1: TRACE}
    assert world.settle(world.take().token, Fail(BOOM, traceback=OTHER)) == Settled(State.FAILED)
    assert list(world.tracebacks(id).items()) == [(1, TRACE), (2, OTHER)]


def test_the_last_attempt_keeps_its_own(world: World) -> None:
    token = world.start(max_attempts=1)
    assert world.settle(token, again()) == Settled(State.FAILED)
    assert world.tracebacks(token.job_id) == {1: TRACE}


def test_a_failure_of_a_job_that_was_asked_to_end_keeps_its_own(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    assert world.settle(token, again()) == Settled(State.CANCELLED)
    assert world.tracebacks(token.job_id) == {1: TRACE}


def test_only_who_asks_reads_them(world: World) -> None:
    id = world.add()
    fail_once(world)
    assert world.get(id).tracebacks == ()
    assert ok(world.look(id, reading=Reading(explain=True))).tracebacks == ()
    page = world.run(world.store.query(JobFilter()))
    assert [view.tracebacks for view in page.jobs] == [()]


def test_an_attempt_without_one_keeps_none(world: World) -> None:
    id = world.add(max_attempts=9)
    fail_once(world, None)
    ok(world.release(world.take().token))
    world.take()
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.tracebacks(id) == {}
    fail_once(world)
    assert world.tracebacks(id) == {4: TRACE}


def test_they_survive_a_success(world: World) -> None:
    id = world.add()
    fail_once(world)
    ok(world.succeed(world.take().token))
    assert world.tracebacks(id) == {1: TRACE}


def test_a_refused_settle_keeps_none(world: World) -> None:
    late, replaced, called_off = world.start(), world.start("video", max_attempts=9), world.start("third")
    ok(world.cancel(called_off.job_id))
    ok(world.release(replaced))
    newer = world.take("video").token
    world.tick(DEADLINE + 1)
    for token in (late, replaced, called_off, newer):
        world.settle(token, again())
        assert world.tracebacks(token.job_id) == {}


def test_the_first_call_holds(world: World) -> None:
    token = world.start()
    assert world.settle(token, again()) == world.settle(token, again(OTHER)) == Settled(State.PENDING)
    assert world.tracebacks(token.job_id) == {1: TRACE}
    world.take()
    assert world.settle(token, again(OTHER)) == LeaseLost()
    assert world.tracebacks(token.job_id) == {1: TRACE}


def test_of_two_settles_in_one_call_the_first_holds(world: World) -> None:
    token = world.start()
    world.settle_all((token, again()), (token, again(OTHER)), (token, Fail(BOOM, traceback=OTHER)))
    assert world.tracebacks(token.job_id) == {1: TRACE}


def test_the_last_twenty_are_kept(world: World) -> None:
    id, other = world.add(max_attempts=100), world.add("video", max_attempts=100)
    ok(world.settle(world.take("video").token, again()))
    for _ in range(23):
        fail_once(world)
    assert list(world.tracebacks(id)) == list(range(4, 24))
    assert world.tracebacks(other) == {1: TRACE}


def test_leases_that_ended_otherwise_push_none_out(world: World) -> None:
    """Twenty are kept, however many leases there were between them."""
    id = world.add(max_attempts=100)
    fail_once(world)
    for _ in range(22):
        ok(world.release(world.take().token))
    fail_once(world, OTHER)
    assert world.tracebacks(id) == {1: TRACE, 24: OTHER}


def test_many_at_once_in_the_largest_size(world: World) -> None:
    ids = world.add_many(200)
    claimed = world.claim(200)
    world.settle_all(*((job.token, again(OTHER)) for job in claimed.jobs))
    views = world.run(world.store.get([(ACME, id) for id in ids][:MAX_BATCH], Reading(tracebacks=True)))
    assert {ok(view).tracebacks for view in views} == {((1, OTHER),)}


def test_a_foreign_job_shows_none(world: World) -> None:
    token = world.start()
    ok(world.settle(token, again()))
    assert world.look(token.job_id, BOLT, Reading(tracebacks=True)) == JobNotFound()


def test_the_same_id_in_two_tenants_keeps_its_own(world: World) -> None:
    id = world.add()
    world.add(tenant=BOLT, id=id)
    ok(world.settle(only(world.claim(1, tenants=(ACME,)).jobs).token, again()))
    ok(world.settle(only(world.claim(1, tenants=(BOLT,)).jobs).token, again(OTHER)))
    assert (world.tracebacks(id), world.tracebacks(id, BOLT)) == ({1: TRACE}, {1: OTHER})


def test_a_replay_begins_without(world: World) -> None:
    token = world.start()
    ok(world.settle(token, Fail(BOOM, traceback=TRACE)))
    new_id = world.replayed(token.job_id)
    assert world.tracebacks(new_id) == {}
    assert world.tracebacks(token.job_id) == {1: TRACE}


def test_they_go_with_their_job(world: World) -> None:
    """An id is new after purge: nothing of the job before may answer for it."""
    id = world.add()
    fail_once(world)
    ok(world.succeed(world.take().token))
    stays = world.add("video")
    ok(world.settle(world.take("video").token, again()))
    world.tick(9 * DAY)
    assert [purged.count for purged in world.purge_all()] == [1]
    world.add(id=id)
    assert world.tracebacks(id) == {}
    assert world.tracebacks(stays) == {1: TRACE}
    world.freeze()
    assert [item.kind for item in world.dump()].count("traceback") == 1


def test_they_survive_a_crash(world: World) -> None:
    token = world.start()
    ok(world.settle(token, again()))
    world.crash()
    assert world.tracebacks(token.job_id) == {1: TRACE}


def test_they_move_with_their_job(world: World) -> None:
    id = world.add(max_attempts=100)
    for _ in range(21):
        fail_once(world)
    before = world.tracebacks(id)
    other = move(world)
    assert other.tracebacks(id) == before
    world.thaw()
    ok(other.settle(other.take().token, again(OTHER)))
    assert list(other.tracebacks(id)) == list(range(3, 23))


def test_a_load_that_is_repeated_loses_none(world: World) -> None:
    token = world.start()
    ok(world.settle(token, again()))
    other = world.another()
    world.freeze()
    other.freeze()
    items = world.dump()
    assert world.dump(limit=1) == items
    other.load(items)
    other.load([item for item in items if item.kind == "job"])
    assert kept(other.dump()) == kept(items)


def test_a_frozen_store_keeps_those_of_what_ends(world: World) -> None:
    token = world.start()
    world.freeze()
    ok(world.settle(token, again()))
    assert world.tracebacks(token.job_id) == {1: TRACE}


@pytest.mark.parametrize(
    ("path", "message", "text", "wrong"),
    [
        ("ValueError", "", "x" * (MAX_TRACEBACK + 1), "traceback has 16385 bytes: at most 16384"),
        ("ValueError", "", "é" * (MAX_TRACEBACK // 2) + "x", "traceback has 16385 bytes"),
        ("ValueError", "x" * (MAX_MESSAGE + 1), "", "exception message has 1025 bytes"),
        ("", "", "", "class path of an exception"),
        ("x" * 257, "", "", "class path of an exception has 257 bytes"),
        ("ValueError", "", "\ud800", "can't be written as UTF-8"),
        ("ValueError", "", b"bytes", "give text, not bytes"),
    ],
)
def test_what_doesnt_fit_is_refused_at_the_door(path: str, message: str, text: str, wrong: str) -> None:
    with pytest.raises(InvalidValue, match=wrong):
        Traceback(path, message, text)
