"""The versions that stores are upgraded from: commits of this repository, unpacked beside it."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TODAY = ROOT / "src"

BASES = ("c8539ee",)
"""Commits, oldest first; a version that wrote a schema which users have stays here. c8539ee: schema 1 on PostgreSQL, 2
on SQLite."""


class NoHistory(Exception):
    """A base isn't in this copy of the repository."""


@contextmanager
def source_of(commit: str, repository: Path = ROOT) -> Iterator[Path]:
    """The folder to import that version's package from."""
    packed = subprocess.run(
        ["git", "archive", commit, "src/tenure"], cwd=repository, capture_output=True, check=False, timeout=60
    )
    if packed.returncode:
        raise NoHistory(
            f"commit {commit} isn't in this copy of the repository ({packed.stderr.decode().strip()}). In a shallow "
            "clone: git fetch --unshallow. In a source archive there is no history: clone the repository instead"
        )
    with tempfile.TemporaryDirectory(prefix="tenure-upgrade-") as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Path(folder) / "src"
