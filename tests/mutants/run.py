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

from tests.mutants.patch import HERE, KILLERS, BadPatch, Patch, apply, snapshot

TIMEOUT_SECONDS = 600
"""For one killer on one copy. A whole budget takes a minute or two on a free core."""

CONTROL = "control"


class Trial(msgspec.Struct, frozen=True):
    """A killer let loose on a copy of the tree; without a patch, the control."""

    killer: str
    patch: Patch | None = None

    @property
    def name(self) -> str:
        return CONTROL if self.patch is None else self.patch.name

    @property
    def neutral(self) -> bool:
        return self.patch is None or self.patch.neutral


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


def trials(chosen: Sequence[Patch], control: bool) -> list[Trial]:
    """The long ones first: the control, then what must survive, then the mutants."""
    todo = [Trial(killer) for killer in KILLERS] if control else []
    ordered = sorted(chosen, key=lambda patch: (not patch.neutral, patch.name))
    return todo + [Trial(killer, patch) for patch in ordered for killer in patch.killers]


def run(todo: Sequence[Trial], folder: Path, jobs: int) -> Iterator[Outcome]:
    """Outcomes in the order of the trials, each as soon as it is there."""
    base = snapshot(folder / "base")
    compileall.compile_dir(base / "src", quiet=2)
    with ThreadPoolExecutor(jobs) as pool:
        numbered = enumerate(todo)
        yield from pool.map(lambda one: _try(one[1], base, folder / f"{one[0]:03d}-{one[1].name}"), numbered)


def unfit(chosen: Sequence[Patch], folder: Path) -> list[str]:
    """Why some patches don't apply, in words; empty when all do."""
    base = snapshot(folder / "base")
    found = []
    for patch in chosen:
        tree = folder / patch.name
        shutil.copytree(base, tree)
        try:
            apply(patch, tree)
        except BadPatch as error:
            found.append(str(error))
        shutil.rmtree(tree)
    return found


def _try(trial: Trial, base: Path, tree: Path) -> Outcome:
    started = time.monotonic()
    shutil.copytree(base, tree)
    outcome = Outcome(name=trial.name, killer=trial.killer, neutral=trial.neutral)
    if trial.patch is not None:
        outcome = msgspec.structs.replace(outcome, what=trial.patch.what, breaks=trial.patch.breaks)
    try:
        if trial.patch is not None:
            apply(trial.patch, tree)
        verdict = _judged(trial.killer, tree)
        outcome = msgspec.structs.replace(
            outcome,
            found=verdict.found,
            fault=_fault(trial, verdict),
            detail=verdict.detail,
            seed=verdict.seed,
            steps=verdict.steps,
        )
    except BadPatch as error:
        outcome = msgspec.structs.replace(outcome, fault="DOESN'T APPLY", detail=str(error))
    except _Failed as error:
        outcome = msgspec.structs.replace(outcome, fault=error.fault, detail=str(error))
    finally:
        shutil.rmtree(tree)
    return msgspec.structs.replace(outcome, seconds=round(time.monotonic() - started, 1))


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
