"""Where ECharts comes from: an installed wheel that carries it, read when a report is made and never kept here."""

import re
from importlib.util import find_spec
from pathlib import Path

from tenure.domain.errors import NotReady
from tenure.domain.extras import Extra, install

PLACES = (("panel", "dist/bundled/echarts/*/dist/echarts.min.js"), ("uiwiz", "elements/echart/echart.min.js"))
"""Packages that bring ECharts whole and as it was published, and where in them it is."""

OLDEST = (5, 5)
HOW = install(Extra.SPARK)

_VERSION = re.compile(r'\.version="(\d+)\.(\d+)\.')


def echarts() -> str:
    """The program text of ECharts. Raises `NotReady` where no package has it."""
    for package, pattern in PLACES:
        for folder in _folders(package):
            for file in sorted(folder.glob(pattern)):
                return _checked(file)
    known = " or ".join(package for package, _ in PLACES)
    raise NotReady(f"the report draws with ECharts, which the package {known} brings, and neither is there: {HOW}")


def _folders(package: str) -> list[Path]:
    """Where a package is, without importing it."""
    spec = find_spec(package)
    return [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []


def _checked(file: Path) -> str:
    """An ECharts that is new enough, and that ends no script element by what it says."""
    text = file.read_text(encoding="utf-8")
    found = _VERSION.search(text)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise NotReady(f"{file} isn't ECharts {wanted} or newer: {HOW} --upgrade")
    if "</script" in text.lower() or "<!--" in text:
        raise NotReady(f"{file} can't be put into a page: it has the text of a tag in it")
    return text
