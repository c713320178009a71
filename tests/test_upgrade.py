"""Upgrades in small; `make upgrade` runs the large ones. How long a call was blocked is judged there alone."""

import asyncio
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from tenure.domain.calls import Enqueued
from tenure.domain.errors import StoreUnavailable
from tests.upgrade.bases import BASES, NoHistory, source_of
from tests.upgrade.campaign import Report, run
from tests.upgrade.company import migrated
from tests.upgrade.jobs import produced
from tests.upgrade.plan import Plan, opened
from tests.upgrade.reading import differences, shown


def check(report: Report) -> None:
    assert report.faults == []
    assert (report.lost, report.settled_twice) == (0, 0)
    assert report.compared > report.jobs / 2
    assert report.ended_by_old


@pytest.mark.parametrize("base", BASES)
def test_a_file_is_upgraded_while_both_versions_work(tmp_path: Path, base: str) -> None:
    check(run(Plan(folder=str(tmp_path), base=base), print))


@pytest.mark.parametrize("base", BASES)
def test_a_database_is_upgraded_while_both_versions_work(tmp_path: Path, base: str, postgres_url: str) -> None:
    plan = Plan(folder=str(tmp_path), base=base, server=postgres_url, database=f"upgraded_{uuid4().hex}")
    try:
        check(run(plan, print))
    finally:
        plan.drop()


@pytest.mark.parametrize("base", BASES)
def test_a_new_program_on_an_earlier_schema_works_or_says_what_to_do(
    tmp_path: Path, base: str, postgres_url: str
) -> None:
    plan = Plan(folder=str(tmp_path), base=base, server=postgres_url, database=f"upgraded_{uuid4().hex}")
    plan.create()
    try:
        with source_of(base) as source:
            migrated(plan, source)
        asyncio.run(worked_or_refused(plan))
    finally:
        plan.drop()


async def worked_or_refused(plan: Plan) -> None:
    store = opened(plan)
    job = produced(1, {})
    said = None
    try:
        await store.enqueue([job])
    except StoreUnavailable as refused:
        said = str(refused)
    assert said is None or "or one of another version: call migrate() first" in said
    await store.migrate()
    assert await store.enqueue([job]) == [Enqueued(job.id)]
    assert await store.verify() == []
    await store.close()


def test_a_clone_without_the_history_says_how_to_get_it(tmp_path: Path) -> None:
    with (
        pytest.raises(NoHistory, match=f"{BASES[0]} isn't in this copy.*git fetch --unshallow"),
        source_of(BASES[0], tmp_path),
    ):
        pass


class Note(msgspec.Struct, frozen=True):
    text: str
    tags: tuple[str, ...] = ()
    seen: list[str] = []


def test_what_both_versions_read_alike_is_no_difference() -> None:
    assert list(differences(shown(("acme", Note("a", ("b",)))), ("acme", Note("a", ("b",))))) == []
    assert list(differences({"text": "a"}, Note("a"), "note")) == []  # new fields, at their defaults


def test_a_field_that_changed_is_gone_or_new_is_a_difference() -> None:
    assert list(differences({"text": "a", "tags": ["b"]}, Note("a", ("c",)))) == [".tags[0] was 'b', is 'c'"]
    assert list(differences({"text": "a", "tags": ["b"], "seen": []}, Note("a"))) == [".tags was ['b'], is []"]
    assert list(differences({"text": "a", "author": "b"}, Note("a"))) == [".author is gone"]
    assert list(differences({"text": "a"}, Note("a", seen=["b"]), "note")) == [
        "note.seen is new and ['b'], not its default"
    ]
    assert list(differences({"text": "a"}, Note("b"))) == [".text was 'a', is 'b'"]
