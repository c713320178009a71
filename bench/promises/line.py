"""What the lists of promises share: a promise with its command, its figure, and whether it is kept.

Short ones run now; long ones are read from their last recorded run, with its commit and date. A record that is missing
is said to be so, and so is one that is older than the code: run its command again if the change may matter.
"""

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from bench import record
from bench.record import Figures


class Line(msgspec.Struct, frozen=True):
    """One promise: `kept` is None when nothing shows it either way; `old` when its record is of other code."""

    promise: str
    command: str
    figure: str
    kept: bool | None
    origin: str = "run now"
    old: bool = False


Shown = tuple[str, bool]
"""The figure in words, and whether it keeps the promise."""


class Promise(msgspec.Struct, frozen=True):
    """How a line comes about. `runs`: a program runs for it, for seconds or minutes."""

    line: Callable[[], Line]
    runs: bool


def recorded(name: str, promise: str, command: str, judge: Callable[[Figures], Shown]) -> Promise:
    """A promise that a record shows."""
    return Promise(partial(_recorded, name, promise, command, judge), runs=False)


def _recorded(name: str, promise: str, command: str, judge: Callable[[Figures], Shown]) -> Line:
    figures = record.read(name)
    if figures is None:
        return Line(promise, command, f"NOT RECORDED: no bench/results/{name}.json", None, "")
    try:
        figure, kept = judge(figures)
    except (KeyError, StopIteration) as error:
        figure, kept = f"the record lacks {error}", False
    stale = record.freshness(name, figures)
    changed = " + uncommitted changes" if figures.get("changed") else ""
    origin = f"recorded {figures.get('date', '?')} at {str(figures.get('commit', '?'))[:12]}{changed}"
    return Line(promise, command, figure, kept, f"{origin}; {stale}".rstrip("; "), bool(stale))


def tested(promise: str, *where: str) -> Promise:
    """A promise that tests show, which run now."""
    return Promise(partial(_tested, promise, where), runs=True)


def _tested(promise: str, where: Sequence[str]) -> Line:
    command = ["pytest", "-q", "-n", "2", *where]
    done = run([sys.executable, "-m", *command])
    said = done.stdout.strip().splitlines() or ["nothing was said"]
    failed = [line for line in said if line.startswith(("FAILED", "ERROR"))]
    figure = "; ".join([said[-1].strip("= "), *failed])
    return Line(promise, "python -m " + " ".join(_quoted(command)), figure, done.returncode == 0)


def ran(promise: str, module: str) -> Promise:
    """A promise that a program shows, which runs now: its last line is the figure."""
    return Promise(partial(_ran, promise, module), runs=True)


def _ran(promise: str, module: str) -> Line:
    done = run([sys.executable, "-m", module])
    said = (done.stdout.strip() or done.stderr.strip()).splitlines() or ["nothing was said"]
    return Line(promise, f"python -m {module}", said[-1], done.returncode == 0)


def run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=record.ROOT, capture_output=True, text=True, check=False)


def _quoted(words: Sequence[str]) -> list[str]:
    return [f'"{word}"' if " " in word else word for word in words]


def fresh(figures: Figures) -> Shown:
    """How both commands fare in a fresh clone."""
    runs = [(name, dict(run)) for name, run in figures["runs"].items()]
    cpu = {name: f" ({run['cpu_seconds']} CPU-seconds of tests)" for name, run in runs if "cpu_seconds" in run}
    parts = [
        f"{name} {'passed' if run['ok'] else 'FAILED'} in {run['seconds']} s{cpu.get(name, '')}" for name, run in runs
    ]
    return ", ".join(parts), bool(parts) and all(run["ok"] for _, run in runs)


WORDS: dict[Any, str] = {True: "kept", False: "BROKEN", None: "NOT SHOWN"}


def show(promises: Iterable[Promise], run_now: bool = True) -> int:
    """Prints a line for each; the exit code is 1 if a promise isn't shown or isn't kept."""
    return _judged(map(_printed, (promise.line() for promise in promises if run_now or not promise.runs)))


def check(promises: Iterable[Promise]) -> int:
    """Reads the records alone: prints the promises that one doesn't show or keep, and the commands of old records."""
    lines = [promise.line() for promise in promises if not promise.runs]
    old = sorted({line.command for line in lines if line.old})
    for line in lines:
        if line.kept is not True:
            _printed(line)
    print(f"{len(lines)} promises shown by records, {len(old)} records of older code" + ":" * bool(old))
    print(*(f"  {command}" for command in old), sep="\n")
    return _judged(lines)


def _printed(line: Line) -> Line:
    print(f"{WORDS[line.kept]:<10}{line.promise}")
    print(f"{'':<10}{line.figure}")
    print(f"{'':<10}$ {line.command}" + (f"   ({line.origin})" if line.origin else ""), flush=True)
    return line


def _judged(lines: Iterable[Line]) -> int:
    kept = [line.kept is True for line in lines]
    return 0 if all(kept) else 1
