"""Groups (§11): keyed queues, their rotation, limits as sets of holders, draining slots and strict order."""

from typing import Any

import msgspec
import pytest

from tenure.domain.calls import Claimed, Settled
from tenure.domain.errors import GroupNeedsKeyed, GroupRequired, JobCancelled, LeaseLost
from tenure.domain.job import Parent, Token
from tenure.domain.names import HOUR, SECOND
from tenure.domain.states import Mode, State
from tenure.testing.conformance.kit import DEADLINE, World, ok


def keyed(world: World, **rules: Any) -> World:
    world.configure(mode=Mode.KEYED, **rules)
    return world


def add(world: World, groups: str) -> list[str]:
    return [world.add(group=group) for group in groups.split()]


def groups(claimed: Claimed) -> str:
    return " ".join(job.job.spec.group or "-" for job in claimed.jobs)


def start(world: World, group: str = "g") -> Token:
    return world.start(group=group)


def test_a_plain_queue_refuses_a_group(world: World) -> None:
    assert world.put(world.job(group="g")) == GroupNeedsKeyed("mail")


def test_a_keyed_queue_needs_a_group(world: World) -> None:
    keyed(world)
    assert world.put(world.job()) == GroupRequired("mail")


@pytest.mark.parametrize("group", ['say "hi"', "back\\slash", "smørrebrød", "a b/c"], ids=ascii)
def test_any_text_names_a_group(world: World, group: str) -> None:
    keyed(world, group_limit=2)
    world.succeed(start(world, group))
    assert [event.group for event in world.events() if event.kind == "claimed"] == [group]


def test_groups_take_turns(world: World) -> None:
    add(keyed(world), "a a a b b c")
    assert groups(world.claim(9)) == "a b c a b a"


def test_the_position_outlives_the_claim(world: World) -> None:
    add(keyed(world), "a a b b c c")
    assert [groups(world.claim(1)) for _ in range(4)] == ["a", "b", "c", "a"]


def test_the_position_is_of_one_tenant(world: World) -> None:
    keyed(world)
    for tenant in ("acme", "bolt"):
        for group in "ab":
            world.add(tenant=tenant, group=group)
    assert groups(world.claim(1, tenants=("acme",))) == "a"
    assert groups(world.claim(1, tenants=("bolt",))) == "a"


def test_rotation_goes_on_after_a_group_that_is_gone(world: World) -> None:
    add(keyed(world), "a b c")
    assert groups(world.claim(2)) == "a b"
    add(world, "aa bb")
    assert groups(world.claim(3)) == "bb c aa"


def test_groups_rotate_in_byte_order(world: World) -> None:
    add(keyed(world), "𝄞 \ufb00 é z a Z")
    assert groups(world.claim(9)) == "Z a z é \ufb00 𝄞"


def test_inside_a_group_the_usual_order_holds(world: World) -> None:
    keyed(world)
    low, high = world.add(group="g", priority=-1), world.add(group="g", priority=1)
    assert world.claim_ids(2) == [high, low]


def test_a_group_limit_holds_within_a_claim(world: World) -> None:
    add(keyed(world, group_limit=2), "a a a b")
    assert groups(world.claim(9)) == "a b a"
    assert world.nothing()


def test_a_group_has_its_own_limit(world: World) -> None:
    add(keyed(world, group_limit=1, group_limits={"big": 3}), "big big big big small small")
    assert groups(world.claim(9)) == "big small big big"


def test_without_a_limit_a_group_runs_freely(world: World) -> None:
    add(keyed(world), "a a a")
    assert groups(world.claim(9)) == "a a a"


def test_limits_are_counted_per_tenant(world: World) -> None:
    keyed(world, group_limit=1)
    start(world)
    world.add(tenant="bolt", group="g")
    assert len(world.claim(1, tenants=("bolt",)).jobs) == 1


@pytest.mark.parametrize("end", ["succeed", "retry", "fail", "release"])
def test_every_settle_frees_the_group(world: World, end: str) -> None:
    token = start(keyed(world, group_limit=1))
    waiting = world.add(group="g", priority=1)
    assert world.nothing()
    ok(getattr(world, end)(token))
    assert world.claim_ids(9) == [waiting]


def test_a_lost_lease_frees_the_group(world: World) -> None:
    start(keyed(world, group_limit=1))
    waiting = world.add(group="g", priority=1)
    world.tick(DEADLINE + 1)
    assert world.nothing()
    world.sweep()
    assert world.claim_ids(9) == [waiting]


def test_settling_twice_frees_one_slot(world: World) -> None:
    token = start(keyed(world, group_limit=1))
    add(world, "g g g")
    ok(world.succeed(token))
    ok(world.succeed(token))
    world.sweep()
    assert len(world.claim(9).jobs) == 1
    ok(world.succeed(token))
    assert world.nothing()


def test_a_cancelled_running_job_keeps_its_slot(world: World) -> None:
    token = start(keyed(world, group_limit=1))
    add(world, "g")
    ok(world.cancel(token.job_id))
    assert world.nothing()


def test_release_confirms_and_frees_the_slot(world: World) -> None:
    token = start(keyed(world, group_limit=1))
    add(world, "g g")
    ok(world.cancel(token.job_id))
    assert world.release(token) == JobCancelled()
    assert len(world.claim(9).jobs) == 1
    assert world.release(token) == JobCancelled()
    assert world.nothing(), "confirming again frees nobody else's slot"


def test_nothing_but_release_confirms(world: World) -> None:
    token = start(keyed(world, group_limit=1))
    add(world, "g")
    ok(world.cancel(token.job_id))
    assert world.renew(token) == world.succeed(token) == world.retry(token) == world.fail(token) == JobCancelled()
    assert world.nothing()


def test_only_the_right_token_confirms(world: World) -> None:
    token = start(keyed(world, group_limit=1))
    add(world, "g")
    ok(world.cancel(token.job_id))
    assert world.release(msgspec.structs.replace(token, secret=bytes(16))) == LeaseLost()
    assert world.nothing()


def test_sweep_frees_a_drained_slot_when_the_lease_is_past(world: World) -> None:
    token = start(keyed(world, group_limit=1))
    waiting = add(world, "g")
    ok(world.cancel(token.job_id))
    world.tick(DEADLINE)
    assert world.sweep().counts.drained == 0
    assert world.nothing()
    world.tick(1)
    assert world.nothing(), "only sweep frees it"
    assert world.sweep().counts.drained == 1
    assert world.claim_ids() == waiting


def test_a_refused_renewal_extends_no_slot(world: World) -> None:
    token = start(keyed(world, group_limit=1))
    waiting = add(world, "g")
    ok(world.cancel(token.job_id))
    world.tick(30 * SECOND)
    assert world.renew(token) == JobCancelled()
    world.tick(DEADLINE - 30 * SECOND + 1)
    world.sweep()
    assert world.claim_ids() == waiting


def test_a_job_cancelled_while_waiting_leaves_no_slot(world: World) -> None:
    keyed(world, group_limit=1)
    first, second = add(world, "g g")
    ok(world.cancel(first))
    assert world.claim_ids() == [second]


def test_a_raised_limit_lets_more_in(world: World) -> None:
    add(keyed(world, group_limit=1), "g g g")
    world.claim(9)
    keyed(world, group_limit=2)
    assert len(world.claim(9).jobs) == 1


def test_a_lowered_limit_waits_for_holders_to_end(world: World) -> None:
    add(keyed(world, group_limit=2), "g g g")
    first, second = (job.token for job in world.claim(9).jobs)
    keyed(world, group_limit=1)
    ok(world.succeed(first))
    assert world.nothing()
    ok(world.succeed(second))
    assert len(world.claim(9).jobs) == 1


def test_a_full_group_doesnt_hold_others(world: World) -> None:
    start(keyed(world, group_limit=1), "a")
    add(world, "a b")
    assert groups(world.claim(9)) == "b"


def test_an_ordered_group_goes_by_arrival_alone(world: World) -> None:
    keyed(world, ordered=True)
    first, _ = world.add(group="g"), world.add(group="g", priority=100)
    assert world.claim_ids(9) == [first]


def test_an_ordered_group_runs_one_at_a_time(world: World) -> None:
    keyed(world, ordered=True, group_limit=5, group_limits={"g": 5})
    first, second = add(world, "g g")
    assert world.claim_ids(9) == [first]
    assert world.nothing()
    ok(world.cancel(second))
    assert world.nothing()


def test_an_ordered_group_goes_on_with_the_next(world: World) -> None:
    keyed(world, ordered=True)
    first, second = add(world, "g g")
    token = world.take().token
    assert world.succeed(token) == Settled(State.SUCCEEDED)
    assert (token.job_id, world.claim_ids(9)) == (first, [second])


def test_a_head_in_back_off_blocks_its_group(world: World) -> None:
    keyed(world, ordered=True)
    add(world, "g g h")
    head = world.take().token
    ok(world.retry(head, SECOND))
    assert groups(world.claim(9)) == "h"
    world.tick(SECOND)
    assert world.claim_ids(9) == [head.job_id]


def test_a_scheduled_head_blocks_its_group(world: World) -> None:
    keyed(world, ordered=True)
    head = world.add(group="g", delay=HOUR)
    add(world, "g")
    assert world.nothing()
    ok(world.cancel(head))
    assert groups(world.claim(9)) == "g"


def test_an_expired_head_is_passed_over(world: World) -> None:
    keyed(world, ordered=True)
    world.add(group="g", expires=SECOND)
    second = world.add(group="g")
    world.tick(SECOND)
    assert world.claim_ids(9) == [second]


def test_an_ordered_group_ignores_blocked_jobs(world: World) -> None:
    keyed(world, ordered=True)
    parent = world.add("video")
    child = world.add(group="g", parents=(Parent(parent),))
    free, last = add(world, "g g")
    token = world.take().token
    assert token.job_id == free
    ok(world.succeed(world.take("video").token))
    assert world.nothing(), "one at a time"
    ok(world.succeed(token))
    assert world.claim_ids(9) == [child], "unblocked, it is the one that came first"
    assert world.state(last) is State.PENDING


def test_a_draining_slot_holds_an_ordered_group(world: World) -> None:
    token = start(keyed(world, ordered=True))
    waiting = add(world, "g")
    ok(world.cancel(token.job_id))
    assert world.nothing()
    world.release(token)
    assert world.claim_ids() == waiting
