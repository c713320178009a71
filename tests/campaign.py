"""The long run of the state machine: `python -m tests.campaign [--steps 100000] [--stores memory,sqlite,postgres] ...`.

Prints per rule how often it ran, was accepted and was refused, and how often each refusal was seen; fails on the first
divergence or violation, and when a refusal of §5 was too rare to have been tested.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tenure.testing.machine import Tally, run_machine
from tenure.testing.machine.__main__ import factory_of, line
from tenure.testing.postgres import served

PIECE = 4_000
"""Steps that one process runs before it reports."""
RARE = 1_000
"""Each refusal of §5 is wanted at least once in so many steps."""


class Piece(msgspec.Struct, frozen=True):
    """A part of the campaign: its own seed, so that it can be run again alone."""

    store: str
    steps: int
    seed: int


class Outcome(msgspec.Struct, frozen=True):
    """What a piece came to; `finding` is None when nothing was found."""

    piece: Piece
    tally: dict[str, Any]
    finding: str | None = None
    story: str = ""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="over all stores together")
    parser.add_argument("--stores", default="memory,sqlite,postgres")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--record", type=Path, help="write the counts there, as JSON")
    return parser.parse_args()


def pieces(steps: int, stores: list[str], seed: int) -> list[Piece]:
    """The campaign cut up, the stores in turn."""
    each = -(-steps // len(stores))
    cut = [min(PIECE, each - start) for start in range(0, each, PIECE)]
    todo = [(store, size) for size in cut for store in stores]
    return [Piece(store, size, seed * 10_000 + number) for number, (store, size) in enumerate(todo)]


def work(piece: Piece) -> Outcome:
    tally = Tally()
    try:
        run_machine(factory_of(piece.store), steps=piece.steps, seed=piece.seed, tally=tally)
    except Exception as error:
        return Outcome(piece, tally.as_dict(), line(error), "\n".join(getattr(error, "__notes__", ())))
    return Outcome(piece, tally.as_dict())


def outcomes(todo: list[Piece], processes: int) -> Iterator[Outcome]:
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(work, todo)


def found(outcome: Outcome) -> str:
    """A finding, and how to see it again."""
    piece = outcome.piece
    again = f"python -m tenure.testing.machine --store {piece.store} --steps {piece.steps} --seed {piece.seed} --story"
    return f"{outcome.finding}\n{outcome.story}\nagain: {again}"


def commit() -> str:
    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return git.stdout.strip() or "none"


def record(path: Path, tallies: dict[str, Tally], seed: int, seconds: float) -> None:
    total = together(tallies)
    body = {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "steps": total.steps,
        "steps_by_store": {store: tally.steps for store, tally in tallies.items()},
        "seed": seed,
        "seconds": round(seconds, 1),
        **total.as_dict(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1) + "\n")


def together(tallies: dict[str, Tally]) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    return total


def main() -> int:
    options = parse()
    stores = options.stores.split(",")
    tallies = {store: Tally() for store in stores}
    started = time.monotonic()
    done = 0
    print(f"{options.steps:,} steps over {', '.join(stores)}, seed {options.seed}", flush=True)
    with served() if "postgres" in stores else nullcontext():
        for outcome in outcomes(pieces(options.steps, stores, options.seed), options.processes):
            if outcome.finding is not None:
                print(found(outcome))
                return 1
            tallies[outcome.piece.store].add(Tally.of(outcome.tally))
            done += outcome.piece.steps
            print(f"  {done:>9,} steps  {time.monotonic() - started:>6.0f} s  {outcome.piece.store}", flush=True)
    return conclude(options, tallies, time.monotonic() - started)


def conclude(options: argparse.Namespace, tallies: dict[str, Tally], seconds: float) -> int:
    total = together(tallies)
    print(total.table())
    by_store = ", ".join(f"{store} {tally.steps:,}" for store, tally in tallies.items())
    print(f"\nno divergence and no violation in {total.steps:,} steps ({by_store}), {seconds:.0f} s")
    if options.record is not None:
        record(options.record, tallies, options.seed, seconds)
    wanted = total.steps // RARE
    missing = total.missing(at_least=wanted)
    if missing:
        print(f"seen less than {wanted} times: {', '.join(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
