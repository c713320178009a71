"""Folders for stores under measurement: on a real disk, gone afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.record import ROOT
from tenure.stores.sql.sqlite.file import filesystem_of

IN_MEMORY = ("tmpfs", "ramfs")


def kind_of(folder: Path) -> str:
    """The type of the filesystem, as far as the system says."""
    mounts = Path("/proc/self/mountinfo")
    text = mounts.read_text(encoding="utf-8", errors="surrogateescape") if mounts.exists() else ""
    return filesystem_of(str(folder.resolve()), text) or "unknown"


def check_disk(parent: Path | None) -> None:
    """Refuses a folder in memory: it would flatter."""
    kind = kind_of(parent or ROOT)
    if kind in IN_MEMORY:
        raise SystemExit(f"{parent or ROOT} is in memory ({kind}): give --dir on a real disk")


@contextmanager
def on_disk(parent: Path | None) -> Iterator[Path]:
    """A new folder in the repository's tmp/, or inside `parent`."""
    parent = parent or ROOT / "tmp"
    parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
