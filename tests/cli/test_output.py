"""Words and tables."""

from datetime import UTC, datetime

import pytest

from tenure.domain.job import Failure
from tenure.domain.rate import Rate
from tenure.engine import durations
from tenure.service.cli.output import Column, plain_table, to_json
from tenure.service.cli.words import clean, clip, counted, failure_text, moment, rate_text, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (0, "0 s"), (0.34, "0.3 s"), (12.7, "13 s"), (61, "1 min"), (7_199, "1 h"), (90_000, "1 d")],
)
def test_durations_are_told_in_their_largest_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize("text", ["100/s", "5/min", "10/30s", "1/d", "7/h"])
def test_a_rate_reads_as_it_was_given(text: str) -> None:
    assert rate_text(durations.rate("rate", text)) == text


def test_a_rate_of_an_odd_period() -> None:
    assert rate_text(Rate(1, 1_500)) == "1/1.5s"


def test_texts() -> None:
    assert clean("a\x1b[31m\r\nb\x9bc") == "a [31m b c"
    assert (clip("abcdef", 4), clip("abcd", 4)) == ("abc…", "abcd")
    assert (counted(1, "job"), counted(0, "job"), counted(10_000, "job")) == ("1 job", "0 jobs", "10,000 jobs")
    assert (failure_text(None), failure_text(Failure("A")), failure_text(Failure("A", "b"))) == ("", "A", "A: b")
    assert moment(1_700_000_000_000) == moment(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)) == "2023-11-14 22:13:20Z"


def test_a_plain_table_is_aligned() -> None:
    columns = (Column("name"), Column("count", right=True), Column("more"))
    assert plain_table(columns, [("a", "1", "x"), ("longer", "1000", "")]) == [
        "name    count  more",
        "a           1  x",
        "longer   1000",
    ]


def test_anything_has_a_json() -> None:
    assert to_json({"a": 1j}) == b'{"a":"1j"}'
