"""`make pythons` finds the promised interpreters, and says which are missing."""

from pathlib import Path

import pytest

from tests import pythons
from tests.pythons import ROOT, chosen, found, promised

VERSIONS = ["3.11", "3.12", "3.13"]


def interpreter(path: Path, says: str, code: int = 0) -> str:
    """Something that answers as a Python of that version does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where interpreters are looked for: `bin` is on PATH, `versions` are pyenv's."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: next(map(str, tmp_path.glob(f"bin/{name}")), None))
    return tmp_path


def test_the_classifiers_say_which() -> None:
    assert promised((ROOT / "pyproject.toml").read_text(encoding="utf-8")) == VERSIONS


def test_one_on_path_goes_before_pyenvs(folder: Path) -> None:
    interpreter(folder / "versions/3.12.9/bin/python", "3.12")
    mine = interpreter(folder / "bin/python3.12", "3.12")
    assert found("3.12") == mine


def test_a_shim_that_chooses_nothing_is_passed_over(folder: Path) -> None:
    interpreter(folder / "bin/python3.13", "pyenv: python3.13: command not found", 127)
    interpreter(folder / "versions/3.13.9/bin/python", "3.13")
    newest = interpreter(folder / "versions/3.13.10/bin/python", "3.13")
    assert found("3.13") == newest


def test_what_isnt_there_or_is_another_isnt_found(folder: Path) -> None:
    interpreter(folder / "bin/python3.12", "3.11")
    (folder / "versions/3.12.1").mkdir(parents=True)
    assert found("3.12") is None


def test_which_run() -> None:
    there = {"3.11": "/a", "3.12": "/b", "3.13": None}
    assert chosen(there, [], newest=False) == VERSIONS
    assert chosen(there, ["3.12"], newest=False) == ["3.12"]
    assert chosen({**there, "3.99": "/d"}, [], newest=True) == ["3.99"]
    assert chosen({"3.99": None}, [], newest=True) == []


@pytest.mark.parametrize(("argv", "code"), [([], 1), (["3.12"], 0), (["3.13"], 1)])
def test_a_missing_one_fails_unless_others_were_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str], code: int
) -> None:
    interpreter(folder / "bin/python3.11", "3.11")
    interpreter(folder / "bin/python3.12", "3.12")
    ran: list[tuple[str, list[str]]] = []

    def run(version: str, python: str, goals: list[str]) -> bool:
        ran.append((version, goals))
        return True

    monkeypatch.setattr(pythons, "run", run)
    monkeypatch.setattr("sys.argv", ["pythons", *argv])
    assert pythons.main() == code
    printed = capsys.readouterr().out
    assert ("Python 3.13: not found on PATH or in pyenv" in printed) is ("3.13" in (argv or VERSIONS))
    assert ran == [(version, ["test"]) for version in (argv or VERSIONS) if version != "3.13"]
