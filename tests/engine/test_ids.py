"""Job ids."""

import uuid

from tenure.engine.ids import uuid7, uuid7s


def test_ids_grow_whether_they_are_made_one_by_one_or_many_at_once() -> None:
    made = [uuid7(), *uuid7s(9_000), uuid7(), *uuid7s(1), uuid7()]
    assert made == sorted(set(made))
    assert {(uuid.UUID(id).version, uuid.UUID(id).variant) for id in made} == {(7, uuid.RFC_4122)}
    assert all(str(uuid.UUID(id)) == id for id in made)
    assert uuid7s(0) == []
