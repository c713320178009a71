"""`make test` and `make demo` in a fresh clone, from nothing but Python: `python -m bench.fresh [--record] [target …]`.

Nothing comes from a cache: each run has one of its own, empty at first, shared by both. Without a commit yet, the
files that git would take are copied instead of cloned.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.record import RESULTS, ROOT, Figures, git, write

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR")
"""The parts of the environment that a fresh clone gets, and whatever tells tools where packages come from."""
INDEXES = ("PIP_", "UV_", "SSL_", "HTTP", "http", "ALL_PROXY", "NO_PROXY", "no_proxy", "REQUESTS_", "CURL_")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fresh", description=__doc__)
    parser.add_argument("targets", nargs="*", default=["demo", "test"])
    parser.add_argument("--record", action="store_true", help="keep the outcome in bench/results/fresh.json")
    return parser.parse_args()


def clone(place: Path) -> str:
    """Puts the repository there; says how."""
    if git("rev-parse", "HEAD") is not None and not git("status", "--porcelain"):
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place)], check=True)
        return "cloned"
    listed = git("ls-files", "--cached", "--others", "--exclude-standard") or ""
    for name in filter(None, listed.splitlines()):
        source = ROOT / name
        if source.is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place / name)
    return "copied, since not everything is committed"


def environment() -> dict[str, str]:
    """No virtual environment, no PYTHONPATH: what a newcomer has."""
    clean = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(INDEXES)}
    own = str(Path(sys.prefix) / "bin")
    clean["PATH"] = os.pathsep.join(part for part in clean["PATH"].split(os.pathsep) if part != own)
    return clean


def cached(cache: Path) -> dict[str, str]:
    """Where tools keep what they fetched."""
    return {"XDG_CACHE_HOME": str(cache), "UV_CACHE_DIR": str(cache / "uv"), "PIP_CACHE_DIR": str(cache / "pip")}


def make(place: Path, target: str) -> Figures:
    started = time.monotonic()
    times = place.parent / f"{target}.times.json"
    clean = {**environment(), **cached(place.parent / "cache"), "TENURE_TEST_TIMES": str(times)}
    done = subprocess.run(["make", target], cwd=place, env=clean, check=False)
    run: Figures = {"ok": done.returncode == 0, "seconds": round(time.monotonic() - started)}
    return {**run, **(_parts(times) if times.exists() else {})}


def _parts(times: Path) -> Figures:
    """What tests took, as `tests/times.py` counts it: {part: [tests, wall seconds, CPU-seconds]}."""
    parts = json.loads(times.read_text(encoding="utf-8"))["parts"]
    rounded = {part: [count, round(wall, 1), round(cpu, 1)] for part, (count, wall, cpu) in parts.items()}
    return {"cpu_seconds": round(sum(cpu for _, _, cpu in parts.values())), "parts": rounded}


def main() -> int:
    options = parse()
    with tempfile.TemporaryDirectory(prefix="tenure-fresh-") as folder:
        place = Path(folder) / "tenure"
        place.mkdir()
        how = clone(place)
        print(f"{how} to {place}", flush=True)
        runs = {f"make {target}": make(place, target) for target in options.targets}
    for name, run in runs.items():
        cpu = f", {run['cpu_seconds']} CPU-seconds of tests" if "cpu_seconds" in run else ""
        print(f"{name}: {'passed' if run['ok'] else 'FAILED'} in {run['seconds']} s{cpu}")
    if options.record:
        write(RESULTS / "fresh.json", "python -m bench.fresh --record", {"how": how, "runs": runs})
    return 0 if all(run["ok"] for run in runs.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
