"""What is promised about the contract and its stores."""

from collections.abc import Iterator

import msgspec

from bench import fairness, growth, sqlite
from bench.promises.line import Line, Promise, Shown, fresh, recorded, tested
from bench.record import Figures

STEPS = 50_000
REFUSALS = ("JobNotFound", "LeaseLost", "Settled again", "JobCancelled", "JobFinished", "LeaseExpired")
EACH_REFUSAL = 100
FASTEST_BATCH = 200
SHARE_OF_BARE = 1 / 3
"""Of what SQLite does without the contract: beside a job's row it writes its lease, its events and what finds it."""


# How each record is judged


def campaign(figures: Figures) -> Shown:
    by_store = ", ".join(f"{store} {steps:,}" for store, steps in figures["steps_by_store"].items())
    seen = {name: int(figures["lease_refusals"].get(name, 0)) for name in REFUSALS}
    rarest = min(seen, key=lambda name: seen[name])
    ways = {way for worlds in figures["ways"].values() for way in worlds["ways"]}
    below = figures["below_their_floor"]
    text = (
        f"{by_store} steps, no divergence; {len(ways)} ways in {len(figures['ways'])} pairs of store and profile, "
        f"{len(below)} below their floor; rarest refusal of §5: {rarest} {seen[rarest]:,}×"
    )
    enough = len(figures["steps_by_store"]) >= 3 and min(figures["steps_by_store"].values()) >= STEPS
    return text, enough and not below and seen[rarest] >= EACH_REFUSAL


def mutants(figures: Figures) -> Shown:
    killed, total = int(figures["killed"]), int(figures["mutants"])
    text = (
        f"{killed} of {total} mutants killed in {figures['seconds']:.0f} s, "
        f"{figures['neutral_survived']} of {figures['neutral']} neutral ones survived; "
        + ", ".join(f"{killer} {count}" for killer, count in figures["killed_by"].items())
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
    return text, max(rates.values()) >= SHARE_OF_BARE * bare and figures["scale"] >= 1


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


def fair_now() -> Line:
    figures = fairness.measure(None, fairness.SMALL, lambda text: None)
    figure, kept = fair(figures)
    return Line("fairness, in small", "python -m bench fairness --small", figure, kept)


def promises() -> Iterator[Promise]:
    yield recorded("fresh", "make test and make demo in a fresh clone", "python -m bench.fresh --record", fresh)
    yield tested("conformance, memory and SQLite", "tests/conformance")
    yield recorded(
        "campaign",
        f"≥ {STEPS:,} machine steps a store, each way above its floor, each refusal of §5 ≥ {EACH_REFUSAL}×",
        "python -m tests.campaign --record bench/results/campaign.json",
        campaign,
    )
    yield recorded(
        "mutants", "every mutant killed", "python -m tests.mutants --record bench/results/mutants.json", mutants
    )
    yield tested("mutants by symbol: a refactoring breaks those of its symbol alone", "tests/test_mutants.py")
    yield tested("the oracle shares no code with the stores under test", "tests/machine/test_oracle.py")
    yield tested("a field added in the domain arrives by every way of every store", "tests/machine/test_canary.py")
    yield tested("no store writes out what a record or an event consists of", "tests/stores/test_written_once.py")
    yield tested("the forms of bulk writes are what the model writes, of random jobs", "tests/stores/test_forms.py")
    yield tested(
        "operations without locks are as if one after the other, by the reads they noted",
        "tests/stores/test_optimistic.py",
    )
    yield recorded(
        "kills",
        "4 processes, SIGKILL: 20,000 jobs, ≥ 50 kills, ≥ 100 leases lost, none lost, none settled twice",
        "python -m tests.kills --record bench/results/kills.json",
        kills,
    )
    yield recorded(
        "bench",
        f"SQLite at FULL, batch {FASTEST_BATCH}: claim+settle ≥ {SHARE_OF_BARE:.0%} of bare SQLite in the same run",
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
    yield Promise(fair_now, runs=True)
