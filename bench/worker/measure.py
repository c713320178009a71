"""Drain, latency and idle cost of whole workers, interleaved in one run."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec

from bench.ceiling import fsync_micros
from bench.folder import kind_of, on_disk
from bench.record import Figures
from bench.worker import in_memory
from bench.worker.running import until, usage, worker
from bench.worker.subjects import HueyFsync, HueyUnsafe, Subject, TenureTwo, TenureWorker

SUBJECTS: tuple[type[Subject], ...] = (TenureWorker, TenureTwo, HueyFsync, HueyUnsafe)
LATENCY_JOBS = 200
IDLE_SECONDS = 5.0
PAUSES = (0.02, 0.06)
"""Seconds between two jobs that are waited for: at random, so that no poll falls into step with them."""

Say = Callable[[str], None]


class Sizes(msgspec.Struct, frozen=True):
    """How much is measured."""

    scale: float = 1.0
    latency_jobs: int = LATENCY_JOBS
    idle_seconds: float = IDLE_SECONDS


SMALL = Sizes(0.02, 10, 0.2)


class Run(msgspec.Struct, frozen=True):
    """One run of one subject."""

    enqueue: float
    """Jobs a second, in the fastest way it has."""
    drain: float
    one_by_one: float
    """Jobs a second that one caller enqueues, each waited for."""
    p50_ms: float
    p99_ms: float
    idle_mib: float
    idle_cpu: float
    """Of one core."""


def measure(parent: Path | None, runs: int, sizes: Sizes, say: Say) -> Figures:
    """Every subject once, then again."""
    found: dict[str, list[Run]] = defaultdict(list)
    memory: list[float] = []
    for number in range(1, runs + 1):
        for make in SUBJECTS:
            found[make.name].append(measure_one(make, parent, sizes))
            say(f"  run {number}: {_words(make.name, found[make.name][-1])}")
        memory.append(in_memory.drain(max(200, round(TenureWorker.drains * sizes.scale))))
        say(f"  run {number}: tenure in memory, worker in the same process: drain {memory[-1]:,.0f}/s")
    with on_disk(parent) as folder:
        micros, kind = fsync_micros(folder), kind_of(folder)
    return {
        "runs": runs,
        "sizes": msgspec.to_builtins(sizes),
        "huey": version("huey"),
        "fsync_micros": round(micros, 1),
        "filesystem": kind,
        "subjects": {name: _medians(of_one) for name, of_one in found.items()},
        "memory_drain": round(median(memory)),
    }


def measure_one(make: type[Subject], parent: Path | None, sizes: Sizes) -> Run:
    with on_disk(parent) as folder:
        subject = make(folder)
        try:
            jobs = max(200, round(make.drains * sizes.scale))
            started = time.perf_counter()
            subject.send(jobs)
            enqueue = jobs / (time.perf_counter() - started)
            with worker(subject) as pid:
                until(subject, jobs)
                seconds = _ended(subject, jobs)
                idle_mib, idle_cpu = _idle(pid, sizes.idle_seconds)
                one_by_one = _waits(subject, jobs, sizes.latency_jobs)
            waits = [wait / 1e6 for wait in subject.board.waits_ns() if wait]
        finally:
            subject.close()
    return Run(enqueue, jobs / seconds, one_by_one, median(waits), quantiles(waits, n=100)[98], idle_mib, idle_cpu)


def _ended(subject: Subject, jobs: int) -> float:
    while (seconds := subject.drained(jobs)) is None:
        time.sleep(0.01)
    return seconds


def _idle(pid: int, seconds: float) -> tuple[float, float]:
    before = usage(pid)
    time.sleep(seconds)
    after = usage(pid)
    return after.memory_mib, (after.cpu_seconds - before.cpu_seconds) / seconds


def _waits(subject: Subject, before: int, jobs: int) -> float:
    """Sends one job after the other to an idle worker; how many a second could be sent so."""
    sending = 0.0
    for number in range(1, jobs + 1):
        sent = time.monotonic_ns()
        subject.send_one(sent)
        sending += (time.monotonic_ns() - sent) / 1e9
        until(subject, before + number)
        time.sleep(random.uniform(*PAUSES))
    return jobs / sending


def _medians(runs: Sequence[Run]) -> dict[str, Any]:
    fields = Run.__struct_fields__
    return {field: round(median(getattr(run, field) for run in runs), 3) for field in fields}


def _words(name: str, run: Run) -> str:
    return (
        f"{name:<24}drain {run.drain:>7,.0f}/s  enqueue {run.enqueue:>7,.0f}/s, one by one {run.one_by_one:>6,.0f}/s  "
        f"start p50 {run.p50_ms:.2f} ms, p99 {run.p99_ms:.2f} ms  idle {run.idle_mib:.0f} MiB, {run.idle_cpu:.1%} CPU"
    )


def show(figures: Figures, say: Say) -> None:
    """The medians, and what they come to."""
    say("")
    for name, row in figures["subjects"].items():
        say("  " + _words(name, Run(**row)))
    say(f"  tenure in memory: drain {figures['memory_drain']:,}/s")
    say("  " + ratios(figures))


def best(figures: Figures, kind: str) -> tuple[str, float]:
    """The fastest of one queue's settings, and how fast it drains."""
    rows = {name: row["drain"] for name, row in figures["subjects"].items() if name.startswith(kind)}
    name = max(rows, key=lambda one: rows[one])
    return name, rows[name]


def ratios(figures: Figures) -> str:
    name, ours = best(figures, "tenure")
    one = figures["subjects"][TenureWorker.name]["drain"]
    fsync, unsafe = (figures["subjects"][peer.name]["drain"] for peer in (HueyFsync, HueyUnsafe))
    return (
        f"drain: {ours / fsync:.1f}× Huey with fsync, {ours / unsafe:.1f}× Huey without ({name}); "
        f"with 1 process {one / fsync:.1f}× and {one / unsafe:.1f}×"
    )
