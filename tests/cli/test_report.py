"""`tenure report`: the command around the report."""

import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from tests.cli.kit import Cli
from tests.spark.gold import MONDAY, Lake


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lake = Lake()
    lake.hour(MONDAY, "acme", enqueued=3, started=3, succeeded=3)
    lake.hour(MONDAY, "other", enqueued=4, started=4, succeeded=4)
    return lake.write(tmp_path / "lake")


def test_a_report_is_written_and_its_place_is_printed(
    cli: Cli, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.done("report", "--lake", str(lake)).out == f"{tmp_path / 'tenure-report.html'}\n"
    page = (tmp_path / "tenure-report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert '<dd class="value">7</dd>' in page


def test_options(cli: Cli, lake: Path, tmp_path: Path) -> None:
    out = tmp_path / "monday.html"
    given = ["--tenant", "acme", "--since", "2026-11-02", "--days", "2", "--target-wait", "30", "--tz", "Europe/Berlin"]
    assert cli.done("report", "--lake", str(lake), "--out", str(out), *given).lines == [str(out)]
    page = out.read_text(encoding="utf-8")
    assert "<h1>Queue report of tenant acme</h1>" in page
    assert '<dd class="value">3</dd>' in page
    assert "Mon 2 Nov 2026, 00:00 to Wed 4 Nov 2026, 00:00 (Europe/Berlin)" in page
    assert "95 % of attempts wait at most 30 s" in page


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["report"], "the following arguments are required: --lake"),
        (["report", "--lake", "nowhere"], "there is no lake; make one with `tenure lake sync --to nowhere`"),
        (["report", "--lake", ".", "--tz", "Mars"], "time zone 'Mars': give a name such as Europe/Berlin"),
        (["report", "--lake", ".", "--since", "monday"], "since 'monday': give a day or a time"),
        (["report", "--lake", ".", "--target-wait", "-1"], "'-1': give a number of seconds"),
        (["report", "--lake", ".", "--days", "0"], "'0': give a whole number, 1 or more"),
    ],
)
def test_misuse(cli: Cli, argv: list[str], said: str) -> None:
    ran = cli(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_without_the_extra_it_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tenure.spark.report")]:
        monkeypatch.delitem(sys.modules, name)
    found = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None if name == "deltalake" else found(name, *rest))
    ran = cli("report", "--lake", ".")
    assert ran.code == 2
    assert ran.err == "tenure: tenure.spark.report needs the extra 'spark': pip install 'tenure[spark]'\n"


def test_a_lake_without_the_extra_names_it_once(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.done("migrate")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)  # as if it weren't installed
    ran = cli("lake", "sync", "--to", str(tmp_path / "lake"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "tenure: this command needs the extra 'spark': pip install 'tenure[spark]'\n"


def test_nothing_heavy_is_imported_for_its_help() -> None:
    code = (
        "import sys; from tenure.service.cli.main import main; main(['report', '--help']); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not {"'pyarrow'", "'pyspark'", "'deltalake'"} & set(done.stdout.splitlines()[-1].strip("[]").split(", "))
