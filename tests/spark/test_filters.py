"""Which of Spark's filters the store is asked, and when it needn't be asked at all."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, Not

from tenure.domain.calls import JobFilter
from tenure.domain.states import State
from tenure.spark.filters import Nothing, pushed

AT = datetime(2026, 1, 1, tzinfo=UTC)
MS = round(AT.timestamp() * 1_000)


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ([EqualTo(("tenant",), "acme")], {"tenant": "acme"}),
        ([EqualTo(("queue",), "mail"), EqualTo(("job_type",), "send")], {"queue": "mail", "job_type": "send"}),
        ([EqualTo(("state",), "failed")], {"states": (State.FAILED,)}),
        ([In(("state",), ("failed", "running", "odd"))], {"states": (State.RUNNING, State.FAILED)}),
        ([In(("state",), ("failed", "running")), EqualTo(("state",), "failed")], {"states": (State.FAILED,)}),
        ([GreaterThanOrEqual(("enqueued_at",), AT)], {"enqueued_from": MS}),
        (
            [GreaterThan(("enqueued_at",), AT), LessThan(("enqueued_at",), AT)],
            {"enqueued_from": MS, "enqueued_before": MS + 1},
        ),
        ([IsNotNull(("tenant",)), Not(EqualTo(("tenant",), "acme")), EqualTo(("priority",), 3)], {}),
        ([EqualTo(("labels", "tenant"), "acme")], {}),
    ],
)
def test_what_the_store_can_answer_is_asked(given: list[Filter], asked: dict[str, Any]) -> None:
    assert pushed(JobFilter(), given) == JobFilter(**asked)


@pytest.mark.parametrize(
    "given",
    [
        [EqualTo(("tenant",), "other")],
        [EqualTo(("queue",), "not a name!")],
        [EqualTo(("state",), "odd")],
        [EqualTo(("state",), "failed"), EqualTo(("state",), "running")],
    ],
)
def test_what_excludes_every_row_asks_nothing(given: list[Filter]) -> None:
    with pytest.raises(Nothing):
        pushed(JobFilter(tenant="acme"), given)
