"""Results (§13): kept apart from the record, by expiry."""

from tenure.domain.calls import Succeed
from tenure.domain.job import Parent, Result
from tenure.domain.names import DAY, HOUR, MAX_RESULT, MINUTE
from tenure.domain.states import State, Unique
from tenure.testing.conformance.kit import World, ok


def test_a_result_is_read_with_the_job(world: World) -> None:
    token = world.start()
    ok(world.settle(token, Succeed(b"\x00\xff", codec="msgpack")))
    assert world.get(token.job_id).result == Result(b"\x00\xff", "msgpack", world.now + HOUR)


def test_a_job_without_result(world: World) -> None:
    assert world.get(world.succeeded()).result is None
    assert world.get(world.add()).result is None


def test_an_empty_result_is_one(world: World) -> None:
    result = world.get(world.succeeded(result=b"")).result
    assert result == Result(b"", "json", world.now + HOUR)


def test_the_largest_result(world: World) -> None:
    body = bytes(MAX_RESULT)
    result = world.get(world.succeeded(result=body)).result
    assert result is not None
    assert result.body == body


def test_a_result_lives_for_its_ttl(world: World) -> None:
    id = world.succeeded(result=b"1", result_ttl=MINUTE)
    world.tick(MINUTE - 1)
    assert world.get(id).result == Result(b"1", "json", world.now + 1)
    world.tick(1)
    assert world.get(id).result is None
    assert world.state(id) is State.SUCCEEDED


def test_the_ttl_counts_from_the_end(world: World) -> None:
    token = world.start(result_ttl=MINUTE)
    world.tick(MINUTE // 2)
    ok(world.succeed(token, b"1"))
    assert world.get(token.job_id).result == Result(b"1", "json", world.now + MINUTE)


def test_sweep_doesnt_change_what_is_read(world: World) -> None:
    id = world.succeeded(result=b"1", result_ttl=MINUTE)
    world.tick(MINUTE - 1)
    world.sweep()
    assert world.get(id).result is not None
    world.tick(1)
    world.sweep()
    assert world.get(id).result is None


def test_a_window_keeps_the_result_as_long_as_the_key(world: World) -> None:
    id = world.succeeded(key="k", unique=Unique.WINDOW, unique_for=DAY, result=b"1")
    assert world.get(id).result == Result(b"1", "json", world.now + DAY)


def test_a_window_never_shortens_the_ttl(world: World) -> None:
    id = world.succeeded(key="k", unique=Unique.WINDOW, unique_for=MINUTE, result=b"1")
    assert world.get(id).result == Result(b"1", "json", world.now + HOUR)


def test_ttl_zero_keeps_no_result(world: World) -> None:
    assert world.get(world.succeeded(result=b"1", result_ttl=0)).result is None


def test_the_first_result_holds(world: World) -> None:
    token = world.start()
    ok(world.succeed(token, b"1"))
    world.tick(MINUTE)
    ok(world.succeed(token, b"2"))
    assert world.get(token.job_id).result == Result(b"1", "json", world.now - MINUTE + HOUR)


def test_a_child_of_the_same_batch_cant_bring_back_a_result_past_its_time(world: World) -> None:
    """One call answers as two would: the result was past its time when the child came."""
    parent, other = world.start(result_ttl=0), world.start()
    child = world.job(parents=(Parent(parent.job_id),), delay=HOUR)
    world.settle_all((parent, Succeed(b"1")), (other, Succeed(jobs=(child,))))
    assert world.get(parent.job_id).result is None
