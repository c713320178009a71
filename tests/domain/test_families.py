"""Families of rows: what is declared once is known everywhere."""

from typing import Any

import pytest

from tenure.domain.model import Tables, Unit
from tenure.domain.model.attached import ATTACHED
from tenure.domain.model.families import FAMILIES
from tenure.domain.model.reads import KINDS
from tenure.domain.model.transfer import KINDS as DUMPED
from tenure.stores.memory_tables import MemoryTables
from tenure.stores.sql import rows

NOT_READ = {"next_seq", "promote", "tidy", "restore", "keep"}
"""What a unit asks of tables besides: a counter, upkeep, and writes."""
NOT_FAMILIES = {"before", "events", "attached", "cleaned", "purged"}
"""Dictionaries of a unit by other keys: what records were, events, rows beside records, and rows that go in time."""


def changes(unit: Unit) -> set[str]:
    """The dictionaries that others see."""
    return {name for name, value in vars(unit).items() if isinstance(value, dict) and not name.startswith("_")}


def test_every_read_of_tables_is_of_one_kind() -> None:
    """Else a store without locks would commit without noticing that its answer is another now."""
    asked = {name for name in vars(Tables) if not name.startswith("_")} - NOT_READ
    kinds = [name for names in KINDS.values() for name in names]
    assert sorted(kinds) == sorted(asked)


def test_a_unit_changes_families_only() -> None:
    assert changes(Unit(MemoryTables(), 0)) - NOT_FAMILIES == {family.changes for family in FAMILIES.values()}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_unit_that_changed_rows_of_a_family_wrote(family: Any) -> None:
    """A payload comes with its record only, and doesn't count for itself."""
    unit = Unit(MemoryTables(), 0)
    getattr(unit, family.changes)["key"] = None
    assert unit.wrote != (family.name == "body")


def test_stores_know_every_family() -> None:
    assert MemoryTables()._rows.keys() == FAMILIES.keys()
    assert rows.ROWS.keys() | {"job", "body", "result"} == FAMILIES.keys()
    assert rows.VALUES.keys() | {"job"} == FAMILIES.keys()
    assert list(DUMPED) == ["meta", *FAMILIES, *ATTACHED, "chunk"]
