"""Flows (§15): jobs that wait for jobs, and what the end of one does to the others."""

from typing import Any

import pytest

from tenure.domain.calls import Enqueued, Succeed
from tenure.domain.errors import BatchRefused, FlowTooLarge, JobNotFound, ParentCycle, ParentNotFound
from tenure.domain.job import Parent
from tenure.domain.names import DAY, HOUR, MINUTE, SECOND
from tenure.domain.states import Disposition, OnParentFailure, State, Status
from tenure.testing.conformance.kit import DEADLINE, World, ok

CANCEL, FAIL, IGNORE = OnParentFailure.CANCEL, OnParentFailure.FAIL, OnParentFailure.IGNORE


def child_of(world: World, *parents: str, policy: OnParentFailure = CANCEL, **fields: Any) -> str:
    """A new job in queue `video` that waits for these."""
    return world.add("video", parents=tuple(Parent(id, policy) for id in parents), **fields)


def test_a_child_waits_for_its_parent(world: World) -> None:
    token = world.start()
    child = child_of(world, token.job_id)
    assert (world.state(child), world.status(child)) == (State.BLOCKED, Status.BLOCKED)
    assert world.nothing("video")
    world.tick(SECOND)
    ok(world.succeed(token))
    record = world.record(child)
    assert (record.state, record.run_at, record.version) == (State.PENDING, world.now, 2)
    assert world.claim_ids(1, "video") == [child]


def test_a_retry_of_the_parent_resolves_nothing(world: World) -> None:
    token = world.start()
    child = child_of(world, token.job_id)
    ok(world.retry(token))
    assert world.state(child) is State.BLOCKED


def test_an_unblocked_child_keeps_its_own_time(world: World) -> None:
    token = world.start()
    child = child_of(world, token.job_id, delay=HOUR)
    run_at = world.now + HOUR
    world.tick(MINUTE)
    ok(world.succeed(token))
    assert (world.record(child).run_at, world.status(child)) == (run_at, Status.SCHEDULED)


def test_the_last_parent_unblocks(world: World) -> None:
    first, second = world.start(), world.start()
    child = child_of(world, first.job_id, second.job_id)
    ok(world.succeed(second))
    assert world.state(child) is State.BLOCKED
    ok(world.succeed(first))
    assert world.state(child) is State.PENDING


def test_two_parents_that_end_at_once_unblock_once(world: World) -> None:
    first, second = world.start(), world.start()
    child = child_of(world, first.job_id, second.job_id)
    world.settle_all((first, Succeed()), (second, Succeed()))
    assert world.kinds(child) == "enqueued unblocked"
    assert world.claim_ids(9, "video") == [child]


def test_a_parent_that_succeeded_before_counts(world: World) -> None:
    done, running = world.succeeded(), world.start()
    assert world.state(child_of(world, done)) is State.PENDING
    assert world.state(child_of(world, done, running.job_id)) is State.BLOCKED


@pytest.mark.parametrize("end", ["fail", "cancel", "expire", "lose"])
def test_however_a_parent_fails_its_child_is_cancelled(world: World, end: str) -> None:
    id = world.add(expires=SECOND, max_attempts=1)
    child = child_of(world, id)
    if end in ("fail", "lose"):
        token = world.take().token
        if end == "fail":
            ok(world.fail(token))
    elif end == "cancel":
        ok(world.cancel(id))
    world.tick(DEADLINE + 1)
    world.sweep()
    record = world.record(child)
    assert (record.state, record.reason, record.attempt) == (State.CANCELLED, "parent_failed", 0)
    assert world.nothing("video")


def test_a_child_may_fail_with_its_parent(world: World) -> None:
    token = world.start()
    child = child_of(world, token.job_id, policy=FAIL)
    ok(world.fail(token))
    record = world.record(child)
    assert (record.state, record.reason, record.finished_at) == (State.FAILED, "parent_failed", world.now)
    assert world.get(child).dead_letter is Disposition.OPEN


def test_a_child_may_ignore_its_parents_failure(world: World) -> None:
    token = world.start()
    child = child_of(world, token.job_id, policy=IGNORE)
    ok(world.fail(token))
    assert world.claim_ids(1, "video") == [child]


def test_an_ignored_failure_waits_for_the_other_parents(world: World) -> None:
    first, second = world.start(), world.start()
    child = child_of(world, first.job_id, second.job_id, policy=IGNORE)
    ok(world.fail(first))
    assert world.state(child) is State.BLOCKED
    ok(world.succeed(second))
    assert world.state(child) is State.PENDING


def test_one_failed_parent_is_enough(world: World) -> None:
    first, second = world.start(), world.start()
    child = child_of(world, first.job_id, second.job_id)
    ok(world.fail(second))
    assert world.state(child) is State.CANCELLED
    ok(world.succeed(first))
    assert world.kinds(child) == "enqueued cancelled"


def test_each_edge_has_its_policy(world: World) -> None:
    first, second = world.start(), world.start()
    child = world.add("video", parents=(Parent(first.job_id, IGNORE), Parent(second.job_id, FAIL)))
    ok(world.fail(first))
    assert world.state(child) is State.BLOCKED
    ok(world.fail(second))
    assert world.state(child) is State.FAILED


@pytest.mark.parametrize(
    ("policy", "state", "kinds"),
    [
        (CANCEL, State.CANCELLED, "enqueued cancelled"),
        (FAIL, State.FAILED, "enqueued failed"),
        (IGNORE, State.PENDING, "enqueued"),
    ],
)
def test_a_parent_that_failed_before(world: World, policy: OnParentFailure, state: State, kinds: str) -> None:
    parent = world.failed()
    job = world.job("video", parents=(Parent(parent, policy),))
    assert world.put(job) == Enqueued(job.id)
    assert (world.state(job.id), world.kinds(job.id)) == (state, kinds)


def test_failure_cascades(world: World) -> None:
    root = world.add()
    child = child_of(world, root)
    grandchild = child_of(world, child)
    spared = child_of(world, child, policy=IGNORE)
    ok(world.cancel(root))
    assert world.states([child, grandchild, spared]) == [State.CANCELLED, State.CANCELLED, State.PENDING]


def test_a_failed_child_fails_on(world: World) -> None:
    token = world.start()
    child = child_of(world, token.job_id, policy=FAIL)
    grandchild = child_of(world, child, policy=CANCEL)
    ok(world.fail(token))
    assert world.states([child, grandchild]) == [State.FAILED, State.CANCELLED]


def test_a_cancelled_child_leaves_its_parent_alone(world: World) -> None:
    token = world.start()
    child = child_of(world, token.job_id)
    ok(world.cancel(child))
    ok(world.succeed(token))
    assert world.states([token.job_id, child]) == [State.SUCCEEDED, State.CANCELLED]


def test_an_unknown_parent(world: World) -> None:
    missing = world.id()
    assert world.put(world.job(parents=(Parent(missing),))) == ParentNotFound(missing)


def test_a_foreign_parent(world: World) -> None:
    foreign = world.add(tenant="bolt")
    assert world.put(world.job(parents=(Parent(foreign),))) == ParentNotFound(foreign)


def test_a_purged_parent(world: World) -> None:
    parent = world.succeeded()
    world.tick(9 * DAY)
    assert len(world.purge_all()) == 1
    assert world.put(world.job(parents=(Parent(parent),))) == ParentNotFound(parent)


def test_a_batch_may_hold_a_whole_flow(world: World) -> None:
    root = world.job()
    middle = [world.job("video", parents=(Parent(root.id),)) for _ in range(2)]
    last = world.job("zoo", parents=tuple(Parent(job.id) for job in middle))
    assert world.enqueue(root, *middle, last, atomic=True) == [Enqueued(job.id) for job in (root, *middle, last)]
    ok(world.succeed(world.take().token))
    assert world.claim_ids(9, "mail", "video", "zoo") == [job.id for job in middle]
    assert world.state(last.id) is State.BLOCKED


def test_a_parent_later_in_the_batch(world: World) -> None:
    parent = world.job()
    child = world.job(parents=(Parent(parent.id),))
    assert world.enqueue(child, parent) == [ParentNotFound(parent.id), Enqueued(parent.id)]


def test_a_refused_parent_refuses_its_child(world: World) -> None:
    parent = world.job(group="a plain queue refuses it")
    child = world.job(parents=(Parent(parent.id),))
    assert world.enqueue(parent, child)[1] == ParentNotFound(parent.id)
    assert world.look(child.id) == JobNotFound()


def test_a_job_that_waits_for_itself(world: World) -> None:
    id = world.id()
    assert world.put(world.job(id=id, parents=(Parent(id),))) == ParentCycle(id)


def test_a_cycle_in_a_batch(world: World) -> None:
    a, b = world.id(), world.id()
    other = world.job()
    first, second = world.job(id=a, parents=(Parent(b),)), world.job(id=b, parents=(Parent(a),))
    replies = world.enqueue(first, second, other, atomic=True)
    assert replies[0] == ParentCycle(b)
    assert replies[2] == BatchRefused()
    assert world.events() == []


def test_a_parent_has_at_most_a_thousand_children(world: World) -> None:
    parent = world.add()
    children = world.add_many(1_000, "video", parents=(Parent(parent),))
    assert world.put(world.job("video", parents=(Parent(parent),))) == FlowTooLarge(parent)
    ok(world.succeed(world.take().token))
    assert world.claim_ids(1_000, "video") == children


def test_a_long_cascade_goes_on_in_sweep(world: World) -> None:
    chain = [world.id()]
    jobs = [world.job(id=chain[0])]
    for _ in range(1_200):
        jobs.append(world.job("video", parents=(Parent(chain[-1]),)))
        chain.append(jobs[-1].id)
    for start in range(0, len(jobs), 500):
        assert all(ok(reply).created for reply in world.enqueue(*jobs[start : start + 500]))
    ok(world.cancel(chain[0]))
    assert world.states(chain[998:1_003]) == [State.CANCELLED] * 3 + [State.BLOCKED] * 2
    world.sweep()
    assert set(world.states(chain)) == {State.CANCELLED}
    world.freeze()
    assert [item for item in world.dump() if item.kind == "cascade"] == [], "the list of waiting cascades is empty"


def test_a_waiting_cascade_survives_a_crash(world: World) -> None:
    root = world.add()
    first = world.add_many(600, "video", parents=(Parent(root),))
    second = world.add_many(600, "video", parents=(Parent(first[0]),))
    ok(world.cancel(root))
    assert set(world.states(first)) == {State.CANCELLED}, "breadth first"
    assert world.states([second[399], second[400]]) == [State.CANCELLED, State.BLOCKED], "children by arrival"
    world.crash()
    world.sweep()
    assert set(world.states(second)) == {State.CANCELLED}


def test_a_parents_result_lives_until_its_children_ended(world: World) -> None:
    parent = world.start(result_ttl=SECOND)
    child = child_of(world, parent.job_id)
    ok(world.succeed(parent, b"42"))
    world.tick(MINUTE)
    world.sweep()
    result = world.get(parent.job_id).result
    assert result is not None
    assert result.body == b"42"
    ok(world.cancel(child))
    assert world.get(parent.job_id).result is None
