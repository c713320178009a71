"""Whose end ends what was made for a read: Spark's own process, above the short-lived ones that run Python for it."""

import os
import subprocess
from pathlib import Path

JAVA = "java"
PROCESSES = Path("/proc")


def owner() -> int:
    """The Java process that this one works for; this one itself where there is none."""
    process = os.getppid()
    while process > 1:
        name, parent = _process(process)
        if name == JAVA:
            return process
        process = parent
    return os.getpid()


def _process(id: int) -> tuple[str, int]:
    """The name of a process and its parent; nothing of one that has just ended."""
    if (PROCESSES / "self").exists():
        try:
            said = (PROCESSES / str(id) / "stat").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "", 0
        name, _, rest = said.partition("(")[2].rpartition(") ")
        return name, int(rest.split()[1])
    command = ["ps", "-o", "ppid=,comm=", "-p", str(id)]
    words = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split(None, 1)  # noqa: S603
    return (Path(words[1].strip()).name, int(words[0])) if len(words) == 2 else ("", 0)
