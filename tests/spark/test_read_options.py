"""Options of a read that choose jobs, split them and open their bodies."""

from pathlib import Path

import pytest

from tenure.domain.calls import JobFilter
from tenure.domain.errors import InvalidValue
from tenure.domain.states import State
from tenure.spark.options import BYTES, JSON, PARSED, ReadOptions, read_options

URL = "sqlite:////var/lib/jobs.db"


def given(**options: str) -> ReadOptions:
    """As Spark gives them: keys in lower case."""
    return read_options({"url": URL, **{key.lower(): value for key, value in options.items()}})


def test_what_chooses_jobs_is_asked_of_the_store() -> None:
    options = given(
        tenant="acme",
        queue="mail",
        jobType="send",
        state="failed, running",
        labels="team=crm",
        enqueuedFrom="2026-01-01",
        enqueuedBefore="2026-01-02T01:00:00+01:00",
    )
    assert options.where == JobFilter(
        tenant="acme",
        queue="mail",
        job_type="send",
        states=(State.FAILED, State.RUNNING),
        labels={"team": "crm"},
        enqueued_from=1_767_225_600_000,
        enqueued_before=1_767_312_000_000,
    )


def test_what_splits_them() -> None:
    options = given(partitions="8", consistent="false", snapshotSeconds="60", pushdown="true")
    assert (options.partitions, options.consistent, options.snapshot_seconds, options.pushdown) == (8, False, 60, True)
    assert (given().partitions, given().consistent, given().snapshot_seconds, given().pushdown) == (1, True, 600, False)


def test_how_bodies_come() -> None:
    assert given().bodies == BYTES
    assert given(jobType="send").bodies == BYTES
    assert given(app="shop:app", jobType="send").bodies == PARSED
    assert given(app="shop:app", jobType="send", bodies="bytes").bodies == BYTES
    assert given(app="shop:app", bodies="json").bodies == JSON


def test_a_file_is_named_by_its_whole_path_from_here_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_options({"url": "sqlite:///a b.db"}).url == f"sqlite:///{tmp_path}/a%20b.db"
    assert read_options({"url": "sqlite:///a%20b.db"}).url == f"sqlite:///{tmp_path}/a%20b.db"
    assert given().url == URL
    assert read_options({"url": "memory://"}).url == "memory://"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partitions": "0"}, "option partitions='0': give a number from 1 to 10000"),
        ({"partitions": "abc"}, "option partitions='abc': give a number"),
        ({"partitions": "-2"}, "give a number"),
        ({"partitions": "1.5"}, "give a number"),
        ({"partitions": "99999"}, "give a number"),
        ({"consistent": "maybe"}, "option consistent='maybe': give one of true, false"),
        ({"snapshotSeconds": "0"}, "option snapshotSeconds='0': give a number"),
        ({"bodies": "yaml"}, "option bodies='yaml': give one of bytes, json, parsed"),
        ({"bodies": "parsed"}, "give the options app"),
        ({"app": "shop:app"}, "give the options app"),
        ({"jobType": "not a name!"}, "option jobType"),
        ({"queue": ""}, "option queue"),
        ({"state": "failed,done"}, "option state='failed,done': give some of blocked, pending"),
        ({"enqueuedFrom": "yesterday"}, "option enqueuedFrom='yesterday': give a time such as"),
        ({"jobTyp": "x"}, "did you mean 'jobType'"),
        ({"snapshotseconsd": "5"}, "did you mean 'snapshotSeconds'"),
        ({"table": "events", "partitions": "2"}, "option partitions: events are read in order"),
        ({"table": "events", "jobType": "x"}, "option jobType: events"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        given(**options)
