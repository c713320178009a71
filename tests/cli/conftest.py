"""Each test has a store of its own, and TENURE_URL names it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import Cli, Shop

APP = "tests.cli.shop"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    shop = Shop(tmp_path / "jobs.db")
    monkeypatch.setenv("TENURE_URL", shop.url)
    monkeypatch.setattr(sys, "path", sys.path[:])
    sys.modules.pop(APP, None)
    yield shop
    sys.modules.pop(APP, None)


@pytest.fixture
def cli(shop: Shop, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)
