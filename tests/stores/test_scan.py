"""Jobs by the column, against the same jobs one by one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.domain.calls import JobFilter, JobView
from tenure.domain.errors import InvalidValue
from tenure.domain.job import Job
from tenure.domain.states import State
from tenure.domain.store import Columns, Span
from tenure.stores.sql.scan import KNOWN
from tenure.stores.sql.snapshot import SqlSnapshot
from tests.schemas import new_schema
from tests.stores.everything import Everything, everything_read, id_of

FEW = {"tenant", "id", "result"}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | str]:
    if request.param == "sqlite":
        yield tmp_path_factory.mktemp("scan") / "jobs.db"
    else:
        with new_schema(request.getfixturevalue("postgres_url")) as url:
            yield url


@pytest.fixture(scope="module")
def snapshot(place: Path | str) -> Iterator[SqlSnapshot]:
    with everything_read(place) as opened:
        yield opened


def value(view: JobView, field: str) -> Any:
    """What a job's own view says of a field."""
    match field:
        case "status" | "payload" | "result":
            return getattr(view, field)
    return getattr(view.job if field in Job.__struct_fields__ else view.job.spec, field)


def by_job(pages: Iterator[Columns]) -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for page in pages:
        for at, ref in enumerate(zip(page["tenant"], page["id"], strict=True)):
            found[ref] = {field: values[at] for field, values in page.items()}
    return found


@pytest.mark.parametrize("limit", [3, 1_000])
def test_every_field_is_that_of_the_job(snapshot: SqlSnapshot, limit: int) -> None:
    found = by_job(snapshot.scan(JobFilter(), KNOWN, limit=limit))
    views = snapshot.query(JobFilter(), limit=1_000).jobs
    assert found.keys() == {view.job.ref for view in views}
    for view in views:
        row = found[view.job.ref]
        letter = row.pop("dead_letter")
        assert (letter and letter.disposition, letter and letter.new_id) == (view.dead_letter, view.replayed_as)
        assert row == {field: value(view, field) for field in row}


def test_everything_is_there_to_be_compared(snapshot: SqlSnapshot) -> None:
    """Each kind of value is had by some job and not by others."""
    found = list(by_job(snapshot.scan(JobFilter(), KNOWN)).values())
    assert {row["state"] for row in found} == set(State)
    assert {row["status"] for row in found} >= {"scheduled", "ready", "retrying", "expired", "blocked"}
    for field in ("key", "group", "labels", "parents", "replay_of", "expires_at", "lease", "progress", "last_error"):
        assert 0 < sum(1 for row in found if row[field]) < len(found), field
    assert {row["id"] for row in found if row["result"]} == {id_of("ok"), id_of("other"), id_of("parent")}


@pytest.mark.parametrize("field", sorted(KNOWN))
def test_a_field_alone_is_the_same(snapshot: SqlSnapshot, field: str) -> None:
    together = by_job(snapshot.scan(JobFilter(), KNOWN))
    alone = by_job(snapshot.scan(JobFilter(), {"tenant", "id", field}))
    assert {ref: row[field] for ref, row in alone.items()} == {ref: row[field] for ref, row in together.items()}


@pytest.mark.parametrize(
    "where",
    [
        JobFilter(tenant="zoo"),
        JobFilter(labels={"team": "crm"}),
        JobFilter(tenant="acme", labels={"team": "crm", "region": "eu"}),
        JobFilter(states=(State.FAILED, State.RUNNING)),
        JobFilter(queue="mail", job_type="send"),
    ],
)
def test_a_filter_chooses_the_same_jobs(snapshot: SqlSnapshot, where: JobFilter) -> None:
    found = by_job(snapshot.scan(where, {"tenant", "id"}))
    assert found.keys() == {view.job.ref for view in snapshot.query(where).jobs}
    assert found


@pytest.mark.parametrize("where", [JobFilter(), JobFilter(states=(State.SUCCEEDED,)), JobFilter(tenant="acme")])
def test_results_are_the_same_whatever_is_read_with_them(snapshot: SqlSnapshot, where: JobFilter) -> None:
    views = {view.job.ref: view.result for view in snapshot.query(where).jobs}
    spans = snapshot.split(3)
    found = {ref: row["result"] for span in spans for ref, row in by_job(snapshot.scan(where, FEW, span=span)).items()}
    assert found == views
    assert sum(1 for one in found.values() if one) == 3


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 1_000])
def test_parts_hold_every_job_once(snapshot: SqlSnapshot, parts: int) -> None:
    spans = snapshot.split(parts)
    whole = [id for page in snapshot.scan(JobFilter(), {"id"}) for id in page["id"]]
    found = [id for span in spans for page in snapshot.scan(JobFilter(), {"id"}, span=span) for id in page["id"]]
    assert found == whole
    assert len(spans) == min(parts, len(whole))
    assert (spans[0].after, spans[-1].until) == (None, None)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_an_empty_store_is_one_part(tmp_path: Path, postgres_url: str, store: str) -> None:
    with new_schema(postgres_url) as url:
        made = Everything(tmp_path / "jobs.db" if store == "sqlite" else url)
        asyncio.run(made.store.migrate())
        with made.store.snapshot() as opened:
            assert opened.split(4) == [Span()]
            assert list(opened.scan(JobFilter(), {"id"})) == []


def test_a_field_that_jobs_dont_have_is_refused(snapshot: SqlSnapshot) -> None:
    with pytest.raises(InvalidValue, match="colour"):
        next(snapshot.scan(JobFilter(), {"colour"}))
