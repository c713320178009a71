"""What an installation may lack: only what exists is advised, and one place says it."""

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

import tenure
from tenure.domain.extras import Extra, install, needs

SOURCE = Path(tenure.__file__).parent


def test_every_extra_that_is_advised_exists() -> None:
    declared = metadata("tenure").get_all("Provides-Extra") or []
    assert set(Extra) <= set(declared)


@pytest.mark.parametrize("extra", Extra)
def test_the_command_that_installs_it_is_named_once(extra: Extra) -> None:
    said = needs("this", extra)
    assert said == f"this needs the extra '{extra}': pip install 'tenure[{extra}]'"
    assert install(extra) == f"pip install 'tenure[{extra}]'"


def test_no_other_module_words_that_advice() -> None:
    advising = {path.name for path in SOURCE.rglob("*.py") if re.search(r"pip install '?tenure\[", path.read_text())}
    assert advising == {"extras.py"}
