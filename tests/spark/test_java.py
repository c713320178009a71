"""Which Java is taken, and what is said when there is none."""

import subprocess
from pathlib import Path

import pytest

from tenure.domain.errors import NotReady
from tenure.spark import java


def fake(folder: Path, version: str) -> Path:
    """A home whose Java only says its version."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_the_one_that_was_asked_for_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake(tmp_path / "jdk", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home() == str(home)


@pytest.mark.parametrize(("version", "says"), [("11.0.20", "Java 11, and Spark needs 17"), (None, "no Java answers")])
def test_the_one_that_was_asked_for_is_never_replaced_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, says: str
) -> None:
    home = tmp_path / "nothing" if version is None else fake(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(NotReady, match=says):
        java.java_home()


def test_one_on_the_path_is_taken_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake(tmp_path / "jdk", "17.0.1")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert java.java_home() == str(home)


def test_without_any_the_wheels_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake(tmp_path / "old", "1.8.0") / "bin"))
    home = Path(java.java_home())
    assert home == tmp_path / "cache" / "tenure" / "java"
    assert (java.version_of(home) or 0) >= java.OLDEST


def test_without_the_wheel_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(NotReady, match=r"pip install 'tenure\[spark\]'"):
        java.java_home()


def test_one_argument_is_left_out_and_nothing_else(tmp_path: Path) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nfor word do echo "<$word>"; done\n')
    echo.chmod(0o755)
    home = java.wrapped(echo)
    words = ["-Xmx1g", java.ABSENT_MODULE, "-Da=b c", "", "-cp", "x:*"]
    done = subprocess.run([str(home / "bin" / "java"), *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-Xmx1g>", "<-Da=b c>", "<>", "<-cp>", "<x:*>"]


def test_a_cache_that_cant_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    home = java.wrapped(tmp_path / "java")
    assert (home / "bin" / "java").exists()
