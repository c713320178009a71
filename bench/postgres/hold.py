"""A transaction held open while jobs flow: `python -m bench.postgres.hold [--minutes 10] [--record] [--quick]`.

Jobs are offered at a steady rate, and one worker process runs them. After a while a transaction takes a snapshot and
stays open: from then on nothing that is deleted can be cleaned up. Compared are the time before it was opened and as
long a time before it is closed; Tenure and PgQueuer one after the other, on one server, each in its own database.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import msgspec

from bench.postgres.command import add_options, keep, say
from bench.postgres.measure import until
from bench.postgres.server import Server, started
from bench.postgres.subjects import PGQUEUER, Producer, Subject, chosen
from bench.record import Figures
from bench.worker.board import Board

COMMAND = "python -m bench.postgres.hold --record"
SHARE, P99_MS = 0.8, 1_000
"""What throughput must keep, and how long a job may wait."""
SAMPLE_SECONDS = 1.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, and jobs a second."""

    rate: int = 2_000
    warm: int = 10
    window: int = 120
    held: int = 600

    @property
    def whole(self) -> int:
        return self.warm + self.window + self.held


QUICK = Plan(rate=100, warm=1, window=1, held=2)


class Window(msgspec.Struct, frozen=True):
    """What happened in some stretch of time."""

    throughput: float
    p50_ms: float
    p99_ms: float


class Sampler:
    """Follows the handlers of one subject, a second at a time."""

    def __init__(self, board: Board, name: str) -> None:
        self._board = board
        self._name = name
        self._seen: dict[str, int] = {}
        self._began = time.monotonic()

    def over(self, seconds: float, title: str) -> Window:
        """Watches for so long."""
        began, ran, waits = time.monotonic(), self._board.ran, list[float]()
        self._board.new_waits_ns(self._seen)
        while (left := began + seconds - time.monotonic()) > 0:
            time.sleep(min(SAMPLE_SECONDS, left))
            waits += [wait / 1e6 for wait in self._board.new_waits_ns(self._seen)]
        throughput = (self._board.ran - ran) / (time.monotonic() - began)
        p50, p99 = (quantiles(waits, n=100)[at] for at in (49, 98)) if len(waits) > 1 else (0.0, 0.0)
        window = Window(round(throughput, 1), round(p50, 2), round(p99, 2))
        say(f"  {time.monotonic() - self._began:>5.0f} s  {self._name:<10}{title:<12}{words(window)}")
        return window


def words(window: Window) -> str:
    return f"{window.throughput:,.0f} jobs/s, wait p50 {window.p50_ms:,.1f} ms, p99 {window.p99_ms:,.1f} ms"


def measure(server: Server, subject: Subject, plan: Plan) -> Figures:
    """One subject: before, and at the end of the hold."""
    with server.database() as url, tempfile.TemporaryDirectory() as folder:
        placed = subject.at(url, Path(folder))
        placed.install()
        board = Board(Path(folder))
        with placed.producer() as producer, placed.workers(1), offered(subject, producer, board, plan):
            sampler = Sampler(board, subject.name)
            sampler.over(plan.warm, "warm-up")
            before = sampler.over(plan.window, "before")
            with held(server, url):
                for start in range(plan.window, plan.held, plan.window):
                    sampler.over(min(plan.window, plan.held - start), "held")
                last = sampler.over(plan.window, "held, last")
    return {"before": msgspec.to_builtins(before), "last": msgspec.to_builtins(last)}


@contextmanager
def offered(subject: Subject, producer: Producer, board: Board, plan: Plan) -> Iterator[None]:
    """Jobs come at the plan's rate once the worker has run a first one, until they have all been sent."""
    producer.ask("one", 1)
    until(subject, board, 1)
    producer.begin("pace", plan.rate, plan.whole)
    yield
    producer.end()


@contextmanager
def held(server: Server, url: str) -> Iterator[Any]:
    """A transaction with a snapshot, open as long as the block."""
    with server.connect(url) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield connection
        connection.execute("COMMIT")


def share(run: Figures) -> float:
    """What part of its throughput a subject kept."""
    return float(run["last"]["throughput"]) / float(run["before"]["throughput"])


def kept(figures: Figures) -> bool:
    ours = figures["subjects"]["tenure"]
    return share(ours) > SHARE and ours["last"]["p99_ms"] < P99_MS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.postgres.hold", description=__doc__)
    add_options(parser)
    parser.add_argument("--minutes", type=float, default=10, help="how long the transaction is held open")
    parser.add_argument("--rate", type=int, default=Plan().rate, help="jobs a second")
    parser.add_argument("--peers", default=str(PGQUEUER.peer), help="none for Tenure alone")
    options = parser.parse_args()
    length = round(60 * options.minutes)
    plan = QUICK if options.quick else Plan(rate=options.rate, held=length, window=min(Plan().window, length // 2))
    subjects = [subject for subject in chosen(options.peers) if subject.name in ("tenure", PGQUEUER.name)]
    with started(anywhere=options.quick) as server:
        runs = {subject.name: measure(server, subject, plan) for subject in subjects}
        figures = {"server": server.settings, "plan": msgspec.to_builtins(plan), "subjects": runs}
    for name, run in runs.items():
        say(f"  {name}: {share(run):.0%} of its throughput, p99 wait {run['last']['p99_ms']:,.0f} ms")
    keep(options.record, "postgres_hold", COMMAND, figures)
    return 0 if kept(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
