"""Configuration (§11): nearest value field by field, pause, modes, and what writing it tells the feed."""

import pytest

from tenure.domain.calls import Document, Settled
from tenure.domain.errors import GroupRequired, InvalidValue, ModeConflict
from tenure.domain.event import Event
from tenure.domain.names import EVERYONE
from tenure.domain.states import EventKind, Mode, State
from tenure.testing.conformance.kit import World, ok


def kinds(events: list[Event]) -> str:
    return " ".join(event.kind.value for event in events)


def test_a_paused_queue_gives_nothing(world: World) -> None:
    id = world.add()
    world.configure(paused=True)
    assert world.nothing()
    world.configure(paused=False)
    assert world.claim_ids() == [id]


def test_one_tenants_queue_can_be_paused(world: World) -> None:
    world.add()
    bolt = world.add(tenant="bolt")
    world.configure(tenant="acme", paused=True)
    assert world.claim_ids(9) == [bolt]


def test_a_tenant_can_be_paused(world: World) -> None:
    world.add("mail")
    world.add("video")
    world.configure_tenant("acme", paused=True)
    assert world.nothing("mail", "video")
    world.configure_tenant("acme", paused=False)
    assert len(world.claim(9, "mail", "video").jobs) == 2


def test_paused_anywhere_is_paused(world: World) -> None:
    world.add()
    world.configure(tenant=EVERYONE, paused=True)
    world.configure(tenant="acme", paused=False)
    assert world.nothing()


def test_pause_takes_and_finishes_but_gives_nothing(world: World) -> None:
    token = world.start()
    world.configure(paused=True)
    world.add()
    ok(world.renew(token))
    assert world.succeed(token) == Settled(State.SUCCEEDED)
    assert world.nothing()


def test_a_paused_queue_doesnt_hold_the_tenants_others(world: World) -> None:
    world.add("mail")
    video = world.add("video")
    world.configure("mail", paused=True)
    assert world.claim_ids(9, "mail", "video") == [video]


def test_the_nearest_value_holds_field_by_field(world: World) -> None:
    world.configure(tenant=EVERYONE, limit=1, lease=7_000)
    world.configure(tenant="acme", limit=2)
    world.add_many(3)
    taken = world.claim(9)
    assert [job.job.lease.ttl for job in taken.jobs if job.job.lease] == [7_000, 7_000]


def test_a_deleted_configuration_leaves_the_next_level(world: World) -> None:
    world.configure(tenant=EVERYONE, limit=1)
    world.configure(tenant="acme", limit=3)
    world.add_many(4)
    ok(world.write(Document(tenant="acme", kind="queue", name="mail", body=None)))
    assert len(world.claim(9).jobs) == 1
    ok(world.write(Document(tenant=EVERYONE, kind="queue", name="mail", body=None)))
    assert len(world.claim(9).jobs) == 3


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("queue", b"{"),
        ("queue", b"[]"),
        ("queue", b'{"limits": 3}'),
        ("queue", b'{"limit": 0}'),
        ("queue", b'{"weight": 17}'),
        ("queue", b'{"mode": "fast"}'),
        ("queue", b'{"rate": [0, 1000]}'),
        ("tenant", b'{"weight": 0}'),
        ("tenant", b'{"limit": 1}'),
    ],
)
def test_a_malformed_configuration_is_an_error(world: World, kind: str, body: bytes) -> None:
    name = "mail" if kind == "queue" else "acme"
    with pytest.raises(InvalidValue):
        world.write(Document(tenant="acme", kind=kind, name=name, body=body))
    assert world.documents(kind) == []
    assert world.events() == []


def test_the_mode_changes_only_while_the_queue_is_empty(world: World) -> None:
    token = world.start()
    assert world.try_configure(mode=Mode.KEYED) == ModeConflict("plain")
    assert world.documents("queue", EVERYONE) == []
    ok(world.succeed(token))
    world.configure(mode=Mode.KEYED)
    assert world.put(world.job()) == GroupRequired("mail")


def test_every_waiting_job_keeps_the_mode(world: World) -> None:
    world.configure(mode=Mode.KEYED)
    world.add(group="g", tenant="bolt")
    assert world.try_configure(mode=Mode.PLAIN) == ModeConflict("keyed")
    assert world.try_configure(tenant="bolt", mode=Mode.PLAIN) == ModeConflict("keyed")
    world.configure(tenant="acme", mode=Mode.PLAIN)
    world.add()


def test_dropping_the_mode_is_changing_it(world: World) -> None:
    world.configure(mode=Mode.KEYED)
    world.add(group="g")
    assert world.try_configure() == ModeConflict("keyed")


def test_other_fields_change_at_any_time(world: World) -> None:
    world.configure(mode=Mode.KEYED)
    world.add(group="g")
    world.configure(mode=Mode.KEYED, group_limit=3, weight=2)


def test_writing_is_an_event_of_the_tenant_concerned(world: World) -> None:
    world.configure(tenant="acme", limit=3)
    world.configure_tenant("bolt", weight=2)
    assert kinds(world.events("acme")) == "configured"
    assert kinds(world.events("bolt")) == "configured"
    (event,) = world.events("acme")
    assert (event.kind, event.at, event.queue) == (EventKind.CONFIGURED, world.now, "mail")
    assert (event.job_id, event.version) == (None, None)


def test_everyones_configuration_is_a_system_event(world: World) -> None:
    world.configure(tenant=EVERYONE, limit=3)
    assert [(event.tenant, event.kind) for event in world.events()] == [("_system", EventKind.CONFIGURED)]
    assert world.events("acme") == []


def test_pause_and_resume_are_events(world: World) -> None:
    world.configure(tenant="acme", paused=True)
    world.configure(tenant="acme", paused=False)
    assert kinds(world.events("acme")) == "paused resumed"
    world.configure_tenant("bolt", paused=True)
    world.configure_tenant("bolt")
    assert kinds(world.events("bolt")) == "paused resumed"


def test_nothing_changed_is_no_event(world: World) -> None:
    world.configure(tenant="acme", limit=3)
    world.configure(tenant="acme", limit=3)
    assert kinds(world.events("acme")) == "configured"


def test_the_same_pause_again_is_no_event(world: World) -> None:
    world.configure(tenant="acme", paused=True)
    world.configure(tenant="acme", paused=True)
    assert kinds(world.events("acme")) == "paused"


def test_deleting_is_an_event_iff_it_was_there(world: World) -> None:
    gone = Document(tenant="acme", kind="queue", name="mail", body=None)
    ok(world.write(gone))
    assert world.events() == []
    world.configure(tenant="acme", limit=3)
    ok(world.write(gone))
    assert kinds(world.events("acme")) == "configured configured"
