"""Enqueue, drain, latency, memory and WAL of whole workers, interleaved on one server."""

import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec

from bench.postgres import raw
from bench.postgres.peers import versions as versions_of
from bench.postgres.server import Server, started, wal_position
from bench.postgres.subjects import VARIANTS, Placed, Producer, Subject, chosen, variants
from bench.record import Figures
from bench.worker.board import Board
from bench.worker.running import usage

Say = Callable[[str], None]

CALLERS = 200
WARM = 20
"""Jobs that are enqueued before anything is timed: a connection is open then."""
TURNS = 3
"""How often the waits of all are measured in a round: the machine's speed changes within a minute."""
WARM_PART = 10
"""What part of the bulk is enqueued, and drained, before it is timed: all connections are open then, and the tables as
those of a queue that is in use.
"""
PATIENCE = 300.0


class Sizes(msgspec.Struct, frozen=True):
    """How much is measured."""

    scale: float = 1.0
    latency_jobs: int = 300
    idle_seconds: float = 3.0
    processes: int = 4
    variants: tuple[Subject, ...] = VARIANTS


QUICK = Sizes(0.01, 10, 0.2, 2, VARIANTS[2:3])


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
    """All subjects through one round, the raw limit and the variants, then all again."""
    found: dict[str, list[Run]] = defaultdict(list)
    limits: list[Figures] = []
    drains: dict[str, list[float]] = defaultdict(list)
    for number in range(1, rounds + 1):
        for name, run in one_round(server, subjects, sizes).items():
            found[name].append(run)
            say(f"  round {number}: {words(name, msgspec.to_builtins(run))}")
        limits.append(raw.measure(server, max(2 * raw.BATCH, round(subjects[0].drains * sizes.scale))))
        say(f"  round {number}: {raw.words(limits[-1])}")
        for variant in variants(sizes.variants, subjects):
            drains[variant.name].append(drain_only(server, variant, sizes))
            say(f"  round {number}: {variant.name:<36}drain/s {drains[variant.name][-1]:,.0f}")
    return {
        "rounds": rounds,
        "sizes": {"scale": sizes.scale, "latency_jobs": sizes.latency_jobs, "processes": sizes.processes},
        "subjects": {subject.name: medians(found[subject.name]) for subject in subjects},
        "spread": {subject.name: spread(found[subject.name]) for subject in subjects},
        "raw": {field: round(median(limit[field] for limit in limits)) for field in limits[0]},
        "variants": {name: round(median(rates)) for name, rates in drains.items()},
        "each": {name: by_round(runs) for name, runs in found.items()}
        | {name: {"drain": [round(rate, 2) for rate in rates]} for name, rates in drains.items()},
    }


def one_round(server: Server, subjects: Sequence[Subject], sizes: Sizes) -> dict[str, Run]:
    """Each subject in a new database. What is compared is measured of one after the other, in another order each time,
    before anything else is: the machine may be half as fast a minute later.
    """
    with ExitStack() as stack:
        tried = [stack.enter_context(Tried.open(server, subject, sizes)) for subject in subjects]
        for part in (*[Tried.wait] * TURNS, *PARTS):
            for one in random.sample(tried, len(tried)):
                part(one)
        return {one.subject.name: one.run() for one in tried}


class Tried:
    """One subject in one round, with a producer; workers come and go."""

    producer: Producer

    def __init__(self, server: Server, subject: Subject, sizes: Sizes, url: str, folder: Path) -> None:
        self.subject = subject
        self.figures: dict[str, float] = {}
        self._sizes = sizes
        self._jobs, self._ones = (max(CALLERS, round(count * sizes.scale)) for count in (subject.drains, subject.ones))
        self._several = self._ones // CALLERS * CALLERS
        self._board = Board(folder)
        self._placed = subject.at(url, folder)
        self._placed.install()
        self._connection = server.connect(url)
        self._wal = 0
        self._waits: list[float] = []

    @classmethod
    @contextmanager
    def open(cls, server: Server, subject: Subject, sizes: Sizes) -> "Iterator[Tried]":
        with server.database() as url, tempfile.TemporaryDirectory() as folder:
            tried = cls(server, subject, sizes, url, Path(folder))
            with tried._connection, tried._placed.producer() as tried.producer:
                yield tried

    def wait(self) -> None:
        """How long some jobs wait for an idle worker, which has had a few."""
        self.producer.ask("one", WARM)
        with self._placed.workers(1):
            until(self.subject, self._board, WARM)
            time.sleep(self._sizes.idle_seconds)
            self._waits += _waits(self._placed, self.producer, self._board, self._sizes.latency_jobs // TURNS)
        self._board.clear()

    def warm_up(self) -> None:
        warm = self._jobs // WARM_PART
        self.producer.ask("bulk", warm)
        with self._placed.workers(1):
            self._drained(warm)
        self._board.clear()

    def bulk(self) -> None:
        with self._written():
            self.figures["bulk"] = self._jobs / self.producer.ask("bulk", self._jobs)

    def drain(self) -> None:
        """By one process; what it keeps afterwards, and what both took in WAL."""
        with self._placed.workers(1) as pids:
            with self._written():
                self.figures["drain"] = self._jobs / self._drained(self._jobs)
            time.sleep(self._sizes.idle_seconds)
            self.figures["idle_mib"] = usage(pids[0]).memory_mib
        self._board.clear()
        self.figures["wal_bytes"] = self._wal / self._jobs

    def one_by_one(self) -> None:
        self.figures["one"] = self._ones / self.producer.ask("one", self._ones)

    def together(self) -> None:
        self.figures["together"] = self._several / self.producer.ask("together", self._several, CALLERS)

    def drain_by_several(self) -> None:
        self.producer.ask("bulk", self._jobs)
        whole = self._jobs + self._ones + self._several
        with self._placed.workers(self._sizes.processes):
            self.figures["drain_four"] = whole / self._drained(whole)

    def run(self) -> Run:
        """What was measured."""
        p99 = quantiles(self._waits, n=100)[98]
        return Run(**self.figures, p50_ms=median(self._waits), p99_ms=p99)

    def _drained(self, jobs: int) -> float:
        return drained(self.subject, self._connection, self._board, jobs)

    @contextmanager
    def _written(self) -> Iterator[None]:
        began = wal_position(self._connection)
        yield
        self._wal += wal_position(self._connection) - began


PARTS = (Tried.warm_up, Tried.bulk, Tried.drain, Tried.one_by_one, Tried.together, Tried.drain_by_several)
"""What is measured after the waits, which are to be in a new database."""


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


def by_round(runs: Sequence[Run]) -> dict[str, list[float]]:
    return {field: [round(getattr(run, field), 2) for run in runs] for field in Run.__struct_fields__}


def spread(runs: Sequence[Run]) -> float:
    """How far apart the rounds are in the drain: the fastest over the slowest."""
    return round(max(run.drain for run in runs) / min(run.drain for run in runs), 2)


def words(name: str, row: Figures) -> str:
    return f"{name:<22}" + "  ".join(f"{title} {number(row[field])}" for field, title in WORDS.items())


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def best(figures: Figures, field: str) -> tuple[str, float] | None:
    """The peer that does best in one thing, and its figure; of those that were also drained otherwise, the better."""
    rows = {name: row[field] for name, row in figures["subjects"].items()}
    if field == "drain":
        rows |= figures["variants"]
    peers = {name: figure for name, figure in rows.items() if not name.startswith("tenure")}
    if not peers:
        return None
    name = (max if field in HIGHER else min)(peers, key=lambda one: peers[one])
    return name, peers[name]


def ratio(figures: Figures, field: str) -> float | None:
    """How many times the best peer's figure ours is; above 1 is better for rates, below for the rest.

    The median of each round's own: from one round to the next the machine may be half as fast, and the medians of two
    subjects may come from different halves.
    """
    peer = best(figures, field)
    if peer is None:
        return None
    ours, theirs = figures["each"]["tenure"][field], figures["each"][peer[0]][field]
    return float(median(one / other for one, other in zip(ours, theirs, strict=True)))


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
