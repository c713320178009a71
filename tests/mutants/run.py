"""Runs killers on mutated copies of the tree, several at a time."""

import compileall
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tests.mutants.judge import HELPERS, SUITES
from tests.mutants.mutant import KILLERS, Mutant, apply
from tests.mutants.source import BadMutant

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = Path("src/tenure")

TIMEOUT_SECONDS = 600
"""For one killer on one copy. A whole budget takes a minute or two on a free core."""

CONTROL = "control"
NEEDED = ("tests/__init__.py", "tests/conftest.py", "tests/times.py", "pyproject.toml")


class Trial(msgspec.Struct, frozen=True):
    """A killer let loose on a copy of the tree; without a mutant, the control."""

    killer: str
    mutant: Mutant | None = None

    @property
    def name(self) -> str:
        return CONTROL if self.mutant is None else self.mutant.name

    @property
    def neutral(self) -> bool:
        return self.mutant is None or self.mutant.neutral


class Verdict(msgspec.Struct, frozen=True):
    """What `judge.py` prints. `found` None: it found nothing."""

    found: str | None
    kind: str
    detail: str
    seed: int
    steps: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. `fault` is empty when it is as it must be."""

    name: str
    killer: str
    neutral: bool
    what: str = ""
    breaks: str = ""
    found: str | None = None
    """What the killer objected with: a property of the checker, a verb that diverged, a test."""
    fault: str = ""
    detail: str = ""
    seed: int = 0
    steps: int = 0
    seconds: float = 0.0


def sources() -> dict[str, str]:
    """What a mutant may change: {file below src/tenure: text}."""
    package = ROOT / PACKAGE
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".sql")]
    return {str(path.relative_to(package)): path.read_text(encoding="utf-8") for path in files}


def unfit(chosen: Sequence[Mutant], texts: dict[str, str]) -> dict[str, str]:
    """{name: why} of the mutants that don't fit the code."""
    found = {}
    for mutant in chosen:
        try:
            apply(mutant, texts)
        except BadMutant as error:
            found[mutant.name] = str(error)
    return found


def trials(chosen: Sequence[Mutant], control: bool) -> list[Trial]:
    """The long ones first: the control, then what must survive, then the mutants."""
    todo = [Trial(killer) for killer in KILLERS] if control else []
    ordered = sorted(chosen, key=lambda mutant: (not mutant.neutral, mutant.name))
    return todo + [Trial(killer, mutant) for mutant in ordered for killer in mutant.killers]


def run(todo: Sequence[Trial], folder: Path, jobs: int) -> Iterator[Outcome]:
    """Outcomes in the order of the trials, each as soon as it is there."""
    base = snapshot(folder / "base")
    compileall.compile_dir(base / "src", quiet=2)
    with ThreadPoolExecutor(jobs) as pool:
        numbered = enumerate(todo)
        yield from pool.map(lambda one: _try(one[1], base, folder / f"{one[0]:03d}-{one[1].name}"), numbered)


def snapshot(folder: Path) -> Path:
    """A copy of what a killer needs of the tree, taken once: nobody's edits change a run under way."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*SUITES.values(), *HELPERS, *NEEDED):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def _try(trial: Trial, base: Path, tree: Path) -> Outcome:
    started = time.monotonic()
    shutil.copytree(base, tree)
    outcome = Outcome(name=trial.name, killer=trial.killer, neutral=trial.neutral)
    if trial.mutant is not None:
        outcome = msgspec.structs.replace(outcome, what=trial.mutant.what, breaks=trial.mutant.breaks)
    try:
        if trial.mutant is not None:
            _change(trial.mutant, tree / PACKAGE)
        verdict = _judged(trial.killer, tree)
        outcome = msgspec.structs.replace(
            outcome,
            found=verdict.found,
            fault=_fault(trial, verdict),
            detail=verdict.detail,
            seed=verdict.seed,
            steps=verdict.steps,
        )
    except BadMutant as error:
        outcome = msgspec.structs.replace(outcome, fault="DOESN'T FIT", detail=str(error))
    except _Failed as error:
        outcome = msgspec.structs.replace(outcome, fault=error.fault, detail=str(error))
    finally:
        shutil.rmtree(tree)
    return msgspec.structs.replace(outcome, seconds=round(time.monotonic() - started, 1))


def _change(mutant: Mutant, package: Path) -> None:
    files = {edit.module: package / edit.module for edit in mutant.edits}
    texts = {module: file.read_text(encoding="utf-8") for module, file in files.items() if file.is_file()}
    for module, text in apply(mutant, texts).items():
        files[module].write_text(text, encoding="utf-8")


def _fault(trial: Trial, verdict: Verdict) -> str:
    if trial.neutral:
        return "" if verdict.found is None else "KILLED"
    if verdict.found is None:
        return "SURVIVED"
    if trial.killer == "machine-memory" and verdict.kind != "violation":
        return "NOT BY THE CHECKER"
    return "ERROR" if verdict.kind == "error" else ""


class _Failed(Exception):
    """A killer that came to no verdict."""

    def __init__(self, fault: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault


def _judged(killer: str, tree: Path) -> Verdict:
    """The verdict of a killer in a process of its own, with the copy in front of the installed package."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-P", str(HERE / "judge.py"), str(tree), killer]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _Failed("TIMED OUT", f"after {TIMEOUT_SECONDS} s") from None
    if done.returncode:
        raise _Failed("ERROR", " ".join(done.stderr.split())[-500:])
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Verdict)
