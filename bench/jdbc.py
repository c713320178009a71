"""PostgreSQL's JDBC driver, for measurements beside Spark's own source and sink: the system's, or one of a wheel."""

import os
import subprocess
import sys
from pathlib import Path

DISTRIBUTIONS = (Path("/usr/share/java/postgresql.jar"),)
"""Where systems put it (Debian: libpostgresql-jdbc-java)."""
WHEEL = "wbjdbc"
"""A wheel that has it among others."""


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenure" / "jdbc"


def jar(folder: Path | None = None) -> Path:
    """The driver's file; the wheel is unpacked into the user's cache once, and nothing of it is imported."""
    for path in DISTRIBUTIONS:
        if path.exists():
            return path
    folder = folder or cache()
    if not _found(folder):
        _install(folder)
    found = _found(folder)
    if not found:
        raise SystemExit(
            f"no JDBC driver in {WHEEL}: install libpostgresql-jdbc-java, or put postgresql.jar in {folder}"
        )
    return found[-1]


def _found(folder: Path) -> list[Path]:
    return sorted(folder.rglob("postgresql*.jar"))


def _install(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--target", str(folder), WHEEL], check=True)


def address(url: str) -> str:
    """The same database for JDBC; `reWriteBatchedInserts` is its fastest way to write."""
    return f"jdbc:{url.replace('tenure@', '')}?user=tenure&reWriteBatchedInserts=true"
