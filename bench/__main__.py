"""Measures: `python -m bench [throughput] [growth] [fairness] [worker] [postgres] [--record] [--dir DIR] [--small]`.

Without names all of them. `--record` keeps the figures in bench/results/ and rewrites docs/benchmarks.md.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench import fairness, growth, markdown, record, sqlite
from bench.folder import check_disk
from bench.postgres import measure as postgres
from bench.record import RESULTS, Figures
from bench.worker import measure as workers
from bench.worker import profile


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(MEASURES)}; all when none is given")
    parser.add_argument(
        "--record", type=Path, nargs="?", const=RESULTS, help="keep the figures there (bench/results/), as JSON"
    )
    parser.add_argument("--dir", type=Path, help="put the stores there (a folder on a real disk)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of jobs in throughput and worker")
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=25, help="claims in one measurement of growth")
    parser.add_argument("--peers", default="all", help="of postgres: all, none, or their names")
    parser.add_argument("--small", action="store_true", help="only to see that it runs: the figures mean nothing")
    options = parser.parse_args()
    unknown = set(options.parts) - set(MEASURES)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    return options


def say(text: str) -> None:
    print(text, flush=True)


def throughput(options: argparse.Namespace) -> Figures:
    scale = 0.02 if options.small else options.scale
    return sqlite.measure(options.dir, options.runs, scale, say)


def grown(options: argparse.Namespace) -> Figures:
    backlog, batches = (5_000, 2) if options.small else (options.backlog, options.batches)
    return growth.measure(options.dir, options.runs, backlog, batches, say)


def fair(options: argparse.Namespace) -> Figures:
    return fairness.measure(options.dir, fairness.SMALL if options.small else fairness.Sizes(), say)


def worker(options: argparse.Namespace) -> Figures:
    sizes = workers.SMALL if options.small else workers.Sizes(scale=options.scale)
    figures = workers.measure(options.dir, options.runs, sizes, say)
    workers.show(figures, say)
    figures["profile"] = profile.measure(options.dir, max(1_000, round(profile.JOBS * sizes.scale)))
    say(f"  {figures['profile']['cpu_micros']} µs a job: {profile.words(figures['profile'])}")
    return figures


def on_postgres(options: argparse.Namespace) -> Figures:
    sizes = postgres.QUICK if options.small else postgres.Sizes(scale=options.scale)
    return postgres.measured(options.peers, options.runs, sizes, say)


MEASURES: dict[str, tuple[str, Callable[[argparse.Namespace], Figures]]] = {
    "throughput": ("bench", throughput),
    "growth": ("growth", grown),
    "fairness": ("fairness", fair),
    "worker": ("worker", worker),
    "postgres": ("postgres", on_postgres),
}
"""Each part, the name of its record, and how it is measured."""


def main() -> int:
    options = parse()
    chosen = options.parts or MEASURES
    if not options.small:
        check_disk(options.dir)
    for title, (name, part) in MEASURES.items():
        if title in chosen:
            say(f"\n{title}")
            figures = part(options)
            if options.record is not None:
                record.write(options.record / f"{name}.json", f"python -m bench {title} --record", figures)
    if options.record is not None:
        page = markdown.PAGE if options.record == RESULTS else options.record / markdown.PAGE.name
        markdown.write(options.record, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
