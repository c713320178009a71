"""The types that users rely on, by the two checkers they use."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IGNORED = "# mypy: ignore-errors\n"

Complaints = dict[str, set[int]]
"""The lines complained about, by file."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cases in a place of their own, the one line taken away that keeps them out of the project's own check."""
    place = tmp_path_factory.mktemp("types")
    for path in HERE.glob("cases_*.py"):
        text = path.read_text()
        (place / path.name).write_text(text.replace(IGNORED, "#\n", 1))
    return place


def mypy(place: Path) -> tuple[Complaints, str]:
    """One run over all cases, with the project's own strictness."""
    flags = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, "--no-error-summary", *map(str, place.glob("cases_*.py"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found: Complaints = {}
    for name, line in re.findall(r"(cases_\w+\.py):(\d+): error:", done.stdout):
        found.setdefault(name, set()).add(int(line))
    return found, done.stdout + done.stderr


def basedpyright(place: Path) -> tuple[Complaints, str]:
    config = {
        "include": ["."],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
        "venvPath": str(Path(sys.prefix).parent),
        "venv": Path(sys.prefix).name,
    }
    (place / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--project", str(place), "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
    )
    found: Complaints = {}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            found.setdefault(Path(one["file"]).name, set()).add(one["range"]["start"]["line"] + 1)
    return found, done.stdout


@pytest.mark.parametrize("checker", [mypy, basedpyright])
def test_what_is_right_passes_and_what_is_wrong_doesnt(cases: Path, checker: object) -> None:
    assert callable(checker)
    found, said = checker(cases)
    lines = (cases / "cases_bad.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if line.endswith("# error")}
    assert len(marked) > 30
    assert found.get("cases_ok.py", set()) == set(), said
    assert found.get("cases_bad.py", set()) == marked, said
