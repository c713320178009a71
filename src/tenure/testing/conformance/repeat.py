"""Unknown outcomes (§5a): every mutating call sent again gives the same answer and changes nothing."""

import asyncio

import pytest

from tenure.domain.calls import Claimed, Document, Enqueued, Replayed, Settled, Stored
from tenure.domain.errors import JobNotFound, Refused
from tenure.domain.job import NewJob
from tenure.domain.names import DAY, HOUR
from tenure.domain.states import State
from tenure.testing.conformance.kit import LEASE, World, ids, ok


def test_enqueue(world: World) -> None:
    job = world.job(delay=HOUR)
    assert world.put(job) == Enqueued(job.id)
    before = world.get(job.id), world.events()
    world.tick(HOUR)
    assert world.put(job) == Enqueued(job.id)
    assert world.get(job.id).job == before[0].job
    assert world.events() == before[1]


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
def test_enqueue_whatever_became_of_the_job(world: World, end: str) -> None:
    job = world.job(key="k")
    getattr(world, end)(id=job.id, key="k")
    assert world.put(job) == Enqueued(job.id, created=True, state=None, result=None)
    assert world.state(job.id) is State(end)
    assert world.nothing()


def test_enqueue_twice_in_one_batch(world: World) -> None:
    job = world.job()
    assert world.enqueue(job, job) == [Enqueued(job.id), Enqueued(job.id)]
    assert world.claim_ids(9) == [job.id]


def test_a_caller_that_gives_up_harms_nobody(world: World) -> None:
    """Ten times, because a store may be done with all calls of one before any of them is taken back."""
    jobs = [world.job() for _ in range(50)]

    async def give_up(some: list[NewJob]) -> None:
        calls = [asyncio.create_task(world.store.enqueue([job])) for job in some]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def again() -> list[Enqueued | Refused]:
        return await asyncio.wait_for(world.store.enqueue(jobs), 30)

    for start in range(0, len(jobs), 5):
        world.run(give_up(jobs[start : start + 5]))
    assert world.run(again()) == [Enqueued(job.id) for job in jobs]
    assert sorted(world.claim_ids(99)) == sorted(job.id for job in jobs)


def test_enqueue_after_a_crash(world: World) -> None:
    job = world.job()
    ok(world.put(job))
    world.crash()
    assert world.put(job) == Enqueued(job.id)
    assert world.claim_ids(9) == [job.id]


def test_claim(world: World) -> None:
    jobs = world.add_many(5)
    request = world.request(2)
    first = world.ask(request)
    second = world.ask(request)
    assert ids(first) == jobs[:2]
    assert second.jobs == first.jobs
    assert second.cursor == request.cursor
    assert [world.record(id).attempt for id in jobs] == [1, 1, 0, 0, 0]


def test_claim_answers_by_tenant_and_id(world: World) -> None:
    low, high = world.id(), world.id()
    world.add(tenant="bolt", id=low)
    world.add(id=high)
    world.add(id=low)
    request = world.request(3)
    assert [job.token.ref for job in world.ask(request).jobs] == [("acme", high), ("bolt", low), ("acme", low)]
    assert [job.token.ref for job in world.ask(request).jobs] == [("acme", low), ("acme", high), ("bolt", low)]


def test_claim_answers_only_what_still_runs(world: World) -> None:
    world.add_many(4)
    request = world.request(3)
    first, second, third = (job.token for job in world.ask(request).jobs)
    ok(world.succeed(first))
    ok(world.cancel(second.job_id))
    assert ids(world.ask(request)) == [third.job_id]


def test_claim_with_nothing_left_running_takes_anew(world: World) -> None:
    first, second = world.add_many(2)
    request = world.request(1)
    token = world.ask(request).jobs[0].token
    ok(world.succeed(token))
    assert (token.job_id, ids(world.ask(request))) == (first, [second])


def test_claim_on_the_last_attempt_spends_it_once(world: World) -> None:
    id = world.add(max_attempts=1)
    request = world.request(1)
    assert ids(world.ask(request)) == ids(world.ask(request)) == [id]
    assert world.record(id).attempt == 1


def test_claim_after_a_crash(world: World) -> None:
    world.add_many(2)
    request = world.request(1)
    first = world.ask(request)
    world.crash()
    assert world.ask(request).jobs == first.jobs


def test_claim_tells_a_renewed_lease(world: World) -> None:
    world.add()
    request = world.request(1)
    token = world.ask(request).jobs[0].token
    world.tick(1_000)
    ok(world.renew(token))
    again: Claimed = world.ask(request)
    lease = again.jobs[0].job.lease
    assert lease is not None
    assert lease.until == world.now + LEASE


def test_renew(world: World) -> None:
    token = world.start()
    assert world.renew(token) == world.renew(token)


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("succeed", State.SUCCEEDED),
        ("retry", State.PENDING),
        ("fail", State.FAILED),
        ("release", State.PENDING),
    ],
)
def test_settle(world: World, end: str, state: State) -> None:
    token = world.start()
    assert getattr(world, end)(token) == Settled(state)
    before = world.get(token.job_id), world.events()
    world.tick(1)
    assert getattr(world, end)(token) == Settled(state)
    assert (world.get(token.job_id), world.events()) == before


def test_settle_answers_the_state_it_led_to_then(world: World) -> None:
    token = world.start(max_attempts=1)
    assert world.retry(token) == Settled(State.FAILED)
    assert world.retry(token) == Settled(State.FAILED)


def test_settle_after_a_crash(world: World) -> None:
    token = world.start()
    ok(world.succeed(token, b"1"))
    world.crash()
    assert world.succeed(token, b"1") == Settled(State.SUCCEEDED)


def test_the_first_calls_data_holds(world: World) -> None:
    token = world.start()
    ok(world.retry(token, 1_000))
    run_at = world.record(token.job_id).run_at
    assert world.retry(token, 9_000) == Settled(State.PENDING)
    assert world.record(token.job_id).run_at == run_at


def test_reschedule_and_reprioritise(world: World) -> None:
    id = world.add()
    assert world.reschedule(id, run_at=world.now + 5) == world.reschedule(id, run_at=world.now + 5)
    assert world.reprioritise(id, 5) == world.reprioritise(id, 5)
    assert (world.record(id).priority, world.record(id).run_at) == (5, world.now + 5)


def test_replay(world: World) -> None:
    id, new_id = world.failed(), world.id()
    assert world.replay(id, new_id) == world.replay(id, new_id) == Replayed(new_id, created=True)
    assert world.claim_ids(9) == [new_id]


def test_replay_after_its_new_job_was_purged(world: World) -> None:
    id, new_id = world.failed(), world.id()
    ok(world.replay(id, new_id))
    world.cancel(new_id)
    world.tick(9 * DAY)
    assert [purged.state for purged in world.purge_all()] == [State.CANCELLED]
    assert world.replay(id, new_id) == Replayed(new_id, created=True)
    assert world.replay(id, new_id, again=True) == Replayed(new_id, created=True)
    assert world.look(new_id) == JobNotFound()


def test_replay_again_on_demand(world: World) -> None:
    id = world.failed()
    first, second = world.replayed(id), world.id()
    assert world.replay(id, second, again=True) == world.replay(id, second, again=True) == Replayed(second)
    assert world.claim_ids(9) == [first, second]


def test_discard(world: World) -> None:
    id = world.failed()
    assert world.discard(id) == world.discard(id)
    assert world.kinds(id) == "enqueued claimed failed discarded"


def test_configure(world: World) -> None:
    assert world.try_configure(limit=3) == world.try_configure(limit=3)


def test_compare_and_set(world: World) -> None:
    document = Document(tenant="acme", kind="schedule", name="nightly", body=b"1")
    assert world.write(document, expect=0) == world.write(document, expect=0) == Stored(1)


def test_delete_a_document(world: World) -> None:
    world.configure(limit=3)
    gone = Document(tenant="*", kind="queue", name="mail", body=None)
    assert world.write(gone) == world.write(gone)


def test_purged_ids_are_new(world: World) -> None:
    job = world.job()
    world.succeeded(id=job.id)
    world.tick(9 * DAY)
    world.purge()
    assert world.look(job.id) == JobNotFound()
    assert world.put(job) == Enqueued(job.id)
    assert world.claim_ids() == [job.id]
