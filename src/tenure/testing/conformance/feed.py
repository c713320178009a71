"""The feed (§12): every event with its fields, dense versions, tenant views, cursors and retention."""

import pytest

from tenure.domain.calls import Release, Retry
from tenure.domain.errors import CursorExpired
from tenure.domain.event import Event
from tenure.domain.job import Failure, Parent, Progress, key_hash
from tenure.domain.names import DAY, HOUR, SECOND
from tenure.domain.states import EventKind, Mode, OnParentFailure
from tenure.domain.store import LATEST
from tenure.testing.conformance.kit import BOOM, DEADLINE, GRACE, LEASE, World, ok


def pick(event: Event, *fields: str) -> tuple[object, ...]:
    return tuple(getattr(event, field) for field in fields)


def common(event: Event) -> tuple[object, ...]:
    return pick(event, "tenant", "version", "kind", "at", "queue", "job_type")


def test_enqueued(world: World) -> None:
    parent = world.add()
    id = world.add(
        "video",
        payload=b"12345",
        job_type="render",
        priority=3,
        delay=SECOND,
        key="user@example.org",
        max_attempts=5,
        labels={"team": "crm"},
        parents=(Parent(parent),),
    )
    event = world.last(id)
    assert common(event) == ("acme", 1, "enqueued", world.now, "video", "render")
    assert pick(event, "priority", "run_at", "max_attempts", "payload_size") == (3, world.now + SECOND, 5, 5)
    assert pick(event, "labels", "parents") == ({"team": "crm"}, (parent,))
    assert event.key_hash == key_hash("user@example.org")
    assert pick(event, "attempt", "lease_seq", "run_ms", "worker", "replay_of") == (0, 0, None, None, None)


def test_enqueued_with_a_group(world: World) -> None:
    world.configure(mode=Mode.KEYED)
    assert world.last(world.add(group="g")).group == "g"


def test_claimed(world: World) -> None:
    world.add()
    world.tick(1_500)
    token = world.take(worker="w7").token
    event = world.last(token.job_id)
    assert common(event) == ("acme", 2, "claimed", world.now, "mail", "send")
    assert pick(event, "attempt", "lease_seq", "worker") == (1, 1, "w7")
    assert pick(event, "lease_until", "waited_ms") == (world.now + LEASE, 1_500)
    assert pick(event, "group_holders", "group_limit", "run_ms") == (None, None, None)


def test_waiting_counts_from_run_at(world: World) -> None:
    world.add(delay=HOUR)
    world.tick(HOUR + 250)
    assert world.last(world.take().token.job_id).waited_ms == 250


def test_waiting_counts_from_the_end_of_the_last_lease(world: World) -> None:
    token = world.start()
    world.tick(SECOND)
    ok(world.release(token))
    world.tick(40)
    world.take()
    assert world.last(token.job_id).waited_ms == 40


def test_waiting_after_a_retry_counts_from_its_delay(world: World) -> None:
    token = world.start()
    ok(world.retry(token, SECOND))
    world.tick(SECOND + 7)
    world.take()
    assert world.last(token.job_id).waited_ms == 7


def test_waiting_after_a_lost_lease_counts_from_the_sweep(world: World) -> None:
    token = world.start()
    world.tick(DEADLINE + 1)
    world.sweep()
    world.tick(9)
    world.take()
    assert world.last(token.job_id).waited_ms == 9


def test_claimed_tells_the_holders_of_its_group(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_limit=3)
    world.add_many(3, group="g")
    first, second = (job.token for job in world.claim(2).jobs)
    assert pick(world.last(first.job_id), "group_holders", "group_limit") == (1, 3)
    assert pick(world.last(second.job_id), "group_holders", "group_limit") == (2, 3)
    ok(world.cancel(first.job_id))
    third = world.take().token
    assert world.last(third.job_id).group_holders == 3, "a draining slot holds"


def test_claimed_in_a_group_without_limit(world: World) -> None:
    world.configure(mode=Mode.KEYED)
    token = world.start(group="g")
    assert pick(world.last(token.job_id), "group_holders", "group_limit") == (1, None)


def test_progress(world: World) -> None:
    token = world.start()
    world.tick(SECOND)
    ok(world.renew(token, Progress(0.25, "quarter")))
    event = world.last(token.job_id)
    assert common(event) == ("acme", 3, "progress", world.now, "mail", "send")
    assert pick(event, "progress", "message", "run_ms", "worker") == (0.25, "quarter", None, "w1")


def test_succeeded(world: World) -> None:
    token = world.start()
    world.tick(1_234)
    ok(world.succeed(token, b"12345"))
    event = world.last(token.job_id)
    assert common(event) == ("acme", 3, "succeeded", world.now, "mail", "send")
    assert pick(event, "attempt", "lease_seq", "worker", "run_ms") == (1, 1, "w1", 1_234)
    assert pick(event, "reason", "result_size", "error_family") == ("ok", 5, None)


def test_retry_scheduled(world: World) -> None:
    token = world.start()
    world.tick(500)
    ok(world.settle(token, Retry(Failure("Timeout", "slow"), 7 * SECOND, "timeout")))
    event = world.last(token.job_id)
    assert common(event) == ("acme", 3, "retry_scheduled", world.now, "mail", "send")
    assert pick(event, "attempt", "lease_seq", "worker", "run_ms") == (1, 1, "w1", 500)
    assert pick(event, "reason", "error_family", "message") == ("timeout", "Timeout", "slow")
    assert event.run_at == world.now + 7 * SECOND


def test_failed(world: World) -> None:
    token = world.start()
    world.tick(500)
    ok(world.fail(token))
    event = world.last(token.job_id)
    assert common(event) == ("acme", 3, "failed", world.now, "mail", "send")
    assert pick(event, "attempt", "run_ms", "reason", "error_family", "message") == (
        1,
        500,
        "permanent",
        BOOM.family,
        BOOM.message,
    )


def test_failed_by_exhaustion(world: World) -> None:
    token = world.start(max_attempts=1)
    ok(world.retry(token, SECOND))
    event = world.last(token.job_id)
    assert pick(event, "kind", "reason", "error_family", "message") == ("failed", "exhausted", "ValueError", "boom")
    assert (event.run_ms, event.run_at) == (0, None)


def test_released(world: World) -> None:
    token = world.start()
    world.tick(500)
    ok(world.settle(token, Release(3 * SECOND, "snooze")))
    event = world.last(token.job_id)
    assert common(event) == ("acme", 3, "released", world.now, "mail", "send")
    assert pick(event, "lease_seq", "worker", "run_ms", "reason") == (1, "w1", 500, "snooze")
    assert event.run_at == world.now + 3 * SECOND


def test_lease_lost(world: World) -> None:
    run_at = world.now
    token = world.start()
    world.tick(DEADLINE + 500)
    world.sweep()
    event = world.last(token.job_id)
    assert common(event) == ("acme", 3, "lease_lost", world.now, "mail", "send")
    assert pick(event, "attempt", "lease_seq", "worker", "reason") == (1, 1, "w1", "lease_lost")
    assert pick(event, "run_ms", "run_at") == (DEADLINE + 500, run_at)


def test_a_lease_lost_for_good_is_failed(world: World) -> None:
    token = world.start(max_attempts=1)
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.kinds(token.job_id) == "enqueued claimed failed"
    assert pick(world.last(token.job_id), "reason", "run_ms") == ("lease_lost", LEASE + GRACE + 1)


def test_cancel_requested_and_cancelled(world: World) -> None:
    token = world.start()
    ok(world.request_cancel(token.job_id))
    assert common(world.last(token.job_id)) == ("acme", 3, "cancel_requested", world.now, "mail", "send")
    assert world.last(token.job_id).run_ms is None
    world.tick(700)
    ok(world.cancel(token.job_id))
    event = world.last(token.job_id)
    assert pick(event, "version", "kind", "run_ms", "reason") == (4, "cancelled", 700, "cancelled")


def test_a_cancel_that_ended_no_lease_has_no_run_ms(world: World) -> None:
    token = world.start()
    ok(world.retry(token, HOUR))
    ok(world.cancel(token.job_id))
    event = world.last(token.job_id)
    assert pick(event, "kind", "lease_seq", "run_ms") == ("cancelled", 1, None)


def test_expired(world: World) -> None:
    id = world.add(expires=SECOND)
    world.tick(SECOND + 1)
    world.sweep()
    assert pick(world.last(id), "version", "kind", "at", "reason", "run_ms") == (
        2,
        "cancelled",
        world.now,
        "expired",
        None,
    )


def test_unblocked(world: World) -> None:
    token = world.start()
    child = world.add(parents=(Parent(token.job_id),))
    world.tick(SECOND)
    ok(world.succeed(token))
    event = world.last(child)
    assert pick(event, "version", "kind", "at", "run_at") == (2, "unblocked", world.now, world.now)


def test_an_enqueue_onto_a_failed_parent_writes_two(world: World) -> None:
    parent = world.failed()
    child = world.add(parents=(Parent(parent, OnParentFailure.FAIL),))
    assert [pick(event, "version", "kind", "reason") for event in world.story(child)] == [
        (1, "enqueued", None),
        (2, "failed", "parent_failed"),
    ]


def test_rescheduled_and_reprioritised(world: World) -> None:
    id = world.add()
    ok(world.reschedule(id, delay=SECOND))
    assert pick(world.last(id), "version", "kind", "run_at") == (2, "rescheduled", world.now + SECOND)
    ok(world.reprioritise(id, -7))
    assert pick(world.last(id), "version", "kind", "priority") == (3, "reprioritised", -7)


def test_replayed_and_discarded(world: World) -> None:
    id = world.failed()
    ok(world.discard(id))
    assert pick(world.last(id), "version", "kind", "run_ms") == (4, "discarded", None)
    new_id = world.replayed(id)
    assert pick(world.last(id), "version", "kind", "new_id") == (5, "replayed", new_id)
    assert pick(world.last(new_id), "version", "kind", "replay_of") == (1, "enqueued", id)


def test_versions_are_dense_and_match_the_record(world: World) -> None:
    token = world.start(max_attempts=5)
    ok(world.renew(token, Progress(0.5)))
    ok(world.renew(token))
    ok(world.retry(token))
    ok(world.reprioritise(token.job_id, 1))
    ok(world.fail(world.take().token))
    story = world.story(token.job_id)
    assert [event.version for event in story] == [1, 2, 3, 4, 5, 6, 7]
    record = world.record(token.job_id)
    assert (record.version, record.updated_at) == (7, story[-1].at)


def test_what_changes_nothing_writes_nothing(world: World) -> None:
    job = world.job(key="k")
    ok(world.put(job))
    token = world.take().token
    ok(world.request_cancel(token.job_id))
    before = world.events()
    world.put(job)
    world.put(world.job(key="k"))
    world.put(world.job(key="k", payload=b"[]"))
    world.renew(token)
    world.request_cancel(token.job_id)
    world.reschedule(token.job_id, delay=0)
    world.nothing()
    world.sweep()
    assert world.events() == before


def test_a_tenant_sees_its_own(world: World) -> None:
    acme, bolt = world.add(), world.add(tenant="bolt")
    world.claim(2)
    assert {event.job_id for event in world.events("acme")} == {acme}
    assert {event.job_id for event in world.events("bolt")} == {bolt}
    assert len(world.events()) == 4
    assert world.events("nobody") == []


def test_the_store_wide_feed_is_every_view(world: World) -> None:
    for tenant in ("a", "b", "a", "c"):
        world.add(tenant=tenant)
    world.claim(3)
    everything = world.events()
    for tenant in ("a", "b", "c"):
        assert [event for event in everything if event.tenant == tenant] == world.events(tenant)


def test_events_of_an_operation_come_in_item_order(world: World) -> None:
    jobs = world.add_many(3)
    assert [event.job_id for event in world.events("acme")] == jobs
    world.claim(3)
    assert [event.job_id for event in world.events("acme")] == jobs * 2


def test_a_cause_comes_before_its_effect(world: World) -> None:
    token = world.start()
    child = world.add(parents=(Parent(token.job_id),))
    ok(world.succeed(token))
    kinds = [(event.job_id, event.kind) for event in world.events("acme")]
    assert kinds.index((token.job_id, EventKind.SUCCEEDED)) < kinds.index((child, EventKind.UNBLOCKED))


def test_following_sees_each_event_once(world: World) -> None:
    seen: list[Event] = []
    cursor: str | None = None
    for _ in range(3):
        world.add_many(2)
        world.claim(1)
        found, cursor = world.follow(cursor, "acme")
        assert len(found) == 3
        seen += found
    assert seen == world.events("acme")


def test_small_pages_give_the_same_feed(world: World) -> None:
    for tenant in ("a", "b"):
        world.add_many(5, tenant=tenant)
    world.claim(7)
    assert world.events(limit=1) == world.events()
    assert world.events("a", limit=2) == world.events("a")


def test_an_empty_feed_has_a_cursor(world: World) -> None:
    cursor = world.tip()
    id = world.add()
    assert [event.job_id for event in world.follow(cursor)[0]] == [id]
    assert world.follow(world.tip())[0] == []


def test_the_end_of_the_feed_can_be_asked_for(world: World) -> None:
    world.add_many(3)
    for tenant in (None, "acme"):
        found, cursor = world.follow(LATEST, tenant)
        assert found == []
        id = world.add()
        assert [event.job_id for event in world.follow(cursor, tenant)[0]] == [id]


def test_a_cursor_outlives_a_crash(world: World) -> None:
    world.add()
    cursor = world.tip("acme")
    second = world.add()
    world.crash()
    assert [event.job_id for event in world.follow(cursor, "acme")[0]] == [second]


def test_a_cursor_past_retention_has_expired(world: World) -> None:
    world.add()
    cursor = world.tip("acme"), world.tip()
    world.add()
    world.tick(15 * DAY)
    world.sweep()
    assert world.run(world.store.events(tenant="acme", after=cursor[0])) == CursorExpired()
    assert world.run(world.store.events(after=cursor[1])) == CursorExpired()


def test_a_cursor_that_missed_nothing_holds(world: World) -> None:
    world.add()
    cursor = world.tip("acme")
    world.tick(15 * DAY)
    world.sweep()
    id = world.add()
    assert [event.job_id for event in world.follow(cursor, "acme")[0]] == [id]


def test_a_reader_may_stop_after_any_event(world: World) -> None:
    for owner in ("acme", "bolt"):
        world.add_many(3, tenant=owner)
        world.claim(2)
    for tenant in (None, "acme", "bolt"):
        seen = world.events(tenant)
        for limit in (1, 4, 1_000):
            after: str | None = None
            place = 0
            while place < len(seen):
                page = ok(world.run(world.store.events(tenant=tenant, after=after, limit=limit)))
                assert len(page.cursors) == len(page.events)
                for offset, cursor in enumerate(page.cursors, place + 1):
                    assert world.follow(cursor, tenant, limit=limit)[0] == seen[offset:]
                after, place = page.cursor, place + len(page.events)


@pytest.mark.parametrize("tenant", [None, "acme"])
@pytest.mark.parametrize("taken", [1, 3, 4])
def test_a_reader_that_stopped_inside_what_is_past_retention_is_told(
    world: World, tenant: str | None, taken: int
) -> None:
    """Whatever came since: the rest of what it was reading is gone, and the new isn't taken for it."""
    world.add_many(5)
    page = ok(world.run(world.store.events(tenant=tenant)))
    world.tick(15 * DAY)
    world.sweep()
    assert world.run(world.store.events(tenant=tenant, after=page.cursors[taken - 1])) == CursorExpired()
    world.add_many(5)
    assert world.run(world.store.events(tenant=tenant, after=page.cursors[taken - 1])) == CursorExpired()
    assert len(world.follow(page.cursors[-1], tenant)[0]) == 5


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_a_reader_that_stopped_where_nothing_is_gone_goes_on(world: World, tenant: str | None) -> None:
    """Retention took what it had read, up to the very chunk it stopped in."""
    world.add_many(2)
    world.tick(DAY)
    rest = world.add_many(4)
    page = ok(world.run(world.store.events(tenant=tenant)))
    world.tick(14 * DAY)
    world.sweep()
    assert [event.job_id for event in world.events(tenant)] == rest, "the first are gone"
    assert world.run(world.store.events(tenant=tenant, after=page.cursors[0])) == CursorExpired()
    for taken in range(4):
        assert [event.job_id for event in world.follow(page.cursors[1 + taken], tenant)[0]] == rest[taken:]


def test_events_stay_fourteen_days(world: World) -> None:
    world.add()
    cursor = world.tip()
    id = world.add()
    world.tick(14 * DAY - 1)
    world.sweep()
    assert [event.job_id for event in world.follow(cursor)[0]] == [id]


def test_clock_jump(world: World) -> None:
    world.sweep(hold=SECOND)
    (event,) = world.events()
    assert pick(event, "tenant", "kind", "at", "hold_until", "job_id", "version") == (
        "_system",
        "clock_jump",
        world.now,
        world.now + SECOND,
        None,
        None,
    )
