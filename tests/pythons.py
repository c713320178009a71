"""Runs `make` on each promised Python, each in a virtual environment of its own: `python -m tests.pythons [3.12 …]`.

Interpreters are looked for on PATH and in pyenv. Without versions all of them must be there; those that are named are
the only ones that run. `--newest` runs the newest that is found, unless that is the one of `.venv` already.
Exit code 1 where a run failed or an interpreter is missing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)\"")


def promised(pyproject: str) -> list[str]:
    """The versions that the classifiers name, oldest first."""
    return sorted(CLASSIFIER.findall(pyproject), key=_number)


def found(version: str) -> str | None:
    """An interpreter of that version that starts."""
    return next((path for path in _candidates(version) if _runs(path, version)), None)


def _candidates(version: str) -> Iterator[str]:
    if path := shutil.which(f"python{version}"):
        yield path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in sorted(pyenv.glob(f"versions/{version}.*"), key=lambda one: _number(one.name), reverse=True):
        yield str(folder / "bin" / "python")


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _runs(path: str, version: str) -> bool:
    """Whether it is what its name says: pyenv has a shim for each version, also where none is chosen."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([path, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return ran.returncode == 0 and ran.stdout.strip() == version


def run(version: str, python: str, goals: list[str]) -> bool:
    """Runs the goals of the Makefile with that interpreter."""
    started = time.monotonic()
    print(f"Python {version}: make {' '.join(goals)}", flush=True)
    given = [f"PYTHON={python}", f"VENV=.venv-{version}", "ARGS="]  # those of the outer make are this program's
    code = subprocess.run(["make", "--no-print-directory", *given, *goals], cwd=ROOT, check=False).returncode
    print(f"Python {version}: {'FAILED' if code else 'passed'} in {time.monotonic() - started:.0f} s", flush=True)
    return code == 0


def chosen(there: dict[str, str | None], asked: list[str], newest: bool) -> list[str]:
    """The versions to run, of those that were looked for."""
    if not newest:
        return asked or list(there)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    last = [version for version, path in there.items() if path][-1:]
    return [version for version in last if version != own]


def main() -> int:
    versions = promised((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"of {', '.join(versions)}")
    parser.add_argument("--newest", action="store_true", help="the newest that is found, beside this one")
    parser.add_argument("--goal", action="append", metavar="GOAL", help="what to make there (default: test)")
    options = parser.parse_args()
    if wrong := [one for one in options.versions if one not in versions]:
        parser.error(f"{', '.join(wrong)}: the promised versions are {', '.join(versions)}")
    there = {version: found(version) for version in options.versions or versions}
    for version, path in there.items():
        print(f"Python {version}: {path or 'not found on PATH or in pyenv'}")
    wanted = chosen(there, options.versions, options.newest)
    if options.newest and not wanted:
        print("there is no newer one than that of this environment: nothing to run")
    # The runs come first: what is missing fails the command, and doesn't hide what the others would have said.
    goals = options.goal or ["test"]
    ran = [(path := there[version]) is not None and run(version, path, goals) for version in wanted]
    return 0 if all(ran) else 1


if __name__ == "__main__":
    sys.exit(main())
