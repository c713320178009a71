"""Enqueue, drain, latency, memory and WAL of whole workers, interleaved on one server."""

import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.postgres import raw
from bench.postgres.peers import versions as versions_of
from bench.postgres.server import Server, started, wal_position
from bench.postgres.subjects import VARIANTS, Placed, Producer, Subject, chosen
from bench.record import Figures
from bench.worker.board import Board
from bench.worker.running import usage

Say = Callable[[str], None]

CALLERS = 200
WARM = 20
"""Jobs that are enqueued before anything is timed: connections are open then."""
PATIENCE = 300.0


class Sizes(msgspec.Struct, frozen=True):
    """How much is measured."""

    scale: float = 1.0
    latency_jobs: int = 300
    idle_seconds: float = 3.0
    processes: int = 4
    variants: tuple[Subject, ...] = VARIANTS


QUICK = Sizes(0.02, 10, 0.2, 2, VARIANTS[2:3])


class Run(msgspec.Struct, frozen=True):
    """One round of one subject. Rates are jobs a second."""

    one: float
    together: float
    bulk: float
    drain: float
    drain_four: float
    p50_ms: float
    p99_ms: float
    idle_mib: float
    wal_bytes: float


HIGHER = ("one", "together", "bulk", "drain", "drain_four")
"""The better the higher; of the others the lower."""
LIMITED = ("one", "bulk", "drain", "drain_four")
"""What has a raw limit."""
WORDS = {
    "one": "one by one/s",
    "together": f"{CALLERS} callers/s",
    "bulk": "bulk/s",
    "drain": "drain/s",
    "drain_four": "drain, 4 processes/s",
    "p50_ms": "start p50 ms",
    "p99_ms": "p99 ms",
    "idle_mib": "idle MiB",
    "wal_bytes": "WAL bytes/job",
}


def measured(peers: str, rounds: int, sizes: Sizes, say: Say) -> Figures:
    """On a private server of its own, with everything that figures depend on printed first."""
    subjects = chosen(peers)
    versions = {peer: versions_of(peer) for peer in sorted({str(one.peer) for one in subjects if one.peer})}
    with started(anywhere=sizes == QUICK) as server:
        settings = server.settings
        say(f"  {', '.join(f'{name}={value}' for name, value in settings.items())}")
        for line in versions.values():
            say(f"  {line}")
        figures = measure(server, subjects, rounds, sizes, say)
    show(figures, say)
    return {"server": settings, "versions": versions, **figures}


def measure(server: Server, subjects: Sequence[Subject], rounds: int, sizes: Sizes, say: Say) -> Figures:
    """Every subject once, in another order each time, the raw limit and Tenure's own variants, then all again."""
    found: dict[str, list[Run]] = defaultdict(list)
    limits: list[Figures] = []
    drains: dict[str, list[float]] = defaultdict(list)
    for number in range(1, rounds + 1):
        for subject in random.sample(subjects, len(subjects)):
            found[subject.name].append(one_round(server, subject, sizes))
            say(f"  round {number}: {words(subject.name, msgspec.to_builtins(found[subject.name][-1]))}")
        limits.append(raw.measure(server, max(2 * raw.BATCH, round(subjects[0].drains * sizes.scale))))
        say(f"  round {number}: {raw.words(limits[-1])}")
        for variant in sizes.variants:
            variant = replace(variant, peer=subjects[0].peer)
            drains[variant.name].append(drain_only(server, variant, sizes))
            say(f"  round {number}: {variant.name:<36}drain/s {drains[variant.name][-1]:,.0f}")
    return {
        "rounds": rounds,
        "sizes": {"scale": sizes.scale, "latency_jobs": sizes.latency_jobs, "processes": sizes.processes},
        "subjects": {subject.name: medians(found[subject.name]) for subject in subjects},
        "spread": {subject.name: spread(found[subject.name]) for subject in subjects},
        "raw": {field: round(median(limit[field] for limit in limits)) for field in limits[0]},
        "variants": {name: round(median(rates)) for name, rates in drains.items()},
    }


def one_round(server: Server, subject: Subject, sizes: Sizes) -> Run:
    """One subject in a new database: bulk, drain and latency with one process; the rest, and a drain by several."""
    jobs, ones = (max(CALLERS, round(count * sizes.scale)) for count in (subject.drains, subject.ones))
    with server.database() as url, tempfile.TemporaryDirectory() as folder, server.connect(url) as connection:
        board = Board(Path(folder))
        placed = subject.at(url, Path(folder))
        placed.install()
        began = wal_position(connection)
        with placed.producer() as producer:
            producer.ask("one", WARM)
            bulk = jobs / producer.ask("bulk", jobs)
            with placed.workers(1) as pids:
                drain = (jobs + WARM) / drained(subject, connection, board, jobs + WARM)
                wal = (wal_position(connection) - began) / jobs
                time.sleep(sizes.idle_seconds)
                idle = usage(pids[0]).memory_mib
                waits = _waits(placed, producer, board, sizes.latency_jobs)
            one = ones / producer.ask("one", ones)
            several = ones // CALLERS * CALLERS
            together = several / producer.ask("together", several, CALLERS)
            producer.ask("bulk", jobs)
        board.clear()
        with placed.workers(sizes.processes):
            whole = jobs + ones + several
            four = whole / drained(subject, connection, board, whole)
    return Run(one, together, bulk, drain, four, median(waits), quantiles(waits, n=100)[98], idle, wal)


def drain_only(server: Server, subject: Subject, sizes: Sizes) -> float:
    """Jobs a second through one process."""
    jobs = max(CALLERS, round(subject.drains * sizes.scale))
    with server.database() as url, tempfile.TemporaryDirectory() as folder, server.connect(url) as connection:
        placed = subject.at(url, Path(folder))
        placed.install()
        with placed.producer() as producer:
            producer.ask("bulk", jobs)
        with placed.workers(1):
            return jobs / drained(subject, connection, Board(Path(folder)), jobs)


def drained(subject: Subject, connection: Any, board: Board, jobs: int, patience: float = PATIENCE) -> float:
    """Seconds from the first handler's start to when the last settle is committed."""
    until(subject, board, jobs, patience)
    deadline = time.monotonic() + patience
    while not connection.execute(subject.settled).fetchone()[0]:
        if time.monotonic() > deadline:
            raise AssertionError(f"{subject.name}: all {jobs} jobs ran, but not all are settled")
        time.sleep(0.002)
    return (time.monotonic_ns() - board.first_ns) / 1e9


def until(subject: Subject, board: Board, jobs: int, patience: float = PATIENCE) -> None:
    """Waits for so many handlers to have run."""
    deadline = time.monotonic() + patience
    while board.ran < jobs:
        if time.monotonic() > deadline:
            raise AssertionError(f"{subject.name}: only {board.ran} of {jobs} jobs ran in {patience:.0f} s")
        time.sleep(0.01)


def _waits(placed: Placed, producer: Producer, board: Board, jobs: int) -> list[float]:
    """Milliseconds from before the enqueue to the handler, of jobs that come one by one to an idle worker."""
    before = board.ran
    producer.ask("waits", jobs)
    until(placed.subject, board, before + jobs)
    return [wait / 1e6 for wait in board.waits_ns() if wait]


def medians(runs: Sequence[Run]) -> dict[str, float]:
    return {field: round(median(getattr(run, field) for run in runs), 2) for field in Run.__struct_fields__}


def spread(runs: Sequence[Run]) -> float:
    """How far apart the rounds are in the drain: the fastest over the slowest."""
    return round(max(run.drain for run in runs) / min(run.drain for run in runs), 2)


def words(name: str, row: Figures) -> str:
    return f"{name:<22}" + "  ".join(f"{title} {number(row[field])}" for field, title in WORDS.items())


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def best(figures: Figures, field: str) -> tuple[str, float] | None:
    """The peer that does best in one thing, and its figure."""
    peers = {name: row[field] for name, row in figures["subjects"].items() if not name.startswith("tenure")}
    if not peers:
        return None
    name = (max if field in HIGHER else min)(peers, key=lambda one: peers[one])
    return name, peers[name]


def ratio(figures: Figures, field: str) -> float | None:
    """How many times the best peer's figure ours is; above 1 is better for rates, below for the rest."""
    peer = best(figures, field)
    return None if peer is None else float(figures["subjects"]["tenure"][field]) / peer[1]


def show(figures: Figures, say: Say) -> None:
    """The medians, and what they come to."""
    say("")
    for name, row in figures["subjects"].items():
        say("  " + words(name, row))
    say("  " + raw.words(figures["raw"]))
    for line in ratios(figures):
        say(f"  {line}")


def ratios(figures: Figures) -> list[str]:
    """Each figure beside the best peer's, and beside the raw limit."""
    found = []
    for field, title in WORDS.items():
        peer = best(figures, field)
        if peer is not None:
            found.append(f"{title}: {ratio(figures, field):.2f}× {peer[0]}")
    shares = ", ".join(
        f"{WORDS[field]} {share(figures, field):.0%}" for field in ("one", "bulk", "drain", "drain_four")
    )
    return [*found, f"of the raw limit: {shares}"]


def share(figures: Figures, field: str) -> float:
    """What part of the raw limit Tenure reaches."""
    limit = figures["raw"]["drain" if field == "drain_four" else field]
    return float(figures["subjects"]["tenure"][field]) / float(limit)
