"""Every Python example in the documents runs as it stands, in a folder of its own.

Those that start a Spark session are run by tests/spark/test_pages.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.engine.options import JobOptions
from tenure.engine.queue import QueueOptions
from tenure.service.cli.main import COMMANDS
from tests import reference

ROOT = Path(__file__).resolve().parent.parent
SPARK = "tenure.spark"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PRINTS = re.compile(r"# prints: (.*)$", re.MULTILINE)


def examples(*, spark: bool) -> list[Any]:
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
        if (SPARK in block) == spark
    ]


def test_the_reference_is_fresh() -> None:
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == reference.page(), "run `make docs`"


def test_the_reference_has_every_public_name_option_setting_and_command() -> None:
    page = reference.page()
    names = {name for name in tenure.__all__ if f"### {name}\n" not in page and f"| `{name}` |" not in page}
    options = {f"`{name}`" for name in JobOptions.__annotations__.keys() | QueueOptions.__annotations__}
    commands = {f"### tenure {name}" for name in COMMANDS}
    assert names == set()
    assert {said for said in options | commands if said not in page} == set()


def test_the_readme_has_an_example() -> None:
    assert BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", examples(spark=False))
def test_an_example_runs(example: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Those that ask for a server's address get one's."""
    given = {"TMPDIR": str(tmp_path)}
    if "DATABASE_URL" in example:
        url = request.getfixturevalue("postgres_url")
        given |= {"DATABASE_URL": url, "TENURE_URL": f"{url}?schema=docs"}
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in PRINTS.findall(example):
        assert said in done.stdout.splitlines(), done.stdout
