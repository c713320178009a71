"""Processes that tests start, and theirs."""

from pathlib import Path


def children_of(pid: int) -> list[int]:
    """The live children of a process."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in text.split()]
