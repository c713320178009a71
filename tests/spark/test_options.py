"""What a read can be asked for, and what is said of anything else."""

import pytest

from tenure.domain.errors import InvalidValue
from tenure.spark.options import ReadOptions, read_options

URL = "sqlite:////var/lib/jobs.db"


def test_a_url_is_enough() -> None:
    assert read_options({"url": URL}) == ReadOptions(URL)


def test_everything_at_once() -> None:
    asked = {"url": URL, "table": "results", "tenant": "acme", "labels": "team=crm, region=eu", "rows": "50"}
    assert read_options(asked) == ReadOptions(URL, "results", "acme", {"team": "crm", "region": "eu"}, 50)


def test_a_batch_is_the_label_that_its_jobs_carry() -> None:
    asked = read_options({"url": URL, "batch": "b1", "labels": "team=crm"})
    assert asked.where.labels == {"team": "crm", "batch": "b1"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "option url: say where the store is"),
        ({"url": ""}, "option url: say where the store is"),
        ({"url": URL, "path": "jobs.db"}, "a path was given"),
        ({"url": URL, "tabel": "jobs"}, "did you mean 'table'"),
        ({"url": URL, "colour": "red"}, "known are url, table"),
        ({"url": URL, "table": "job"}, "give one of jobs, attempts"),
        ({"url": URL, "tenant": "a b"}, "tenant"),
        ({"url": URL, "labels": "team"}, "give name=value pairs"),
        ({"url": URL, "labels": "a=1,a=2"}, "each name once"),
        ({"url": URL, "labels": "a=1", "table": "events"}, "filter the rows instead"),
        ({"url": URL, "rows": "0"}, "give a number from 1"),
        ({"url": URL, "rows": "many"}, "give a number from 1"),
        ({"url": URL, "batch": "a b"}, "option batch"),
        ({"url": URL, "batch": "b1", "labels": "batch=b2"}, "give one"),
        ({"url": URL, "batch": "b1", "table": "events"}, "filter the rows instead"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        read_options(given)
