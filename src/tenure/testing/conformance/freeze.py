"""Freeze and transfer (§5c): a frozen store stands still, and moves whole into an empty one."""

import pytest

from tenure.domain.calls import (
    Document,
    DumpItem,
    Enqueued,
    Epoch,
    Renewed,
    Replayed,
    Retention,
    Retry,
    Settled,
    Succeed,
)
from tenure.domain.errors import InvalidValue, NotFrozen, StoreFrozen, StoreNotEmpty
from tenure.domain.job import Parent
from tenure.domain.names import DAY, HOUR, SECOND
from tenure.domain.rate import Rate
from tenure.domain.states import Mode, State, Unique
from tenure.testing.conformance.kit import BOOM, DEADLINE, LEASE, TRACE, World, ids, ok


def fill(world: World) -> list[str]:
    """A job in every state, with keys, results, edges, dead letters, tracebacks and documents."""
    world.configure("keyed", mode=Mode.KEYED, group_limit=1)
    world.configure_tenant("bolt", weight=3)
    ok(world.write(Document(tenant="acme", kind="schedule", name="nightly", body=b"{}")))
    done = world.succeeded(key="k", unique=Unique.WINDOW, unique_for=DAY, result=b"42")
    failed, cancelled, discarded = world.failed(), world.cancelled(), world.failed()
    ok(world.discard(discarded))
    ok(world.settle(world.start("video"), Retry(BOOM, HOUR, traceback=TRACE)))
    running = world.start("keyed", group="g").job_id
    pending = world.add(priority=3, labels={"team": "crm"}, payload=bytes(range(256)))
    blocked = world.add(parents=(Parent(done), Parent(pending)))
    scheduled = world.add(delay=HOUR, expires=DAY)
    return [done, failed, cancelled, discarded, running, pending, blocked, scheduled]


def move(world: World) -> World:
    """A second store, loaded with everything of this one, and thawed."""
    other = world.another()
    world.freeze()
    other.freeze()
    other.load(world.dump())
    other.thaw()
    return other


def kept(items: list[DumpItem]) -> list[DumpItem]:
    """What must arrive verbatim: all but the store's own flags."""
    return [item for item in items if item.kind != "meta"]


def test_a_frozen_store_refuses_new_work(world: World) -> None:
    id = world.add()
    world.freeze()
    assert world.enqueue(world.job(), world.job()) == [StoreFrozen(), StoreFrozen()]
    assert world.run(world.store.claim(world.request())) == StoreFrozen()
    assert world.cancel(id) == StoreFrozen()
    assert world.run(world.store.sweep(0)) == StoreFrozen()
    assert world.run(world.store.purge(Retention())) == StoreFrozen()
    assert world.try_configure(limit=1) == StoreFrozen()
    assert world.state(id) is State.PENDING


def test_a_frozen_store_lets_work_end(world: World) -> None:
    first, second = world.start(), world.start()
    world.freeze()
    world.tick(SECOND)
    assert world.renew(first) == Renewed(world.now + LEASE, False)
    assert world.succeed(first, b"1") == Settled(State.SUCCEEDED)
    assert world.retry(second) == Settled(State.PENDING)


def test_a_frozen_store_takes_no_lease(world: World) -> None:
    token = world.start()
    world.freeze()
    world.tick(DEADLINE + 1)
    assert world.run(world.store.sweep(0)) == StoreFrozen()
    assert world.state(token.job_id) is State.RUNNING


def test_a_frozen_store_can_be_read(world: World) -> None:
    id = world.add()
    world.freeze()
    assert world.state(id) is State.PENDING
    assert world.query(tenant="acme") == [id]
    assert len(world.events()) == 1


def test_thaw_lets_it_go_on(world: World) -> None:
    id = world.add()
    world.freeze()
    world.thaw()
    assert world.claim_ids() == [id]


def test_thaw_adds_one_to_the_epoch(world: World) -> None:
    frozen = world.freeze()
    assert world.freeze() == frozen
    assert world.thaw() == Epoch(frozen.epoch + 1)
    world.add()
    assert world.take().epoch == frozen.epoch + 1


def test_what_needs_a_frozen_store(world: World) -> None:
    assert world.run(world.store.thaw()) == NotFrozen()
    assert world.run(world.store.dump()) == NotFrozen()
    assert world.run(world.store.load([])) == NotFrozen()


def test_a_freeze_survives_a_crash(world: World) -> None:
    world.freeze()
    world.crash()
    assert world.put(world.job()) == StoreFrozen()


def test_load_needs_an_empty_store(world: World) -> None:
    other = world.another()
    world.add()
    world.freeze()
    other.add()
    other.freeze()
    assert other.run(other.store.load(world.dump())) == StoreNotEmpty()


def test_a_store_with_a_document_isnt_empty(world: World) -> None:
    other = world.another()
    world.freeze()
    ok(other.write(Document(tenant="acme", kind="schedule", name="nightly", body=b"{}")))
    other.freeze()
    assert other.run(other.store.load(world.dump())) == StoreNotEmpty()


def test_a_dump_is_stable(world: World) -> None:
    fill(world)
    world.freeze()
    assert world.dump() == world.dump() == world.dump(limit=1)


def test_a_dump_of_two_freezes_is_refused(world: World) -> None:
    """What happened between them is in neither half."""
    world.add_many(3)
    world.run(world.store.freeze())
    page = ok(world.run(world.store.dump(limit=2)))
    ok(world.run(world.store.thaw()))
    world.add()
    world.run(world.store.freeze())
    with pytest.raises(InvalidValue, match="begin the dump again"):
        world.run(world.store.dump(after=page.cursor))
    with pytest.raises(InvalidValue, match="isn't one of a dump"):
        world.run(world.store.dump(after="job 3"))


def test_a_loaded_store_dumps_the_same(world: World) -> None:
    fill(world)
    other = world.another()
    world.freeze()
    other.freeze()
    other.load(world.dump())
    assert kept(other.dump()) == kept(world.dump())


def test_load_can_be_repeated_and_done_in_parts(world: World) -> None:
    fill(world)
    other = world.another()
    world.freeze()
    other.freeze()
    items = world.dump()
    half = len(items) // 2
    assert other.load(items[:half]) == other.load(items[:half])
    other.load(items[half:])
    assert kept(other.dump()) == kept(items)


def test_every_job_arrives_as_it_was(world: World) -> None:
    jobs = fill(world)
    before = [world.get(id) for id in jobs]
    other = move(world)
    assert [other.get(id) for id in jobs] == before
    assert other.query(tenant="acme") == world.query(tenant="acme")


def test_the_feed_arrives_and_goes_on(world: World) -> None:
    fill(world)
    before = world.events("acme")
    other = move(world)
    assert other.events("acme") == before
    id = other.add()
    assert [event.job_id for event in other.events("acme")] == [*(event.job_id for event in before), id]


def test_a_cursor_of_the_old_feed_goes_on_in_the_new(world: World) -> None:
    fill(world)
    cursor = world.tip("acme")
    other = move(world)
    id = other.add()
    assert [event.job_id for event in other.follow(cursor, "acme")[0]] == [id]


def test_leases_arrive(world: World) -> None:
    token = world.start()
    other = move(world)
    assert other.renew(token) == Renewed(world.now + LEASE, False)
    assert other.succeed(token) == Settled(State.SUCCEEDED)


def test_lost_leases_are_found_after_the_transfer(world: World) -> None:
    token = world.start()
    other = move(world)
    other.tick(DEADLINE + 1)
    assert other.sweep().counts.lost == 1
    assert other.claim_ids() == [token.job_id]


def test_keys_arrive(world: World) -> None:
    done = fill(world)[0]
    other = move(world)
    reply = ok(other.put(other.job(key="k")))
    assert (reply.id, reply.created, reply.state) == (done, False, State.SUCCEEDED)


def test_ids_are_known_after_the_transfer(world: World) -> None:
    job = world.job()
    ok(world.put(job))
    other = move(world)
    assert other.put(job) == Enqueued(job.id)
    assert other.claim_ids(9) == [job.id]


def test_edges_arrive(world: World) -> None:
    token = world.start()
    child = world.add("video", parents=(Parent(token.job_id),))
    other = move(world)
    ok(other.succeed(token))
    assert other.claim_ids(1, "video") == [child]


def test_limits_and_slots_arrive(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_limit=1)
    first, _ = world.start(group="g"), world.start(group="h")
    world.add(group="g")
    ok(world.cancel(first.job_id))
    other = move(world)
    world.thaw()
    assert other.nothing() is world.nothing() is True
    world.release(first)
    other.release(first)
    assert other.claim_ids(9) == world.claim_ids(9)


def test_order_and_rotation_go_on(world: World) -> None:
    world.configure("keyed", mode=Mode.KEYED)
    for group in ("a", "b", "c", "a", "b", "c"):
        world.add("keyed", group=group)
    world.claim(2, "keyed")
    world.add_many(2)
    world.add(priority=1)
    other = move(world)
    world.thaw()
    assert ids(other.claim(9, "mail", "keyed")) == ids(world.claim(9, "mail", "keyed"))


def test_dead_letters_arrive(world: World) -> None:
    id, new_id = world.failed(), world.id()
    other = move(world)
    assert other.replay(id, new_id) == Replayed(new_id)


def test_arrivals_come_after_what_was_there(world: World) -> None:
    first = world.add_many(3)
    other = move(world)
    late = other.add()
    assert other.claim_ids(9) == [*first, late]


def test_the_fence_grows_through_a_transfer(world: World) -> None:
    for _ in range(3):
        world.freeze()
        world.thaw()
    world.add()
    taken = world.take()
    ok(world.release(taken.token))
    moved = move(world).take()
    assert (moved.epoch, moved.token.lease_seq) > (taken.epoch, taken.token.lease_seq)
    assert moved.epoch > taken.epoch


def test_rates_arrive_or_start_afresh(world: World) -> None:
    world.configure(rate=Rate(1, HOUR))
    jobs = world.add_many(2)
    ok(world.settle(world.take().token, Succeed()))
    other = move(world)
    other.tick(HOUR)
    assert other.claim_ids(9) == jobs[1:]


def test_a_damaged_item_leaves_the_store_as_it_was(world: World) -> None:
    world.add()
    world.freeze()
    items = world.dump()
    other = world.twin()
    other.freeze()
    before = other.dump()
    for damage in (DumpItem("job", b"\xc1"), DumpItem("someday", b"\xc0")):
        with pytest.raises(InvalidValue, match="dump item"):
            other.run(other.store.load([*items, damage]))
        assert other.dump() == before
    assert other.load(items) == len(items)
