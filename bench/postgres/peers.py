"""The peers: which versions, and an environment of their own for each, made once and kept outside the repository."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from bench.record import ROOT

UVLOOP = "uvloop==0.23.0"
PSYCOPG = "psycopg[binary]==3.3.8"
PINS: dict[str, tuple[str, ...]] = {
    "tenure": (PSYCOPG, "greenlet==3.5.6", UVLOOP),
    "pgqueuer": ("pgqueuer==1.6.0", "asyncpg==0.32.0", UVLOOP),
    "chancy": ("chancy==0.26.0", PSYCOPG, UVLOOP),
    "procrastinate": ("procrastinate==3.10.0", PSYCOPG, UVLOOP),
}
"""What is installed for each: the queue, its fastest driver, and uvloop, which all of them support. Tenure itself is
this working copy, over what its lock file has."""
LOCK = ROOT / "requirements-core.lock"
DONE = "installed"


def cache() -> Path:
    """Where environments are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenure-bench"


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment, which is made if it isn't there. Needs the network the first time."""
    pins = PINS[peer]
    known = (sys.version, *pins, LOCK.read_text() if peer == "tenure" else "")
    version = hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]
    folder = cache() / f"{peer}-{version}"
    python = folder / "bin" / "python"
    if not (folder / DONE).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        if peer == "tenure":
            subprocess.run([*install, "--require-hashes", "-r", str(LOCK)], check=True)
        subprocess.run([*install, *pins], check=True)
        (folder / DONE).touch()
    return python


def versions(peer: str) -> str:
    """What is compared, as it was installed."""
    names = [pin.partition("==")[0].partition("[")[0] for pin in PINS[peer]]
    script = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    done = subprocess.run([str(python_of(peer)), "-c", script, *names], capture_output=True, text=True, check=True)
    found = [f"{name} {number}" for name, number in zip(names, done.stdout.split(), strict=True)]
    return ", ".join(["tenure as it is here", *found] if peer == "tenure" else found)
