"""Every example in the documents that starts a Spark session runs as it stands, in an empty folder."""

import pytest

from tests.spark.programs import Programs
from tests.test_docs import PRINTS, examples


@pytest.mark.parametrize("example", examples(spark=True))
def test_an_example_runs(example: str, programs: Programs) -> None:
    ran = programs.script(example)
    assert not ran.failed, ran.failed
    for said in PRINTS.findall(example):
        assert said in ran.printed.splitlines(), ran.printed
