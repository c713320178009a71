"""Documents: small named bodies with compare-and-set and expiry."""

import pytest

from tenure.domain.calls import Document, Stored
from tenure.domain.errors import VersionConflict
from tenure.domain.names import EVERYONE, MINUTE
from tenure.testing.conformance.kit import World, ok


def note(name: str = "nightly", body: bytes | None = b"{}", tenant: str = "acme", kind: str = "schedule") -> Document:
    return Document(tenant=tenant, kind=kind, name=name, body=body)


def test_a_new_document(world: World) -> None:
    assert world.write(note(body=b'{"at":3}')) == Stored(1)
    (document,) = world.documents("schedule")
    assert (document.tenant, document.kind, document.name) == ("acme", "schedule", "nightly")
    assert (document.body, document.version, document.expires_at) == (b'{"at":3}', 1, None)


def test_each_write_is_a_version(world: World) -> None:
    assert world.write(note(body=b"1")) == Stored(1)
    assert world.write(note(body=b"2")) == Stored(2)
    assert world.write(note(body=b"3")) == Stored(3)
    assert [document.version for document in world.documents("schedule")] == [3]


def test_compare_and_set(world: World) -> None:
    assert world.write(note(body=b"1"), expect=0) == Stored(1)
    assert world.write(note(body=b"2"), expect=1) == Stored(2)
    assert world.write(note(body=b"3"), expect=1) == VersionConflict(2)
    assert world.documents("schedule")[0].body == b"2"


def test_expecting_a_document_that_isnt_there(world: World) -> None:
    assert world.write(note(), expect=1) == VersionConflict(0)
    assert world.documents("schedule") == []


def test_expecting_no_document(world: World) -> None:
    ok(world.write(note(body=b"1")))
    assert world.write(note(body=b"2"), expect=0) == VersionConflict(1)


def test_deleting(world: World) -> None:
    ok(world.write(note()))
    assert world.write(note(body=None)) == Stored(0)
    assert world.documents("schedule") == []
    ok(world.write(note(body=b"1"), expect=0))
    assert [document.body for document in world.documents("schedule")] == [b"1"]


def test_deleting_at_a_version(world: World) -> None:
    ok(world.write(note()))
    assert world.write(note(body=None), expect=2) == VersionConflict(1)
    assert world.write(note(body=None), expect=1) == Stored(0)


def test_deleting_what_isnt_there(world: World) -> None:
    assert world.write(note(body=None)) == Stored(0)


def test_listing_by_name(world: World) -> None:
    for name in ("b", "a-2", "B", "a-1"):
        ok(world.write(note(name)))
    assert [document.name for document in world.documents("schedule")] == ["B", "a-1", "a-2", "b"]
    assert [document.name for document in world.documents("schedule", prefix="a-")] == ["a-1", "a-2"]
    assert world.documents("schedule", prefix="a-3") == []


@pytest.mark.parametrize("prefix", ["a_", "a.", "a-"])
def test_a_prefix_is_no_pattern(world: World, prefix: str) -> None:
    for name in ("a_x", "a.x", "a-x", "abx"):
        ok(world.write(note(name)))
    assert [document.name for document in world.documents("schedule", prefix=prefix)] == [prefix + "x"]


def test_kinds_and_tenants_are_apart(world: World) -> None:
    ok(world.write(note(body=b"1")))
    ok(world.write(note(body=b"2", tenant="bolt")))
    ok(world.write(note(body=b"3", kind="webhook")))
    ok(world.write(note(body=b"4", tenant=EVERYONE)))
    assert [document.body for document in world.documents("schedule")] == [b"1"]
    assert [document.body for document in world.documents("schedule", "bolt")] == [b"2"]
    assert [document.body for document in world.documents("webhook")] == [b"3"]
    assert [document.body for document in world.documents("schedule", EVERYONE)] == [b"4"]


def test_a_document_may_expire(world: World) -> None:
    ok(world.write(note(), ttl=MINUTE))
    assert world.documents("schedule")[0].expires_at == world.now + MINUTE
    world.tick(MINUTE - 1)
    assert len(world.documents("schedule")) == 1
    world.tick(1)
    assert world.documents("schedule") == []


def test_an_expired_document_is_absent(world: World) -> None:
    ok(world.write(note(body=b"1"), ttl=MINUTE))
    world.tick(MINUTE)
    assert world.write(note(body=b"2"), expect=1) == VersionConflict(0)
    ok(world.write(note(body=b"2"), expect=0))
    assert world.documents("schedule")[0].body == b"2"


def test_a_write_renews_the_expiry(world: World) -> None:
    ok(world.write(note(), ttl=MINUTE))
    world.tick(MINUTE // 2)
    ok(world.write(note(), ttl=MINUTE))
    assert world.documents("schedule")[0].expires_at == world.now + MINUTE


def test_documents_survive_a_crash(world: World) -> None:
    ok(world.write(note(body=b"1")))
    world.crash()
    assert world.documents("schedule")[0].body == b"1"
