"""Rates (§11): GCRA in integer microseconds, per queue and per group."""

import pytest

from tenure.domain.names import MINUTE, SECOND, Ms
from tenure.domain.rate import Rate
from tenure.domain.states import Mode
from tenure.testing.conformance.kit import World, ok


def test_one_job_per_interval(world: World) -> None:
    world.configure(rate=Rate(10, SECOND))
    jobs = world.add_many(3)
    assert world.claim_ids(9) == jobs[:1]
    world.tick(99)
    assert world.nothing()
    world.tick(1)
    assert world.claim_ids(9) == jobs[1:2]


def test_a_burst_goes_at_once(world: World) -> None:
    world.configure(rate=Rate(10, SECOND), burst=3)
    jobs = world.add_many(6)
    assert world.claim_ids(9) == jobs[:3]
    world.tick(99)
    assert world.nothing()
    world.tick(1)
    assert world.claim_ids(9) == jobs[3:4]
    world.tick(200)
    assert world.claim_ids(9) == jobs[4:]


def test_unused_time_adds_up_to_no_more_than_the_burst(world: World) -> None:
    world.configure(rate=Rate(10, SECOND), burst=2)
    world.add_many(9)
    assert len(world.claim(9).jobs) == 2
    world.tick(MINUTE)
    assert len(world.claim(9).jobs) == 2


def test_the_interval_is_rounded_up_to_microseconds(world: World) -> None:
    world.configure(rate=Rate(3, SECOND), burst=2)
    jobs = world.add_many(5)
    assert world.claim_ids(9) == jobs[:2]
    for spent, wait in (
        (2, 334),
        (3, 333),
        (4, 334),
    ):  # conforms 333,334 µs, 666,668 µs and 1,000,002 µs after the first
        world.tick(wait - 1)
        assert world.nothing()
        world.tick(1)
        assert world.claim_ids(9) == jobs[spent : spent + 1]


def test_everyones_rate_is_counted_per_tenant(world: World) -> None:
    world.configure(rate=Rate(1, SECOND))
    for tenant in ("a", "b"):
        world.add_many(2, tenant=tenant)
    assert len(world.claim(9).jobs) == 2


def test_a_rate_is_never_refunded(world: World) -> None:
    world.configure(rate=Rate(1, SECOND))
    token = world.start()
    ok(world.release(token))
    assert world.nothing()
    world.tick(SECOND)
    assert world.claim_ids() == [token.job_id]


def test_every_claim_of_a_job_is_spent(world: World) -> None:
    world.configure(rate=Rate(1, SECOND), burst=2)
    token = world.start()
    ok(world.retry(token))
    assert world.claim_ids() == [token.job_id]
    world.add()
    assert world.nothing()


def test_an_empty_claim_spends_nothing(world: World) -> None:
    world.configure(rate=Rate(1, SECOND))
    assert world.nothing()
    id = world.add()
    assert world.claim_ids() == [id]


def test_a_spent_queue_doesnt_hold_the_tenants_others(world: World) -> None:
    world.configure("mail", rate=Rate(1, SECOND))
    mail, video = world.add_many(2, "mail"), world.add_many(2, "video")
    assert world.claim_ids(9, "mail", "video") == [mail[0], *video]


def test_groups_have_rates_of_their_own(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_rate=Rate(1, SECOND), group_burst=2)
    a = world.add_many(3, group="a")
    b = world.add_many(1, group="b")
    assert world.claim_ids(9) == [a[0], b[0], a[1]]
    world.tick(SECOND - 1)
    assert world.nothing()
    world.tick(1)
    assert world.claim_ids(9) == a[2:]


def test_both_rates_conform_before_either_is_spent(world: World) -> None:
    world.configure(mode=Mode.KEYED, rate=Rate(1, SECOND), burst=2, group_rate=Rate(1, MINUTE))
    a = world.add_many(2, group="a")
    assert world.claim_ids(9) == a[:1], "group a refuses its second job"
    b = world.add(group="b")
    assert world.claim_ids(9) == [b], "that refusal left the queue's second job in the bucket"
    world.add(group="c")
    assert world.nothing(), "the queue's bucket is empty now"
    world.tick(SECOND)
    assert len(world.claim(9).jobs) == 1


def test_a_queue_bucket_that_refuses_spends_no_group(world: World) -> None:
    world.configure(mode=Mode.KEYED, rate=Rate(1, SECOND), group_rate=Rate(1, MINUTE))
    world.add(group="a")
    b = world.add(group="b")
    assert len(world.claim(9).jobs) == 1
    world.tick(SECOND)
    assert world.claim_ids(9) == [b]


def test_a_new_rate_counts_from_what_was_spent(world: World) -> None:
    world.configure(rate=Rate(1, MINUTE))
    world.start()
    waiting = world.add()
    world.configure(rate=Rate(1, MINUTE), burst=2)
    assert world.claim_ids(9) == [waiting]


def test_without_a_rate_nothing_is_held(world: World) -> None:
    world.configure(rate=Rate(1, MINUTE))
    world.start()
    jobs = world.add_many(3)
    world.configure()
    assert world.claim_ids(9) == jobs


@pytest.mark.parametrize(
    ("count", "period", "ms"), [(1, 1, 1), (1_000, SECOND, 1), (60, MINUTE, 1_000), (7, SECOND, 143)]
)
def test_the_next_job_comes_after(world: World, count: int, period: Ms, ms: Ms) -> None:
    world.configure(rate=Rate(count, period))
    world.add_many(2)
    assert world.claim(2).wake_after == ms
    world.tick(ms - 1)
    assert world.nothing()
    world.tick(1)
    assert not world.nothing()
