"""What a write can be asked for, and what is said of anything else."""

import pytest

from tenure.domain.errors import InvalidValue
from tenure.spark.write_options import OPTIONS, WriteOptions, write_options

URL = "sqlite:////var/lib/jobs.db"
LEAST = {"url": URL, "jobtype": "enrich", "keycolumns": "id"}


def test_little_is_enough() -> None:
    asked = write_options(LEAST)
    assert asked == WriteOptions(url=URL, job_type="enrich", key_columns=("id",), batch=asked.batch)
    assert write_options(LEAST).batch != asked.batch


def test_everything_at_once() -> None:
    columns = {f"{name}column": name[:1] for name in ("queue", "tenant", "priority", "runat", "group", "labels")}
    asked = {
        "url": URL,
        "jobtype": "enrich",
        "keycolumns": "id, day",
        "queue": "slow",
        "tenant": "acme",
        "payload": "body",
        "app": "shop:app",
        **columns,
        "priority": "-5",
        "maxattempts": "7",
        "resultttl": "60",
        "batchid": "b1",
        "onfull": "fail",
        "waitseconds": "1.5",
        "onreject": "skip",
        "batchsize": "500",
    }
    assert asked.keys() | {"key"} == {name.lower() for name in OPTIONS}
    assert write_options(asked) == WriteOptions(
        url=URL,
        job_type="enrich",
        batch="b1",
        key_columns=("id", "day"),
        queue="slow",
        tenant="acme",
        payload="body",
        app="shop:app",
        queue_column="q",
        tenant_column="t",
        priority_column="p",
        run_at_column="r",
        group_column="g",
        labels_column="l",
        priority=-5,
        max_attempts=7,
        result_ttl=60,
        on_full="fail",
        wait_seconds=1.5,
        on_reject="skip",
        batch_size=500,
    )


def test_the_whole_row_can_be_the_key() -> None:
    assert write_options({"url": URL, "jobtype": "enrich", "key": "row"}).key_columns == ()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": ""}, "option url: say where"),
        ({"url": None}, "option url: say where the store is"),
        ({"jobtype": None}, "option jobType: say which job"),
        ({"jobtype": "a b"}, "option jobType 'a b'"),
        ({"keycolumns": None}, "option keyColumns: name the columns"),
        ({"keycolumns": " "}, "option keyColumns is empty"),
        ({"keycolumns": "id,,day"}, "each once"),
        ({"keycolumns": "id,id"}, "each once"),
        ({"key": "row"}, "say the same: give one"),
        ({"key": "id", "keycolumns": None}, "give key=row"),
        ({"path": "jobs.db"}, "a path was given"),
        ({"jobtipe": "x"}, "did you mean 'jobType'"),
        ({"colour": "red"}, "known are url, jobType"),
        ({"checkpointlocation": "/tmp"}, "'checkpointlocation': known are"),
        ({"queue": "a b"}, "option queue"),
        ({"tenant": "_x"}, "belong to the store"),
        ({"priority": "101"}, "from -100 to 100"),
        ({"priority": "high"}, "from -100 to 100"),
        ({"maxattempts": "0"}, "from 1 to 1000"),
        ({"resultttl": "-1"}, "option resultTtl"),
        ({"batchid": "a b"}, "option batchId"),
        ({"onfull": "ignore"}, "give one of wait, fail"),
        ({"waitseconds": "nan"}, "option waitSeconds"),
        ({"waitseconds": "long"}, "option waitSeconds"),
        ({"onreject": "ignore"}, "give one of fail, skip"),
        ({"batchsize": "1001"}, "from 1 to 1000"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str | None], says: str) -> None:
    asked = {name: value for name, value in {**LEAST, **given}.items() if value is not None}
    with pytest.raises(InvalidValue, match=says):
        write_options(asked)


def test_a_stream_has_a_name_and_a_checkpoint() -> None:
    with pytest.raises(InvalidValue, match="option batchId: give a stream a name"):
        write_options(LEAST, stream=True)
    assert write_options({**LEAST, "batchid": "s1", "checkpointlocation": "/tmp"}, stream=True).batch == "s1"
