"""Tenancy (§11): a foreign job doesn't exist."""

import msgspec

from tenure.domain.calls import Enqueued, Settled
from tenure.domain.errors import JobNotFound, ParentNotFound
from tenure.domain.job import Parent
from tenure.domain.names import HOUR
from tenure.domain.states import State
from tenure.testing.conformance.kit import World, ok


def test_the_same_id_in_two_tenants_is_two_jobs(world: World) -> None:
    id = world.add(payload=b"a")
    assert world.put(world.job(id=id, tenant="bolt", payload=b"b")) == Enqueued(id)
    assert (world.get(id).payload, world.get(id, "bolt").payload) == (b"a", b"b")
    ok(world.cancel(id, "bolt"))
    assert (world.state(id), world.state(id, "bolt")) == (State.PENDING, State.CANCELLED)


def test_a_foreign_id_isnt_found(world: World) -> None:
    id = world.add()
    assert world.look(id, "bolt") == JobNotFound()
    assert world.cancel(id, "bolt") == JobNotFound()
    assert world.request_cancel(id, "bolt") == JobNotFound()
    assert world.reschedule(id, "bolt", delay=HOUR) == JobNotFound()
    assert world.reprioritise(id, 5, "bolt") == JobNotFound()
    assert world.record(id).version == 1


def test_a_foreign_dead_letter_isnt_found(world: World) -> None:
    id = world.failed()
    assert world.replay(id, world.id(), "bolt") == JobNotFound()
    assert world.discard(id, "bolt") == JobNotFound()


def test_a_token_is_of_one_tenant(world: World) -> None:
    token = world.start()
    foreign = msgspec.structs.replace(token, tenant="bolt")
    assert world.renew(foreign) == JobNotFound()
    assert world.succeed(foreign) == JobNotFound()
    assert world.succeed(token) == Settled(State.SUCCEEDED)


def test_twins_settle_apart(world: World) -> None:
    id = world.add()
    world.add(id=id, tenant="bolt")
    acme, bolt = (job.token for job in world.claim(2).jobs)
    ok(world.fail(bolt))
    assert (world.state(id), world.state(id, "bolt")) == (State.RUNNING, State.FAILED)
    assert world.succeed(acme) == Settled(State.SUCCEEDED)


def test_keys_are_of_one_tenant(world: World) -> None:
    world.add(key="k")
    job = world.job(key="k", tenant="bolt", payload=b"[]")
    assert world.put(job) == Enqueued(job.id)


def test_flows_are_of_one_tenant(world: World) -> None:
    id = world.add()
    assert world.put(world.job(tenant="bolt", parents=(Parent(id),))) == ParentNotFound(id)


def test_a_twin_parent_resolves_only_its_own_children(world: World) -> None:
    id = world.add()
    world.add(id=id, tenant="bolt")
    children = [world.add("video", tenant=tenant, parents=(Parent(id),)) for tenant in ("acme", "bolt")]
    ok(world.succeed(world.take(tenants=("acme",)).token))
    assert world.state(children[0]) is State.PENDING
    assert world.state(children[1], "bolt") is State.BLOCKED


def test_a_worker_can_serve_some_tenants(world: World) -> None:
    world.add()
    bolt = world.add(tenant="bolt")
    assert world.claim_ids(9, tenants=("bolt", "nobody")) == [bolt]
    assert world.nothing(tenants=("nobody",))


def test_a_tenants_settings_are_its_own(world: World) -> None:
    world.configure(tenant="acme", paused=True, max_depth=0)
    world.add(tenant="bolt")
    assert len(world.claim(9).jobs) == 1


def test_one_tenants_query_and_feed(world: World) -> None:
    acme = world.add()
    world.add(tenant="bolt")
    assert world.query(tenant="acme") == [acme]
    assert [event.job_id for event in world.events("acme")] == [acme]
