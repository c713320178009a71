"""Memory of a process and all it started, as the kernel shares it out (PSS): pages of forks count once."""

import threading
from pathlib import Path

PERIOD_SECONDS = 2.0


class Watched:
    """Samples a process tree until the block ends; `peak` is in MiB."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.peak = 0

    def __enter__(self) -> "Watched":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(PERIOD_SECONDS):
            self.peak = max(self.peak, sum(_pss(pid) for pid in tree(self._pid)) >> 10)


def tree(root: int) -> set[int]:
    """A process and its descendants."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _pss(pid: int) -> int:
    """KiB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
