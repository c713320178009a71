"""What is promised about PostgreSQL."""

from collections.abc import Callable, Iterator

from bench import reach
from bench.postgres import fairness, growth, hold, measure
from bench.promises.line import Promise, Shown, recorded, tested
from bench.record import Figures

STEPS = 50_000
JOBS, SERVER_KILLS, WORKER_KILLS = 500_000, 50, 200
DRAIN_TIMES, BULK_TIMES = 2.0, 1.5
MINUTES, RATE = 10, 2_000
RECOVERY = {
    "server": "a settle after the server's return",
    "lease": "a killed worker's lease taken back after",
    "worker": "its job run again, in its turn, after",
}
RATES = "python -m bench.postgres --record"
KILLS = "python -m tests.kills --store postgres --jobs 500000 --server-kills 50 --worker-kills 200 --record"


# How each record is judged


def campaign(figures: Figures) -> Shown:
    steps = int(figures["steps_by_store"].get("postgres", 0))
    return f"{steps:,} steps on PostgreSQL, no divergence, {figures['seconds']:.0f} s", steps >= STEPS


def mutants(figures: Figures) -> Shown:
    killed, total = int(figures["killed"]), int(figures["mutants"])
    return f"{killed} of {total} mutants killed", killed == total > 0 and not figures["faults"]


def kills(figures: Figures) -> Shown:
    recovery = ", ".join(
        f"{what} p50 {spread['p50']:,} ms, max {spread['max']:,}"
        for name, what in RECOVERY.items()
        if (spread := figures.get(f"{name}_recovery")) is not None
    )
    text = (
        f"{figures['jobs']:,} jobs, {figures['server_kills']} kills of the server, {figures['kills']} of workers, "
        f"lost {figures['lost']}, settled twice {figures['settled_twice']}, {len(figures['faults'])} faults; "
        f"recovery: {recovery or 'not said'}"
    )
    enough = figures["jobs"] >= JOBS and figures["server_kills"] >= SERVER_KILLS and figures["kills"] >= WORKER_KILLS
    return text, enough and not figures["faults"] and not figures["lost"] and not figures["settled_twice"]


def beside(field: str, times: float) -> Callable[[Figures], Shown]:
    """A rate against the best peer's, in a run of full size."""

    def judge(figures: Figures) -> Shown:
        reached, whole = measure.ratio(figures, field), figures["sizes"]["scale"] >= 1
        return compared(figures, field), reached is not None and reached >= times and whole

    return judge


def latency(figures: Figures) -> Shown:
    reached = measure.ratio(figures, "p50_ms")
    text = f"{compared(figures, 'p50_ms')}; {compared(figures, 'p99_ms')}"
    return text, reached is not None and reached <= 1


def compared(figures: Figures, field: str) -> str:
    """Ours, the best peer's, and how they compare."""
    title, ours = measure.WORDS[field], figures["subjects"]["tenure"][field]
    peer = measure.best(figures, field)
    if peer is None:
        return f"{title} {measure.number(ours)}, beside nobody"
    times = f"{measure.ratio(figures, field):.2f}× the best peer ({peer[0]} {measure.number(peer[1])})"
    return f"{title} {measure.number(ours)}, round by round {times}"


def limit(figures: Figures) -> Shown:
    shares = {field: measure.share(figures, field) for field in measure.LIMITED}
    text = ", ".join(f"{measure.WORDS[field].removesuffix('/s')} {share:.0%}" for field, share in shares.items())
    return f"{text} of what pgbench does with the same rows", True


def grown(figures: Figures) -> Shown:
    high = growth.worst(figures)
    text = f"worst: {high['case']}, {growth.growth_of(high)}× the cost of a claim beside {high['against']}"
    return text, growth.growth_of(high) < growth.BOUND and figures["sizes"]["many"] >= 1_000_000


def held(figures: Figures) -> Shown:
    parts = [
        f"{name} {hold.share(run):.0%} of {run['before']['throughput']:,.0f} jobs/s, "
        f"p99 wait {run['last']['p99_ms']:,.0f} ms"
        for name, run in figures["subjects"].items()
    ]
    plan = figures["plan"]
    whole = plan["held"] >= 60 * MINUTES and plan["rate"] >= RATE
    return "; ".join(parts), hold.kept(figures) and whole and len(parts) > 1


def in_turn(figures: Figures) -> Shown:
    large = figures["sizes"]["large"]
    parts = "; ".join(fairness.rotation_words(run) for run in figures["rotation"])
    return f"{large:,} jobs beside one; {parts}", fairness.in_turn(figures) and large >= 1_000_000


def grouped(figures: Figures) -> Shown:
    run = figures["groups"]
    whole = run["groups"] >= 1_000 and run["workers"] >= 8
    return fairness.group_words(run), fairness.one_at_a_time(figures) and whole


def by_hints(figures: Figures) -> Shown:
    return reach.judged(figures, [reach.POSTGRES])


def by_looks(figures: Figures) -> Shown:
    return reach.judged(figures, [reach.CUT, reach.POOLER])


def spark(figures: Figures) -> Shown:
    """Whatever rates it has: they are to be seen, not to be reached."""
    rates = {
        f"{part} {name}": rate
        for part in ("read", "write")
        for name, rate in figures.get(part, {}).get("rates", {}).items()
    }
    return ", ".join(f"{name} {rate:,.0f}/s" for name, rate in rates.items()), bool(rates)


# The lines


def promises() -> Iterator[Promise]:
    yield tested("conformance on a real PostgreSQL", "tests/conformance", "-k", "postgres")
    yield recorded(
        "campaign",
        f"≥ {STEPS:,} machine steps on a real PostgreSQL, beside the model",
        "python -m tests.campaign --record bench/results/campaign.json",
        campaign,
    )
    yield recorded(
        "mutants", "every mutant killed", "python -m tests.mutants --record bench/results/mutants.json", mutants
    )
    yield recorded(
        "kills_postgres",
        f"{JOBS:,} jobs, {SERVER_KILLS} server kills, {WORKER_KILLS} worker kills: none lost, none settled twice",
        f"{KILLS} bench/results/kills_postgres.json",
        kills,
    )
    yield recorded(
        "postgres", f"drain ≥ {DRAIN_TIMES:g}× the best peer, one process", RATES, beside("drain", DRAIN_TIMES)
    )
    yield recorded("postgres", "and by four processes", RATES, beside("drain_four", DRAIN_TIMES))
    yield recorded("postgres", f"bulk enqueue ≥ {BULK_TIMES:g}× the best peer", RATES, beside("bulk", BULK_TIMES))
    yield recorded("postgres", "one-by-one enqueue at or above the best peer", RATES, beside("one", 1))
    yield recorded("postgres", "from enqueue to start: p50 at or below the best peer's", RATES, latency)
    yield recorded("postgres", "the share of the raw limit", RATES, limit)
    yield recorded(
        "postgres_growth",
        f"1 M ready, 1 M scheduled, 10 M finished, 10,000 tenants: a claim grows by less than {growth.BOUND}×",
        growth.COMMAND,
        grown,
    )
    yield tested(
        "the plan of every hot statement, stale statistics and without hash joins too",
        "tests/stores/test_postgres_plans.py",
    )
    yield recorded(
        "postgres_hold",
        f"a transaction held for {MINUTES} minutes at {RATE:,} jobs/s: > {hold.SHARE:.0%} of the throughput, "
        f"p99 wait < {hold.P99_MS:,} ms",
        hold.COMMAND,
        held,
    )
    yield recorded(
        "postgres_fairness",
        "a tenant with 1 M jobs delays one with a single job by at most a rotation",
        fairness.COMMAND,
        in_turn,
    )
    yield recorded(
        "postgres_fairness", "limit 1 on 1,000 groups, 8 workers: never two at once", fairness.COMMAND, grouped
    )
    yield recorded(
        "reach",
        f"between processes, by hints alone: every start, result and cancel, p99 < {reach.P99_MS} ms",
        reach.COMMAND,
        by_hints,
    )
    yield recorded(
        "reach",
        f"the same where nobody can listen, and behind a pooler, by looks: within {reach.MOST_MS:,} ms",
        reach.COMMAND,
        by_looks,
    )
    yield recorded(
        "spark_postgres",
        "Spark reads and bulk enqueues, beside its own JDBC source and sink",
        "python -m bench.spark_postgres --record",
        spark,
    )
