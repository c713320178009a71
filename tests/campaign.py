"""The long run of the state machine: `python -m tests.campaign [--steps 150000] [--stores memory,sqlite,postgres] ...`.

Each store runs in every profile that is for it. Prints per rule how often it ran, was accepted and was refused, how
often each refusal was seen, and which ways calls took; fails on the first divergence or violation, when a refusal of §5
was too rare to have been tested, and when a way was taken less often than its profile's floor.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from tenure.stores.ways import Way
from tenure.testing.machine import Tally, run_machine
from tenure.testing.machine.__main__ import factory_of, line
from tenure.testing.machine.profiles import PROFILES, profiles_of
from tenure.testing.postgres import served

PIECE = 2_000
"""Steps that one process runs before it reports."""
RARE = 1_000
"""Each refusal of §5 is wanted at least once in so many steps."""


Tallies = dict[tuple[str, str], Tally]
"""By (store, profile)."""


class Piece(msgspec.Struct, frozen=True):
    """A part of the campaign: its own seed, so that it can be run again alone."""

    store: str
    profile: str
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
    parser.add_argument("--steps", type=int, default=150_000, help="over all stores together")
    parser.add_argument("--stores", default="memory,sqlite,postgres")
    parser.add_argument(
        "--profiles", default=",".join(PROFILES), help="the kinds of world (testing/machine/profiles.py)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--record", type=Path, help="write the counts there, as JSON")
    return parser.parse_args()


def pieces(steps: int, stores: list[str], profiles: list[str], seed: int) -> list[Piece]:
    """The campaign cut up, stores and profiles in turn; a profile's share of a store's steps is as it says."""
    rows = [_cut(store, -(-steps // len(stores)), profiles) for store in stores]
    turns = [part for turn in zip_longest(*rows) for part in turn if part is not None]
    return [Piece(store, profile, size, seed * 10_000 + number) for number, (store, profile, size) in enumerate(turns)]


def _cut(store: str, steps: int, names: list[str]) -> list[tuple[str, str, int]]:
    """[(store, profile, steps)]"""
    chosen = [profile for profile in profiles_of(store) if profile.name in names]
    parts = sum(profile.share for profile in chosen)
    rows = []
    for profile in chosen:
        each = -(-steps * profile.share // parts)
        rows.append([(store, profile.name, min(PIECE, each - start)) for start in range(0, each, PIECE)])
    return [part for turn in zip_longest(*rows) for part in turn if part is not None]


def work(piece: Piece) -> Outcome:
    tally, profile = Tally(), PROFILES[piece.profile]
    factory = factory_of(piece.store, profile)
    try:
        run_machine(factory, steps=piece.steps, seed=piece.seed, profile=profile, tally=tally)
    except Exception as error:
        return Outcome(piece, tally.as_dict(), line(error), "\n".join(getattr(error, "__notes__", ())))
    return Outcome(piece, tally.as_dict())


def outcomes(todo: list[Piece], processes: int) -> Iterator[Outcome]:
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(work, todo)


def found(outcome: Outcome) -> str:
    """A finding, and how to see it again."""
    piece = outcome.piece
    again = f"--store {piece.store} --profile {piece.profile} --steps {piece.steps} --seed {piece.seed} --story"
    return f"{outcome.finding}\n{outcome.story}\nagain: python -m tenure.testing.machine {again}"


def commit() -> str:
    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return git.stdout.strip() or "none"


def record(path: Path, tallies: Tallies, rare: list[str], seed: int, seconds: float) -> None:
    total = together(tallies)
    by_store: Counter[str] = Counter()
    for (store, _), tally in tallies.items():
        by_store[store] += tally.steps
    body = {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "steps": total.steps,
        "steps_by_store": by_store,
        "seed": seed,
        "seconds": round(seconds, 1),
        **total.as_dict(),
        "ways": {f"{store}, {profile}": _ways(store, profile, tally) for (store, profile), tally in tallies.items()},
        "below_their_floor": rare,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1) + "\n")


def _ways(store: str, profile: str, tally: Tally) -> dict[str, Any]:
    floors = PROFILES[profile].floors_of(store, tally.steps)
    taken = {way.value: {"taken": tally.ways[way], "floor": floors.get(way, 0)} for way in Way if tally.ways[way]}
    return {"steps": tally.steps, "ways": taken}


def together(tallies: Tallies) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    return total


def ways_table(tallies: Tallies) -> str:
    """How often each way was taken, a table a store: a column a profile, and the floor after a stroke."""
    lines: list[str] = []
    for store in dict.fromkeys(store for store, _ in tallies):
        columns = {profile: tally for (of, profile), tally in tallies.items() if of == store}
        lines += ["", f"  {'ways on ' + store:<48}" + "".join(f"{profile:>17}" for profile in columns)]
        lines.append(f"  {'steps':<48}" + "".join(f"{tally.steps:>17,}" for tally in columns.values()))
        for way in Way:
            if any(tally.ways[way] for tally in columns.values()):
                lines.append(f"  {way:<48}" + "".join(_cell(store, one, tally, way) for one, tally in columns.items()))
    return "\n".join(lines)


def _cell(store: str, profile: str, tally: Tally, way: Way) -> str:
    floor = PROFILES[profile].floors_of(store, tally.steps).get(way)
    return f"{tally.ways[way]:>{17 if floor is None else 17 - len(f'/{floor}')},}" + (
        "" if floor is None else f"/{floor}"
    )


def main() -> int:
    options = parse()
    stores = options.stores.split(",")
    todo = pieces(options.steps, stores, options.profiles.split(","), options.seed)
    tallies: Tallies = {}
    started = time.monotonic()
    done = 0
    print(f"{options.steps:,} steps over {', '.join(stores)}, seed {options.seed}", flush=True)
    with served() if "postgres" in stores else nullcontext():
        for outcome in outcomes(todo, options.processes):
            if outcome.finding is not None:
                print(found(outcome))
                return 1
            piece = outcome.piece
            tallies.setdefault((piece.store, piece.profile), Tally()).add(Tally.of(outcome.tally))
            done += piece.steps
            print(
                f"  {done:>9,} steps  {time.monotonic() - started:>6.0f} s  {piece.store} {piece.profile}", flush=True
            )
    order = list(dict.fromkeys((piece.store, piece.profile) for piece in todo))
    return conclude(options, {key: tallies[key] for key in sorted(order)}, time.monotonic() - started)


def conclude(options: argparse.Namespace, tallies: Tallies, seconds: float) -> int:
    total = together(tallies)
    print(total.table())
    print(ways_table(tallies))
    print(f"\nno divergence and no violation in {total.steps:,} steps, {seconds:.0f} s")
    wanted = total.steps // RARE
    missing = total.missing(at_least=wanted)
    if missing:
        print(f"seen less than {wanted} times: {', '.join(missing)}")
    rare = [
        words
        for (store, name), tally in tallies.items()
        for words in PROFILES[name].missing(store, tally.ways, tally.steps)
    ]
    print(*rare, sep="\n")
    if options.record is not None:
        record(options.record, tallies, rare, options.seed, seconds)
    return 1 if missing or rare else 0


if __name__ == "__main__":
    sys.exit(main())
