"""The drain of today's code beside that of an earlier commit and beside peers: `python -m bench.before [--record]`.

SQLite beside Huey with fsync, PostgreSQL beside PgQueuer, interleaved in one run. Needs git's history for the earlier
code, and the network the first time PgQueuer is asked for.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median

import msgspec
from msgspec.structs import replace

from bench import record
from bench.folder import check_disk
from bench.postgres import measure as on_postgres
from bench.postgres.command import add_options, say
from bench.postgres.peers import versions
from bench.postgres.server import Server, started
from bench.postgres.subjects import PGQUEUER, TENURE
from bench.record import ROOT, Figures
from bench.worker import measure as on_sqlite
from bench.worker.subjects import HueyFsync, TenureWorker

BEFORE = "716f7f4"
"""Before handlers got a task and a context each."""
TODAY, EARLIER = "tenure", "tenure, before"
COMMAND = "python -m bench.before --record"
ON_SQLITE = {subject.__name__: subject for subject in (TenureWorker, HueyFsync)}

Drain = Callable[[], float]


@contextmanager
def source_of(commit: str) -> Iterator[Path]:
    """The package as it was at a commit: the folder to put on the path."""
    with tempfile.TemporaryDirectory(prefix="tenure-before-") as folder:
        packed = subprocess.run(
            ["git", "archive", commit, "src/tenure"], cwd=ROOT, capture_output=True, check=False, timeout=60
        )
        if packed.returncode:
            raise SystemExit(f"{commit} isn't in this clone's history: {packed.stderr.decode().strip()}")
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Path(folder) / "src"


def sqlite_drain(subject: str, source: Path, scale: float) -> float:
    """Jobs a second through one worker, in a process that has the package from there."""
    path = os.pathsep.join([str(ROOT), str(source)])
    command = [sys.executable, "-m", "bench.before", "--one", subject, "--scale", str(scale)]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def one_on_sqlite(subject: str, scale: float) -> float:
    sizes = on_sqlite.Sizes(scale, on_sqlite.SMALL.latency_jobs, on_sqlite.SMALL.idle_seconds)
    return on_sqlite.measure_one(ON_SQLITE[subject], None, sizes).drain


def subjects(server: Server, source: Path, scale: float, peers: bool) -> dict[str, dict[str, Drain]]:
    """{store: {name: how it is drained}}"""
    sizes = on_postgres.Sizes(scale=scale)
    today = TENURE if peers else replace(TENURE, peer=None)
    earlier = replace(today, environment={"PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])})
    postgres: dict[str, Drain] = {
        TODAY: lambda: on_postgres.drain_only(server, today, sizes),
        EARLIER: lambda: on_postgres.drain_only(server, earlier, sizes),
    }
    if peers:
        postgres["pgqueuer"] = lambda: on_postgres.drain_only(server, PGQUEUER, sizes)
    return {
        "sqlite": {
            TODAY: lambda: sqlite_drain("TenureWorker", ROOT / "src", scale),
            EARLIER: lambda: sqlite_drain("TenureWorker", source, scale),
            "huey, fsync": lambda: sqlite_drain("HueyFsync", ROOT / "src", scale),
        },
        "postgres": postgres,
    }


def measured(commit: str, rounds: int, scale: float, peers: bool) -> Figures:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with source_of(commit) as source, started(anywhere=scale < 1) as server:
        settings = server.settings
        for number in range(1, rounds + 1):
            for store, drains in subjects(server, source, scale, peers).items():
                for name in random.sample(list(drains), len(drains)):
                    found[store][name].append(drains[name]())
                    say(f"  round {number}: {store:<9}{name:<16}{found[store][name][-1]:>9,.0f}/s")
    return {
        "before": commit,
        "rounds": rounds,
        "scale": scale,
        "server": settings,
        "versions": {"huey": version("huey"), **({"pgqueuer": versions("pgqueuer")} if peers else {})},
        "drains": {store: {name: round(median(rates)) for name, rates in ofs.items()} for store, ofs in found.items()},
        "paired": {store: round(median(paired(rates)), 3) for store, rates in found.items()},
        "each": {
            store: {name: [round(rate) for rate in rates] for name, rates in of.items()} for store, of in found.items()
        },
    }


def paired(rates: dict[str, list[float]]) -> list[float]:
    """Today's drain to the one before it or after it in the same round."""
    return [today / earlier for today, earlier in zip(rates[TODAY], rates[EARLIER], strict=True)]


def words(figures: Figures) -> str:
    """What it comes to, a sentence a store."""
    told = []
    for store, rates in figures["drains"].items():
        others = (f"{rates[TODAY] / rate:.2f}× {name} ({rate:,}/s)" for name, rate in rates.items() if name != TODAY)
        told.append(
            f"{store} {rates[TODAY]:,}/s: {', '.join(others)}, "
            f"median of paired rounds {figures['paired'][store]:.2f}× before"
        )
    return "; ".join(told)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.before", description=__doc__)
    add_options(parser)
    parser.add_argument("--commit", default=BEFORE, help=f"the earlier one (default: {BEFORE})")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of jobs")
    parser.add_argument("--no-peers", action="store_true", help="without PgQueuer, which is installed the first time")
    parser.add_argument("--one", choices=sorted(ON_SQLITE), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.one:
        print(one_on_sqlite(options.one, options.scale))
        return 0
    check_disk(None)
    scale, rounds = (0.01, 1) if options.quick else (options.scale, options.rounds)
    figures = measured(options.commit, rounds, scale, not options.no_peers)
    say("  " + words(figures))
    if options.record:
        record.write(options.record / "before.json", COMMAND, msgspec.to_builtins(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
