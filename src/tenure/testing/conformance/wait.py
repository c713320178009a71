"""Waiting: `wake_after` tells what time alone will change, hints tell the rest (§11a.7).

A hint reaches who waits in the process that made the change, and who waits in another: each test here asks for both.
"""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tenure.domain.calls import Document
from tenure.domain.job import Parent
from tenure.domain.names import HOUR, MINUTE, SECOND
from tenure.domain.rate import Rate
from tenure.domain.states import Mode
from tenure.domain.store import CANCELS, FEED_TOPIC, ClockFloor, document_topic, job_topic, queue_topic
from tenure.testing.conformance.kit import DEADLINE, World, ok


def test_no_jobs_no_time(world: World) -> None:
    assert world.claim(5).wake_after is None


def test_the_next_run_at(world: World) -> None:
    world.add(delay=2 * SECOND)
    world.add(delay=SECOND)
    assert world.claim(5).wake_after == SECOND


def test_all_that_was_asked_for_needs_no_time(world: World) -> None:
    world.add()
    world.add(delay=SECOND)
    assert world.claim(1).wake_after is None


def test_fewer_than_asked_for(world: World) -> None:
    world.add()
    world.add(delay=SECOND)
    assert world.claim(2).wake_after == SECOND


def test_other_queues_and_tenants_dont_count(world: World) -> None:
    world.add("video", delay=SECOND)
    world.add(tenant="bolt", delay=SECOND)
    assert world.claim(1, "mail", tenants=("acme",)).wake_after is None


def test_pause_gives_no_time(world: World) -> None:
    world.add(delay=SECOND)
    world.configure(paused=True)
    assert world.claim().wake_after is None
    world.configure()
    world.configure_tenant(paused=True)
    assert world.claim().wake_after is None


def test_a_full_limit_gives_no_time(world: World) -> None:
    world.configure(limit=1)
    world.start()
    world.add()
    assert world.claim().wake_after is None


def test_blocked_jobs_give_no_time(world: World) -> None:
    token = world.start()
    world.add(delay=SECOND, parents=(Parent(token.job_id),))
    assert world.claim().wake_after is None


def test_a_retry_gives_its_delay(world: World) -> None:
    ok(world.retry(world.start(), 3 * SECOND))
    assert world.claim().wake_after == 3 * SECOND


def test_a_bucket_that_held_a_due_job(world: World) -> None:
    world.configure(rate=Rate(3, SECOND))
    world.add_many(2)
    assert world.claim(2).wake_after == 334


def test_a_bucket_with_nothing_due_gives_no_time(world: World) -> None:
    world.configure(rate=Rate(1, MINUTE))
    world.add()
    assert world.claim(2).wake_after is None


def test_a_group_bucket_that_held_a_due_job(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_rate=Rate(1, MINUTE))
    world.add_many(2, group="g")
    assert world.claim(2).wake_after == MINUTE


def test_the_smaller_of_both(world: World) -> None:
    world.configure(rate=Rate(1, MINUTE))
    world.add_many(2)
    world.add(delay=SECOND)
    world.add("video", delay=HOUR)
    assert world.claim(9, "mail", "video").wake_after == SECOND
    world.tick(MINUTE - 5)
    assert world.claim(9, "mail", "video").wake_after == 5


def test_expired_jobs_give_no_time(world: World) -> None:
    world.configure(rate=Rate(1, MINUTE))
    world.start()
    world.add(expires=SECOND)
    world.tick(SECOND)
    assert world.claim().wake_after is None


def test_an_ordered_head_in_back_off_gives_its_delay(world: World) -> None:
    world.configure(mode=Mode.KEYED, ordered=True)
    token = world.start(group="g")
    world.add(group="g")
    ok(world.retry(token, 5 * SECOND))
    assert world.claim().wake_after == 5 * SECOND


def test_a_job_that_only_seemed_due_waits_again(world: World) -> None:
    if world.store.capabilities.clock_floor is not ClockFloor.STORE:
        pytest.skip("this store's clock has a floor per job")
    world.configure(paused=True)
    world.add(delay=SECOND)
    world.tick(SECOND)
    assert world.nothing()  # paused: nothing is written, so time may still go back
    world.tick(-SECOND)
    world.configure(paused=False)
    assert world.claim().wake_after == SECOND


PATIENCE = 5.0
QUIET = 0.1
"""How long a client that begins to listen hears nothing before a test begins: it may be told first to look at all."""


def hinted(world: World, topic: str, change: Callable[[], object]) -> bool:
    """Whether waits for the topic that began before the change were told of it: one here, one as of another process."""
    elsewhere = world.elsewhere()

    async def begin() -> list[asyncio.Task[bool]]:
        while elsewhere is not world.store and await elsewhere.wait([topic], QUIET):
            pass
        waiters = [asyncio.create_task(store.wait([topic], PATIENCE)) for store in (world.store, elsewhere)]
        for _ in range(3):
            await asyncio.sleep(0)
        return waiters

    async def end(waiters: list[asyncio.Task[bool]]) -> bool:
        return all(await asyncio.gather(*waiters))

    waiters = world.run(begin())
    change()
    return world.run(end(waiters))


MAIL = queue_topic("mail")


def test_a_wait_ends_by_itself(world: World) -> None:
    assert world.run(world.store.wait([MAIL], 0)) in (True, False)


def test_an_enqueue_hints(world: World) -> None:
    assert hinted(world, MAIL, world.add)


def test_a_success_that_frees_a_slot_hints(world: World) -> None:
    world.configure(limit=1)
    token = world.start()
    world.add()
    assert hinted(world, MAIL, lambda: world.succeed(token))


def test_a_success_that_frees_its_group_hints(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_limit=1)
    token = world.start(group="g")
    world.add(group="g")
    assert hinted(world, MAIL, lambda: world.succeed(token))


@pytest.mark.parametrize("end", ["retry", "release"])
def test_a_job_that_comes_back_hints(world: World, end: str) -> None:
    token = world.start()
    assert hinted(world, MAIL, lambda: getattr(world, end)(token))


def test_a_lost_lease_hints(world: World) -> None:
    world.start()
    world.tick(DEADLINE + 1)
    assert hinted(world, MAIL, world.sweep)


def test_an_unblocked_job_hints_its_own_queue(world: World) -> None:
    token = world.start("video")
    world.add("mail", parents=(Parent(token.job_id),))
    assert hinted(world, MAIL, lambda: world.succeed(token))


def test_a_confirmed_cancel_hints(world: World) -> None:
    world.configure(limit=1)
    token = world.start()
    world.add()
    ok(world.cancel(token.job_id))
    assert hinted(world, MAIL, lambda: world.release(token))


def test_a_drained_slot_hints(world: World) -> None:
    world.configure(limit=1)
    token = world.start()
    world.add()
    ok(world.cancel(token.job_id))
    world.tick(DEADLINE + 1)
    assert hinted(world, MAIL, world.sweep)


def test_a_job_brought_forward_hints(world: World) -> None:
    id = world.add(delay=HOUR)
    assert hinted(world, MAIL, lambda: world.reschedule(id, delay=0))


def test_a_cancelled_ordered_head_hints(world: World) -> None:
    world.configure(mode=Mode.KEYED, ordered=True)
    head = world.add(group="g", delay=HOUR)
    world.add(group="g")
    assert hinted(world, MAIL, lambda: world.cancel(head))


def test_an_expired_ordered_head_hints_when_swept(world: World) -> None:
    world.configure(mode=Mode.KEYED, ordered=True)
    world.add(group="g", delay=HOUR, expires=SECOND)
    world.add(group="g")
    world.tick(SECOND)
    assert hinted(world, MAIL, world.sweep)


def test_a_resumed_queue_hints(world: World) -> None:
    world.configure(paused=True)
    world.add()
    assert hinted(world, MAIL, world.configure)


def test_a_resumed_tenant_hints(world: World) -> None:
    world.configure_tenant(paused=True)
    world.add()
    assert hinted(world, MAIL, world.configure_tenant)


def test_a_raised_limit_hints(world: World) -> None:
    world.configure(limit=1)
    world.start()
    world.add()
    assert hinted(world, MAIL, lambda: world.configure(limit=2))


def test_a_replay_hints(world: World) -> None:
    id = world.failed()
    assert hinted(world, MAIL, lambda: world.replayed(id))


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_the_end_of_a_job_hints_its_callers(world: World, end: str) -> None:
    token = world.start()
    assert hinted(world, job_topic(token.ref), lambda: getattr(world, end)(token))


def test_a_cancel_hints_the_callers(world: World) -> None:
    id = world.add()
    assert hinted(world, job_topic(("acme", id)), lambda: world.cancel(id))


@pytest.mark.parametrize("how", ["cancel", "request_cancel"])
def test_a_cancel_of_a_running_job_hints_the_workers(world: World, how: str) -> None:
    token = world.start()
    assert hinted(world, CANCELS, lambda: getattr(world, how)(token.job_id))


def test_a_child_cancelled_by_its_parent_hints_its_callers(world: World) -> None:
    parent = world.add()
    child = world.add(parents=(Parent(parent),))
    assert hinted(world, job_topic(("acme", child)), lambda: world.cancel(parent))


def test_a_document_that_was_written_hints(world: World) -> None:
    note = Document(tenant="acme", kind="note", name="a", body=b"1")
    topic = document_topic("acme", "note")
    assert hinted(world, topic, lambda: world.run(world.store.put_document(note)))
    assert hinted(world, topic, lambda: world.run(world.store.put_document(replace(note, body=None))))


def test_whatever_happens_hints_the_feed(world: World) -> None:
    assert hinted(world, FEED_TOPIC, world.add)
    assert hinted(world, FEED_TOPIC, world.claim)
