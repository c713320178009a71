"""Order inside a queue (§10), and the commands that move a job in it."""

from tenure.domain.calls import Reprioritised, Rescheduled
from tenure.domain.errors import JobFinished, JobNotFound, NotPending
from tenure.domain.job import Parent
from tenure.domain.names import HOUR, SECOND
from tenure.domain.states import Status
from tenure.testing.conformance.kit import DEADLINE, World, ids, ok


def test_first_in_first_out(world: World) -> None:
    jobs = world.add_many(5)
    assert world.claim_ids(5) == jobs


def test_arrival_counts_and_not_the_id(world: World) -> None:
    low, high = world.id(), world.id()
    world.add(id=high)
    world.add(id=low)
    assert world.claim_ids(2) == [high, low]


def test_higher_priority_first(world: World) -> None:
    low, normal, high, higher = (world.add(priority=priority) for priority in (-100, 0, 50, 100))
    assert world.claim_ids(4) == [higher, high, normal, low]


def test_then_the_earlier_run_at(world: World) -> None:
    later = world.add(run_at=world.now + 2)
    sooner = world.add(run_at=world.now + 1)
    world.tick(2)
    assert world.claim_ids(2) == [sooner, later]


def test_priority_beats_run_at(world: World) -> None:
    old = world.add()
    world.tick(HOUR)
    urgent = world.add(priority=1)
    assert world.claim_ids(2) == [urgent, old]


def test_a_past_run_at_is_now(world: World) -> None:
    first = world.add()
    id = world.add(run_at=world.now - HOUR)
    assert world.record(id).run_at == world.now
    assert world.claim_ids(2) == [first, id]


def test_a_job_is_due_at_its_millisecond(world: World) -> None:
    absolute, relative = world.add(run_at=world.now + SECOND), world.add("video", delay=SECOND)
    assert world.record(relative).run_at == world.now + SECOND
    assert world.status(absolute) is Status.SCHEDULED
    world.tick(SECOND - 1)
    assert world.nothing("mail", "video")
    world.tick(1)
    assert world.status(absolute) is Status.READY
    assert world.claim_ids(2, "mail", "video") == [absolute, relative]


def test_scheduled_jobs_dont_hide_ready_ones(world: World) -> None:
    world.add(delay=HOUR, priority=100)
    ready = world.add(priority=-100)
    assert world.claim_ids(2) == [ready]


def test_an_errored_retry_queues_behind(world: World) -> None:
    token = world.start()
    waiting = world.add()
    world.tick(1)
    ok(world.retry(token))
    assert world.claim_ids(2) == [waiting, token.job_id]


def test_a_released_job_keeps_its_place(world: World) -> None:
    token = world.start()
    waiting = world.add()
    world.tick(1)
    ok(world.release(token))
    assert world.claim_ids(2) == [token.job_id, waiting]


def test_lost_jobs_keep_their_places_and_mutual_order(world: World) -> None:
    jobs = world.add_many(3)
    world.claim(2)
    world.tick(DEADLINE + 1)
    late = world.add()
    world.sweep()
    assert world.claim_ids(4) == [*jobs, late]


def test_several_released_jobs_keep_their_mutual_order(world: World) -> None:
    jobs = world.add_many(4)
    taken = world.claim(3)
    assert ids(taken) == jobs[:3]
    for job in reversed(taken.jobs):
        ok(world.release(job.token))
    assert world.claim_ids(4) == jobs


def test_reprioritise_moves_a_job(world: World) -> None:
    first, second = world.add(), world.add()
    assert world.reprioritise(second, 10) == Reprioritised(10)
    assert world.record(second).priority == 10
    assert world.claim_ids(2) == [second, first]


def test_reschedule_postpones(world: World) -> None:
    id = world.add()
    assert world.reschedule(id, delay=SECOND) == Rescheduled(world.now + SECOND)
    assert world.nothing()
    world.tick(SECOND)
    assert world.claim_ids() == [id]


def test_reschedule_brings_forward(world: World) -> None:
    id = world.add(delay=HOUR)
    assert world.reschedule(id, run_at=world.now + 5) == Rescheduled(world.now + 5)
    world.tick(5)
    assert world.claim_ids() == [id]


def test_reschedule_to_now_makes_it_ready(world: World) -> None:
    id = world.add(delay=HOUR)
    assert world.reschedule(id, delay=0) == Rescheduled(world.now)
    assert world.claim_ids() == [id]


def test_only_pending_jobs_move(world: World) -> None:
    token = world.start()
    child = world.add(parents=(Parent(token.job_id),))
    assert world.reprioritise(token.job_id, 1) == NotPending("running")
    assert world.reschedule(token.job_id, delay=1) == NotPending("running")
    assert world.reprioritise(child, 1) == NotPending("blocked")
    assert world.reschedule(child, delay=1) == NotPending("blocked")


def test_ended_jobs_dont_move(world: World) -> None:
    id = world.succeeded()
    assert world.reprioritise(id, 1) == JobFinished("succeeded")
    assert world.reschedule(id, delay=1) == JobFinished("succeeded")
    assert world.reschedule(world.cancelled(), delay=1) == JobFinished("cancelled")


def test_unknown_jobs_dont_move(world: World) -> None:
    assert world.reprioritise(world.id(), 1) == JobNotFound()
    assert world.reschedule(world.id(), delay=1) == JobNotFound()


def test_a_released_job_with_an_expiry_is_taken_in_its_place(world: World) -> None:
    """It can't expire any more, so nothing but its place tells it from the others."""
    line = [world.add(), world.add(expires=HOUR), world.add(), world.add()]
    for held in world.claim(4).jobs:
        world.release(held.token)
    assert world.claim_ids(3) == line[:3]
    assert world.claim_ids(3) == line[3:]


def test_leases_of_different_length_are_taken_in_one_claim(world: World) -> None:
    ids_ = [world.add(lease=lease) for lease in (None, SECOND, None, SECOND)]
    assert world.claim_ids(3) == ids_[:3]
    assert world.claim_ids(3) == ids_[3:]
