"""Records of long runs: figures as JSON, with the commit, the date and what machine they were taken on."""

import hashlib
import json
import os
import platform
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import tenure
from bench.changed import KINDS, changed_since

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
Code = tuple[str, ...]
CORE: Code = ("src/tenure/domain", "src/tenure/stores", "src/tenure/testing")
WORKERS: Code = (*CORE, "src/tenure/engine", "src/tenure/service")
SPARK: Code = (*CORE, "src/tenure/engine", "src/tenure/spark")
ALL: Code = ("src/tenure",)
DEPENDS: dict[str, Code] = {
    **dict.fromkeys(("before", "fleet", "postgres", "postgres_fairness", "postgres_hold", "reach", "worker"), WORKERS),
    **dict.fromkeys(("lake", "spark", "spark_only", "spark_postgres"), SPARK),
    "fresh": ALL,
}
"""The code that the figures of a record depend on; CORE where it isn't named."""

Figures = dict[str, Any]


def git(*args: str) -> str | None:
    """What git says, or None where it says nothing."""
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def code_of(name: str) -> Code:
    return DEPENDS.get(name, CORE)


def digest(code: Code) -> str:
    """A hash of the code: figures belong to the code they were taken with, committed or not."""
    whole = hashlib.sha256()
    for path in sorted(path for folder in code for path in (ROOT / folder).rglob("*")):
        if path.suffix in KINDS:
            whole.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return whole.hexdigest()[:16]


MEANWHILE = "changed during the run"
AT_START = {code: digest(code) for code in (CORE, WORKERS, SPARK, ALL)}
"""The code when this process began: a run belongs to that, if nobody changed it meanwhile."""


def machine() -> Figures:
    """The facts that figures depend on; nothing that names the machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "msgspec": msgspec.__version__,
        "tenure": tenure.__version__,
    }


def stamp(code: Code) -> Figures:
    """When, of which code and where figures were taken."""
    return {
        "commit": git("rev-parse", "HEAD") or "none",
        "changed": bool(git("status", "--porcelain", "--", "src", "tests", "bench", ":!bench/results")),
        "code": AT_START[code] if digest(code) == AT_START[code] else MEANWHILE,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }


def write(path: Path, command: str, figures: Figures) -> None:
    """Keeps the figures of one run, in place of those of the run before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {**stamp(code_of(path.stem)), "command": command, **figures}
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(name: str, folder: Path = RESULTS) -> Figures | None:
    """The last record of a run, None when there is none."""
    try:
        return dict(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def freshness(name: str, record: Figures) -> str:
    """Whether the code is still the one a record was taken with, in words; empty when it is, but for its words."""
    code = code_of(name)
    if record.get("code") == digest(code):
        return ""
    commit = record.get("commit", "none")
    if commit == "none":
        return "taken before the first commit: it can't be told whether the code changed since"
    of_commit = record.get("code") != MEANWHILE and not record.get("changed")
    return "" if of_commit and not changed_since(ROOT, commit, code) else "the code has changed since"
