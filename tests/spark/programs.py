"""Programs that start a Spark session of their own, one after the other in one process: they share its Java.

`python -m tests.spark.programs` reads what to run, a line of JSON each, and answers with a line of JSON.
"""

import contextlib
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import NamedTuple, TextIO

from tests.spark import quick

ROOT = Path(__file__).resolve().parents[2]


class Ran(NamedTuple):
    """How a program ended: what it printed, and what it was ended by (empty: nothing)."""

    printed: str
    failed: str


class Programs:
    """The process, in a folder that is the current one of all its programs and of their Java."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", __name__],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder), **quick.environment(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def clear(self) -> None:
        """Takes away what programs before have left."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def script(self, text: str) -> Ran:
        """`python FILE`, of a file with this text."""
        file = self.folder / "example.py"
        file.write_text(text, encoding="utf-8")
        return self._run([str(file)])

    def module(self, name: str, *arguments: str) -> Ran:
        """`python -m NAME ARGUMENTS`."""
        return self._run(["-m", name, *arguments])

    def _run(self, argv: list[str]) -> Ran:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(argv) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{argv} ended the process"
        return Ran(*json.loads(answer))

    def close(self) -> None:
        try:
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()
            self._process.communicate()


# Inside the process


def main() -> None:
    answers = _stdout_alone()
    for line in sys.stdin:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            failed = _failure(json.loads(line))
        answers.write(json.dumps([printed.getvalue(), failed]) + "\n")
        answers.flush()


def _stdout_alone() -> TextIO:
    """What is read outside; processes below have stderr for both."""
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return kept


def _failure(argv: list[str]) -> str:
    try:
        _as_main(argv)
    except SystemExit as end:
        return "" if end.code in (None, 0) else f"exit code {end.code}"
    except BaseException:
        return traceback.format_exc()
    return ""


def _as_main(argv: list[str]) -> None:
    modules = set(sys.modules)
    try:
        if argv[0] == "-m":
            sys.argv = argv[1:]
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = argv
            runpy.run_path(argv[0], run_name="__main__")
    finally:
        for name in set(sys.modules) - modules:
            if name.startswith("examples"):
                del sys.modules[name]  # the next one begins with modules of its own


if __name__ == "__main__":
    main()
