"""Prints each line of what Tenure promises to show, with its command and its figure: `make show-contract`.

Short ones run now; long ones are read from their last recorded run, with its commit and date. A record that is missing
is said to be so, and so is one that is older than the code: run its command again if the change may matter. Exit code 1
if a promise isn't shown or isn't kept.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bench import fairness, growth, record, sqlite
from bench.record import Figures

STEPS = 100_000
REFUSALS = ("JobNotFound", "LeaseLost", "Settled again", "JobCancelled", "JobFinished", "LeaseExpired")
EACH_REFUSAL = 100
FASTEST_BATCH = 200
WANTED_RATE = 40_000


class Line(msgspec.Struct, frozen=True):
    """One promise: `kept` is None when nothing shows it either way."""

    promise: str
    command: str
    figure: str
    kept: bool | None
    origin: str = "run now"


Shown = tuple[str, bool]
"""The figure in words, and whether it keeps the promise."""


def recorded(name: str, promise: str, command: str, judge: Callable[[Figures], Shown]) -> Line:
    """A promise that a record shows."""
    figures = record.read(name)
    if figures is None:
        return Line(promise, command, f"NOT RECORDED: no bench/results/{name}.json", None, "")
    try:
        figure, kept = judge(figures)
    except (KeyError, StopIteration) as error:
        figure, kept = f"the record lacks {error}", False
    stale = record.freshness(figures)
    changed = " + uncommitted changes" if figures.get("changed") else ""
    origin = f"recorded {figures.get('date', '?')} at {str(figures.get('commit', '?'))[:12]}{changed}"
    return Line(promise, command, figure, kept, f"{origin}; {stale}".rstrip("; "))


# How each record is judged


def fresh(figures: Figures) -> Shown:
    parts = [f"{name} {'passed' if run['ok'] else 'FAILED'} in {run['seconds']} s" for name, run in runs(figures)]
    return ", ".join(parts), bool(parts) and all(run["ok"] for _, run in runs(figures))


def runs(figures: Figures) -> list[tuple[str, Figures]]:
    return [(name, dict(run)) for name, run in figures["runs"].items()]


def campaign(figures: Figures) -> Shown:
    by_store = ", ".join(f"{store} {steps:,}" for store, steps in figures["steps_by_store"].items())
    seen = {name: int(figures["lease_refusals"].get(name, 0)) for name in REFUSALS}
    rarest = min(seen, key=lambda name: seen[name])
    text = f"{figures['steps']:,} steps ({by_store}), no divergence; rarest refusal of §5: {rarest} {seen[rarest]:,}×"
    return text, figures["steps"] >= STEPS and seen[rarest] >= EACH_REFUSAL


def mutants(figures: Figures) -> Shown:
    killed, total = int(figures["killed"]), int(figures["mutants"])
    text = (
        f"{killed} of {total} mutants killed in {figures['seconds']:.0f} s, "
        f"{figures['neutral_survived']} of {figures['neutral']} neutral patches survived"
    )
    return text, killed == total > 0 and figures["neutral_survived"] == figures["neutral"] and not figures["faults"]


def kills(figures: Figures) -> Shown:
    text = (
        f"{figures['jobs']:,} jobs, {figures['kills']} kills, {figures['leases_lost']:,} leases lost, "
        f"{figures['recovered']:,} recovered, lost {figures['lost']}, settled twice {figures['settled_twice']}, "
        f"{len(figures['faults'])} faults"
    )
    enough = figures["jobs"] >= 20_000 and figures["kills"] >= 50 and figures["leases_lost"] >= 100
    return text, enough and not figures["faults"] and not figures["lost"] and not figures["settled_twice"]


def throughput(figures: Figures) -> Shown:
    rates = {field: sqlite.rate(figures, "sqlite", FASTEST_BATCH, field) for field in ("two_calls", "exchange")}
    enqueue = sqlite.rate(figures, "sqlite", FASTEST_BATCH, "enqueue")
    bare = sqlite.rate(figures, "bare SQLite", FASTEST_BATCH, "two_calls")
    text = (
        f"batch {FASTEST_BATCH}: claim+settle {rates['two_calls']:,}/s by two calls, "
        f"{rates['exchange']:,}/s by exchange, enqueue {enqueue:,}/s; "
        f"bare SQLite in the same run {bare:,}/s ({rates['two_calls'] / bare:.0%}); "
        f"4 KiB fdatasync {figures['fsync_micros']:.0f} µs"
    )
    return text, max(rates.values()) >= WANTED_RATE and figures["scale"] >= 1


def grown(figures: Figures) -> Shown:
    high = growth.worst(figures)
    text = f"{figures['backlog']:,} jobs; worst: {high['case']}, {growth.growth_of(high)}× a claim's cost"
    return text, growth.growth_of(high) < growth.BOUND and figures["backlog"] >= 1_000_000


def fair_in_full(figures: Figures) -> Shown:
    figure, kept = fair(figures)
    return figure, kept and figures["sizes"] == msgspec.to_builtins(fairness.Sizes())


def fair(figures: Figures) -> Shown:
    found = list(fairness.rows(figures))
    wait = max(run["longest_wait"] for _, scene, run in found if scene == "small_beside_large")
    rotation = max(run["rotation"] for _, scene, run in found if scene == "small_beside_large")
    off = max(run["furthest_off"] for _, scene, run in found if scene == "shares")
    alone = all(run["ok"] for _, scene, run in found if scene == "lone")
    text = (
        f"longest wait {wait} jobs in a rotation of {rotation}; shares within {off:.1%} of the weights; "
        f"a lone tenant {'gets everything' if alone else 'DOES NOT get everything'}"
    )
    return text, fairness.all_fair(figures)


# The lines


def conformance() -> Line:
    """Every test of the suite, on both stores."""
    command = ["pytest", "-q", "-n", "2", "tests/conformance"]
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=record.ROOT, capture_output=True, text=True, check=False
    )
    said = done.stdout.strip().splitlines()[-1:] or ["nothing was said"]
    return Line("conformance, memory and SQLite", "make conform", said[0], done.returncode == 0)


def fair_now() -> Line:
    figures = fairness.measure(None, fairness.SMALL, lambda text: None)
    figure, kept = fair(figures)
    return Line("fairness, in small", "python -m bench fairness --small", figure, kept)


def lines() -> Iterator[Line]:
    yield recorded("fresh", "make test and make demo in a fresh clone", "python -m bench.fresh --record", fresh)
    yield conformance()
    yield recorded(
        "campaign",
        f"≥ {STEPS:,} machine steps, each refusal of §5 ≥ {EACH_REFUSAL}×",
        "python -m tests.campaign --record bench/results/campaign.json",
        campaign,
    )
    yield recorded(
        "mutants", "every mutant killed", "python -m tests.mutants --record bench/results/mutants.json", mutants
    )
    yield recorded(
        "kills",
        "4 processes, SIGKILL: 20,000 jobs, ≥ 50 kills, ≥ 100 leases lost, none lost, none settled twice",
        "python -m tests.kills --record bench/results/kills.json",
        kills,
    )
    yield recorded(
        "bench",
        f"SQLite at FULL: ≥ {WANTED_RATE:,} jobs/s claim+settle at batch {FASTEST_BATCH}",
        "python -m bench throughput --record",
        throughput,
    )
    yield recorded(
        "growth",
        f"1 M waiting, 1 M scheduled, 10,000 tenants: a claim grows by less than {growth.BOUND}×",
        "python -m bench growth --record",
        grown,
    )
    yield recorded(
        "fairness",
        "small tenants served within one rotation; shares within 10 % of weights; a lone tenant gets everything",
        "python -m bench fairness --record",
        fair_in_full,
    )
    yield fair_now()


WORDS: dict[Any, str] = {True: "kept", False: "BROKEN", None: "NOT SHOWN"}


def main() -> int:
    kept = True
    for line in lines():
        print(f"{WORDS[line.kept]:<10}{line.promise}")
        print(f"{'':<10}{line.figure}")
        print(f"{'':<10}$ {line.command}" + (f"   ({line.origin})" if line.origin else ""), flush=True)
        kept = kept and line.kept is True
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
