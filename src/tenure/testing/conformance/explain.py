"""Explain (§3): all the gates that hold a job, in their order."""

from typing import Any

from tenure.domain.job import Parent
from tenure.domain.names import HOUR, MINUTE, SECOND
from tenure.domain.rate import Rate
from tenure.domain.states import Gate, Mode
from tenure.testing.conformance.kit import DEADLINE, World, ok


def test_a_ready_job_is_held_by_nothing(world: World) -> None:
    assert world.gates(world.add()) == ()


def test_gates_are_told_only_when_asked_for(world: World) -> None:
    id = world.add(delay=HOUR)
    assert world.get(id).gates == ()
    assert world.gates(id) == (Gate.SCHEDULED,)


def test_blocked(world: World) -> None:
    assert world.gates(world.add(parents=(Parent(world.add()),))) == (Gate.BLOCKED,)


def test_scheduled_until_its_millisecond(world: World) -> None:
    id = world.add(delay=SECOND)
    world.tick(SECOND - 1)
    assert world.gates(id) == (Gate.SCHEDULED,)
    world.tick(1)
    assert world.gates(id) == ()


def test_expired(world: World) -> None:
    id = world.add(expires=SECOND)
    world.tick(SECOND)
    assert world.gates(id) == (Gate.EXPIRED,)


def test_tenant_paused(world: World) -> None:
    id = world.add()
    world.configure_tenant(paused=True)
    assert world.gates(id) == (Gate.TENANT_PAUSED,)


def test_queue_paused(world: World) -> None:
    id = world.add()
    world.configure(paused=True)
    assert world.gates(id) == (Gate.QUEUE_PAUSED,)
    world.configure()
    world.configure(tenant="acme", paused=True)
    assert world.gates(id) == (Gate.QUEUE_PAUSED,)


def test_limit(world: World) -> None:
    world.configure(limit=1)
    token = world.start()
    id = world.add()
    assert world.gates(id) == (Gate.LIMIT,)
    ok(world.succeed(token))
    assert world.gates(id) == ()


def test_a_draining_slot_counts(world: World) -> None:
    world.configure(limit=1)
    token = world.start()
    id = world.add()
    ok(world.cancel(token.job_id))
    assert world.gates(id) == (Gate.LIMIT,)
    world.tick(DEADLINE + 1)
    world.sweep()
    assert world.gates(id) == ()


def test_group_limit(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_limit=1)
    world.start(group="g")
    assert world.gates(world.add(group="g")) == (Gate.GROUP_LIMIT,)
    assert world.gates(world.add(group="h")) == ()


def test_ordered(world: World) -> None:
    world.configure(mode=Mode.KEYED, ordered=True)
    head = world.add(group="g", delay=HOUR)
    second = world.add(group="g")
    assert world.gates(head) == (Gate.SCHEDULED,)
    assert world.gates(second) == (Gate.ORDERED,)


def test_rate(world: World) -> None:
    world.configure(rate=Rate(1, MINUTE))
    world.start()
    id = world.add()
    world.tick(MINUTE - 1)
    assert world.gates(id) == (Gate.RATE,)
    world.tick(1)
    assert world.gates(id) == ()


def test_group_rate(world: World) -> None:
    world.configure(mode=Mode.KEYED, group_rate=Rate(1, MINUTE))
    world.start(group="g")
    assert world.gates(world.add(group="g")) == (Gate.GROUP_RATE,)
    assert world.gates(world.add(group="h")) == ()


def test_all_gates_in_order(world: World) -> None:
    spent = Rate(1, HOUR)
    rules: dict[str, Any] = {"mode": Mode.KEYED, "ordered": True, "limit": 1, "rate": spent, "group_rate": spent}
    world.configure(**rules)
    world.start(group="g")
    id = world.add(group="g", delay=HOUR)
    world.configure(**rules, paused=True)
    world.configure_tenant(paused=True)
    assert world.gates(id) == (
        Gate.SCHEDULED,
        Gate.TENANT_PAUSED,
        Gate.QUEUE_PAUSED,
        Gate.LIMIT,
        Gate.GROUP_LIMIT,
        Gate.ORDERED,
        Gate.RATE,
        Gate.GROUP_RATE,
    )


def test_expired_comes_after_scheduled(world: World) -> None:
    id = world.add(delay=HOUR, expires=SECOND)
    world.configure(paused=True)
    world.tick(SECOND)
    assert world.gates(id) == (Gate.SCHEDULED, Gate.EXPIRED, Gate.QUEUE_PAUSED)


def test_blocked_comes_first(world: World) -> None:
    id = world.add(parents=(Parent(world.add()),))
    world.configure(paused=True)
    assert world.gates(id) == (Gate.BLOCKED, Gate.QUEUE_PAUSED)


def test_running_and_ended_jobs_wait_for_nothing(world: World) -> None:
    token = world.start()
    world.configure(paused=True, limit=1)
    assert world.gates(token.job_id) == ()
    ok(world.succeed(token))
    assert world.gates(token.job_id) == ()
