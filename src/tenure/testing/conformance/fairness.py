"""Fairness (§11, §11a): weighted rotation over tenants, then over a tenant's queues, exactly."""

import pytest

from tenure.domain.calls import Claimed, Cursor
from tenure.domain.states import Mode
from tenure.testing.conformance.kit import World, ids, tenants


def queues(claimed: Claimed) -> str:
    return " ".join(job.job.spec.queue for job in claimed.jobs)


def fill(world: World, number: int, *names: str) -> None:
    for tenant in names:
        world.add_many(number, tenant=tenant)


def test_tenants_take_turns(world: World) -> None:
    fill(world, 3, "a", "b", "c")
    claimed = world.claim(6)
    assert tenants(claimed) == "a b c a b c"
    assert claimed.cursor == Cursor("c", 1, 1)


def test_the_cursor_goes_on_where_it_ended(world: World) -> None:
    fill(world, 3, "a", "b", "c")
    first = world.claim(2)
    second = world.claim(2, cursor=first.cursor)
    assert (tenants(first), first.cursor) == ("a b", Cursor("b", 1, 0))
    assert (tenants(second), second.cursor) == ("c a", Cursor("a", 1, 1))


def test_an_empty_cursor_starts_at_the_first_tenant(world: World) -> None:
    fill(world, 2, "a", "b")
    assert tenants(world.claim(1)) == "a"
    assert tenants(world.claim(1)) == "a"


def test_weights_give_longer_visits(world: World) -> None:
    world.configure_tenant("a", weight=2)
    fill(world, 6, "a", "b")
    claimed = world.claim(6)
    assert tenants(claimed) == "a a b a a b"
    assert claimed.cursor == Cursor("b", 1, 1)


def test_a_claim_may_end_in_the_middle_of_a_visit(world: World) -> None:
    world.configure_tenant("a", weight=3)
    fill(world, 5, "a", "b")
    first = world.claim(2)
    assert (tenants(first), first.cursor) == ("a a", Cursor("a", 2, 0))
    second = world.claim(2, cursor=first.cursor)
    assert (tenants(second), second.cursor) == ("a b", Cursor("b", 1, 0))


def test_weights_hold_for_claims_of_one(world: World) -> None:
    world.configure_tenant("a", weight=3)
    fill(world, 8, "a", "b")
    cursor, served = Cursor(), []
    for _ in range(8):
        claimed = world.claim(1, cursor=cursor)
        cursor = claimed.cursor
        served.append(tenants(claimed))
    assert " ".join(served) == "a a a b a a a b"


@pytest.mark.parametrize("n", [1, 7, 50])
def test_shares_are_exact_at_every_claim_size(world: World, n: int) -> None:
    for weight, tenant in enumerate(("a", "b", "c"), start=1):
        world.configure_tenant(tenant, weight=weight)
    fill(world, 40, "a", "b", "c")
    cursor, served, left = Cursor(), "", 60
    while left:
        claimed = world.claim(min(n, left), cursor=cursor)
        cursor, left = claimed.cursor, left - len(claimed.jobs)
        served += tenants(claimed)
    assert [served.count(tenant) for tenant in "abc"] == [10, 20, 30]


def test_a_tenant_that_runs_dry_leaves_the_ring(world: World) -> None:
    fill(world, 1, "a")
    fill(world, 3, "b")
    claimed = world.claim(9)
    assert tenants(claimed) == "a b b b"
    assert claimed.cursor == Cursor("b", 1, 2)


def test_a_lone_tenant_gets_everything(world: World) -> None:
    jobs = world.add_many(10)
    assert world.claim_ids(20) == jobs


def test_a_small_tenant_is_served_within_one_rotation(world: World) -> None:
    fill(world, 50, "a")
    fill(world, 1, "b", "c", "d")
    assert tenants(world.claim(5)) == "a b c d a"


def test_a_cursor_at_a_tenant_without_jobs_goes_to_the_next(world: World) -> None:
    fill(world, 2, "a", "c")
    claimed = world.claim(2, cursor=Cursor("b", 0, 4))
    assert (tenants(claimed), claimed.cursor) == ("c a", Cursor("a", 1, 5))


def test_a_cursor_past_every_tenant_wraps(world: World) -> None:
    fill(world, 2, "a", "b")
    claimed = world.claim(1, cursor=Cursor("z", 1, 4))
    assert (tenants(claimed), claimed.cursor) == ("a", Cursor("a", 1, 5))


def test_an_empty_claim_gives_its_cursor_back(world: World) -> None:
    assert world.claim(3, cursor=Cursor("m", 1, 9)).cursor == Cursor("m", 1, 9)


def test_tenants_rotate_in_byte_order(world: World) -> None:
    names = ["aa", "a_", "aB", "a0", "a.b", "a-b", "Zed", "0"]
    fill(world, 1, *names)
    assert tenants(world.claim(20)).split() == ["0", "Zed", "a-b", "a.b", "a0", "aB", "a_", "aa"]


def test_priority_doesnt_cross_tenants(world: World) -> None:
    world.add(tenant="a", priority=-100)
    world.add(tenant="b", priority=100)
    assert tenants(world.claim(2)) == "a b"


def test_a_paused_tenant_isnt_in_the_ring(world: World) -> None:
    fill(world, 2, "a", "b", "c")
    world.configure_tenant("b", paused=True)
    assert tenants(world.claim(4)) == "a c a c"


def test_only_the_asked_tenants(world: World) -> None:
    fill(world, 2, "a", "b", "c")
    assert tenants(world.claim(9, tenants=("c", "b"))) == "b c b c"


def test_only_the_asked_queues(world: World) -> None:
    world.add("video", tenant="a")
    fill(world, 2, "b")
    assert tenants(world.claim(9)) == "b b"


def test_queues_of_a_tenant_take_turns(world: World) -> None:
    world.add_many(3, "mail")
    world.add_many(3, "video")
    assert queues(world.claim(6, "video", "mail")) == "mail video mail video mail video"


def test_queues_have_weights(world: World) -> None:
    world.configure("mail", weight=2)
    world.add_many(4, "mail")
    world.add_many(4, "video")
    assert queues(world.claim(6, "mail", "video")) == "mail mail video mail mail video"


def test_a_tenants_own_queue_weight_holds(world: World) -> None:
    world.configure("mail", weight=2)
    world.configure("mail", tenant="acme", weight=1)
    world.add_many(2, "mail")
    world.add_many(2, "video")
    assert queues(world.claim(4, "mail", "video")) == "mail video mail video"


def test_queue_slots_go_on_within_a_visit_and_over_rounds(world: World) -> None:
    world.configure_tenant("acme", weight=2)
    for queue in ("x", "y", "z"):
        world.add_many(2, queue)
    claimed = world.claim(5, "x", "y", "z")
    assert queues(claimed) == "x y z x y"
    assert claimed.cursor == Cursor("acme", 1, 2)


def test_an_empty_queues_slot_goes_to_the_next(world: World) -> None:
    world.add_many(3, "video")
    world.add_many(1, "zoo")
    assert queues(world.claim(4, "mail", "video", "zoo")) == "video video zoo video"


def test_at_most_bounds_a_queue_within_one_claim(world: World) -> None:
    world.add_many(3, "mail")
    world.add_many(3, "video")
    assert queues(world.claim(9, ("mail", 1), "video")) == "mail video video video"
    assert queues(world.claim(9, ("mail", 1), "video")) == "mail"


def test_at_most_counts_over_tenants(world: World) -> None:
    fill(world, 2, "a", "b", "c")
    assert tenants(world.claim(9, ("mail", 2))) == "a b"


def test_at_most_zero_asks_for_none(world: World) -> None:
    world.add("mail")
    world.add("video")
    assert queues(world.claim(9, ("mail", 0), "video")) == "video"


@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 5), (7, 4), (3, 30)])
def test_two_claims_give_what_one_would(world: World, a: int, b: int) -> None:
    def prepare(bench: World) -> World:
        bench.configure_tenant("a", weight=3)
        bench.configure("video", weight=2)
        bench.configure("keyed", mode=Mode.KEYED, group_limit=2)
        for tenant in ("a", "b", "c"):
            bench.add_many(4, "mail", tenant=tenant)
            bench.add_many(3, "video", tenant=tenant)
            for group in ("g", "h", "g", "g", "i"):
                bench.add("keyed", tenant=tenant, group=group)
        return bench

    asked = ("mail", "video", "keyed")
    whole = prepare(world).claim(a + b, *asked)
    twin = prepare(world.twin())
    first = twin.claim(a, *asked)
    second = twin.claim(b, *asked, cursor=first.cursor)
    assert ids(first) + ids(second) == ids(whole)
    assert second.cursor == whole.cursor
