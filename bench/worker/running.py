"""A worker's processes while they are measured: started, watched from outside, and ended."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.record import ROOT
from bench.worker.subjects import Subject

PATIENCE = 300.0
TICKS = os.sysconf("SC_CLK_TCK")


class Usage(msgspec.Struct, frozen=True):
    """What a worker's processes use together."""

    processes: int
    memory_mib: float
    """Their own and their share of what they share (PSS)."""
    cpu_seconds: float


@contextmanager
def worker(subject: Subject) -> Iterator[int]:
    """Its worker at work; gives the process id."""
    command = subject.command()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGINT)  # both end gracefully on this one
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def until(subject: Subject, ran: int) -> None:
    """Waits for so many handlers to have run."""
    deadline = time.monotonic() + PATIENCE
    while subject.board.ran < ran:
        if time.monotonic() > deadline:
            raise AssertionError(f"{subject.name}: only {subject.board.ran} of {ran} jobs ran in {PATIENCE:.0f} s")
        time.sleep(0.001)


def usage(pid: int) -> Usage:
    """Of a process and all below it."""
    pids = list(_tree(pid))
    return Usage(len(pids), round(sum(map(_memory, pids)), 1), sum(map(_cpu, pids)))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _tree(int(child))


def _memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no Pss")


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
