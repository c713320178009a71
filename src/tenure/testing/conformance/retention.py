"""Retention (§13, §4): purge takes whole (day, state)s, oldest first, and spares what is still needed."""

from tenure.domain.calls import Enqueued, Purged, Retention
from tenure.domain.errors import JobNotFound
from tenure.domain.job import Parent
from tenure.domain.names import DAY, HOUR
from tenure.domain.states import EventKind, OnParentFailure, State, Unique
from tenure.testing.conformance.kit import World, ok

TODAY = "2027-01-15"
"""The day the world's clock starts in, at 08:00 UTC."""
MIDNIGHT = 16 * HOUR
"""How long after the start that day is past."""


def test_nothing_to_purge(world: World) -> None:
    world.add()
    world.tick(100 * DAY)
    assert world.purge() is None


def test_succeeded_jobs_stay_seven_days_after_their_day(world: World) -> None:
    ids = [world.succeeded(), world.succeeded()]
    world.tick(MIDNIGHT + 7 * DAY - 1)
    assert world.purge() is None
    world.tick(1)
    assert world.purge() == Purged(TODAY, State.SUCCEEDED, 2)
    assert [world.look(id) for id in ids] == [JobNotFound(), JobNotFound()]
    assert world.purge() is None


def test_cancelled_jobs_stay_seven_days(world: World) -> None:
    world.cancelled()
    world.tick(MIDNIGHT + 7 * DAY - 1)
    assert world.purge() is None
    world.tick(1)
    assert world.purge() == Purged(TODAY, State.CANCELLED, 1)


def test_failed_jobs_stay_thirty_days(world: World) -> None:
    ok(world.discard(world.failed()))
    world.tick(MIDNIGHT + 30 * DAY - 1)
    assert world.purge() is None
    world.tick(1)
    assert world.purge() == Purged(TODAY, State.FAILED, 1)


def test_the_last_millisecond_of_a_day_belongs_to_it(world: World) -> None:
    world.tick(MIDNIGHT - 1)
    world.succeeded()
    world.tick(1)
    world.succeeded()
    world.tick(7 * DAY)
    assert world.purge_all() == [Purged(TODAY, State.SUCCEEDED, 1)]


def test_retention_is_configurable(world: World) -> None:
    world.succeeded()
    world.cancelled()
    world.tick(MIDNIGHT)
    assert world.purge(Retention(succeeded=0)) == Purged(TODAY, State.SUCCEEDED, 1)
    assert world.purge(Retention(succeeded=0)) is None


def test_the_oldest_day_goes_first_then_by_state(world: World) -> None:
    world.succeeded()
    world.tick(DAY)
    world.succeeded()
    ok(world.discard(world.failed()))
    world.cancelled()
    world.tick(60 * DAY)
    assert world.purge_all() == [
        Purged(TODAY, State.SUCCEEDED, 1),
        Purged("2027-01-16", State.CANCELLED, 1),
        Purged("2027-01-16", State.FAILED, 1),
        Purged("2027-01-16", State.SUCCEEDED, 1),
    ]


def test_all_tenants_of_a_day_go_together(world: World) -> None:
    world.succeeded()
    world.succeeded(tenant="bolt")
    world.tick(9 * DAY)
    assert world.purge() == Purged(TODAY, State.SUCCEEDED, 2)


def test_an_open_dead_letter_is_spared(world: World) -> None:
    kept, replayed, discarded = world.failed(), world.failed(), world.failed()
    ok(world.replay(replayed, world.id()))
    ok(world.discard(discarded))
    world.tick(60 * DAY)
    assert world.purge_all() == [Purged(TODAY, State.FAILED, 2)]
    assert world.state(kept) is State.FAILED


def test_a_spared_job_goes_once_nothing_holds_it(world: World) -> None:
    id = world.failed()
    world.tick(60 * DAY)
    assert world.purge() is None
    ok(world.discard(id))
    assert world.purge() == Purged(TODAY, State.FAILED, 1)


def test_a_live_window_is_spared(world: World) -> None:
    id = world.succeeded(key="k", unique=Unique.WINDOW, unique_for=20 * DAY)
    world.tick(20 * DAY - 1)
    assert world.purge() is None
    assert world.put(world.job(key="k")) == Enqueued(id, created=False, state=State.SUCCEEDED)
    world.tick(1)
    assert world.purge() == Purged(TODAY, State.SUCCEEDED, 1)


def test_a_retained_key_isnt_spared(world: World) -> None:
    world.succeeded(key="k", unique=Unique.RETAINED)
    world.tick(9 * DAY)
    assert world.purge() == Purged(TODAY, State.SUCCEEDED, 1)
    world.add(key="k")


def test_a_parent_is_spared_while_a_child_is_open(world: World) -> None:
    parent = world.succeeded()
    child = world.add(parents=(Parent(parent),))
    world.tick(9 * DAY)
    assert world.purge() is None
    ok(world.cancel(child))
    assert world.purge() == Purged(TODAY, State.SUCCEEDED, 1)


def test_a_failed_parent_is_spared_for_a_child_that_ignores_it(world: World) -> None:
    parent = world.failed()
    ok(world.discard(parent))
    world.add(parents=(Parent(parent, OnParentFailure.IGNORE),))
    world.tick(60 * DAY)
    assert world.purge() is None


def test_a_spared_day_doesnt_hold_later_ones(world: World) -> None:
    world.failed()
    world.tick(DAY)
    ok(world.discard(world.failed()))
    world.tick(60 * DAY)
    assert world.purge() == Purged("2027-01-16", State.FAILED, 1)


def test_what_still_waits_or_runs_is_never_purged(world: World) -> None:
    token = world.start()
    pending = world.add()
    blocked = world.add(parents=(Parent(pending),))
    world.tick(100 * DAY)
    assert world.purge() is None
    assert world.states([token.job_id, pending, blocked]) == [State.RUNNING, State.PENDING, State.BLOCKED]


def test_after_a_purge_the_id_is_new(world: World) -> None:
    token = world.start()
    ok(world.succeed(token, b"1"))
    world.tick(9 * DAY)
    world.purge()
    assert world.succeed(token) == JobNotFound()
    assert world.put(world.job(id=token.job_id, payload=b"another")) == Enqueued(token.job_id)
    view = world.get(token.job_id)
    assert (view.payload, view.job.version, view.result) == (b"another", 1, None)


def test_purge_is_one_event_of_the_system(world: World) -> None:
    world.succeeded()
    world.succeeded(tenant="bolt")
    world.tick(9 * DAY)
    before = len(world.events())
    world.purge()
    (event,) = world.events()[before:]
    assert (event.kind, event.tenant, event.at) == (EventKind.PURGED, "_system", world.now)
    assert (event.day, event.state, event.count) == (TODAY, "succeeded", 2)
    assert (event.job_id, event.version) == (None, None)


def test_a_slot_that_still_drains_spares_its_record(world: World) -> None:
    """Else the id would be new while the old job's handler may still run under it."""
    token = world.start()
    ok(world.cancel(token.job_id))
    world.tick(9 * DAY)
    assert world.purge() is None
    world.sweep()
    assert world.purge() == Purged(TODAY, State.CANCELLED, 1)
