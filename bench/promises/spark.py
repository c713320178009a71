"""What is promised about the data pipeline on Spark."""

from collections.abc import Iterator

from bench.promises.line import Promise, Shown, fresh, ran, recorded, tested
from bench.record import Figures

LAKE = "python -m bench.lake --record"
RATES = "python -m bench.spark_rates --record"
SPARK = "tests/spark/"
MINUTES = 4
SHARE = 0.05
LINEAR = 1.3


def _largest(figures: Figures) -> Figures:
    return dict(figures["sizes"][max(figures["sizes"], key=int)])


def build(figures: Figures) -> Shown:
    parts = []
    for one in figures["sizes"].values():
        events, seconds = one["build"]["events"], one["build"]["seconds"]
        parts.append(f"{events:,} events in {seconds:.0f} s ({events / seconds:,.0f}/s), peak {one['peak_mib']:,} MiB")
    largest = _largest(figures)["build"]
    return "; ".join(parts), largest["seconds"] < 60 * MINUTES and largest["events"] >= 10_000_000


def growth(figures: Figures) -> Shown:
    costs = [one["build"]["seconds"] / one["build"]["events"] for one in figures["sizes"].values()]
    return f"{costs[-1] / costs[0]:.2f}× the time an event at ten times the size", costs[-1] <= LINEAR * costs[0]


def more(figures: Figures) -> Shown:
    shares = ", ".join(f"{name} {share:.1%}" for name, share in figures["warm_share"].items())
    fresh_cost = _largest(figures)["fresh"]
    text = (
        f"in a running process {shares} of the full build; in a new one {fresh_cost['build']['seconds']:.0f} s "
        f"and {fresh_cost['session_seconds']:.0f} s for its session"
    )
    judged = [max(figures["sizes"], key=int), "backlog"]
    return text, all(figures["warm_share"][name] < SHARE for name in judged)


def exact(figures: Figures) -> Shown:
    checks = [one["fresh"]["check"] for one in figures["sizes"].values()]
    rows = ", ".join(f"{check['rows']:,}" for check in checks)
    return f"{rows} rows of gold compared, {sum(len(check['different']) for check in checks)} tables differ", not any(
        check["different"] for check in checks
    )


def reading(figures: Figures) -> Shown:
    rates = figures["read"]["rates"]
    return ", ".join(f"{name} {rate:,.0f}/s" for name, rate in rates.items()), bool(rates)


def writing(figures: Figures) -> Shown:
    rates = figures["write"]["rates"]
    return ", ".join(f"{name} {rate:,.0f}/s" for name, rate in rates.items()), bool(rates)


def beside_jdbc(figures: Figures) -> Shown:
    rates = {**figures["read"]["rates"], **figures["write"]["rates"]}
    return ", ".join(f"{name} {rate:,.0f}/s" for name, rate in rates.items()), bool(rates)


def alone(figures: Figures) -> Shown:
    return f"{figures['said']}, {figures['packages']} packages, {figures['mib']:,} MiB", figures["said"] == "3"


def promises() -> Iterator[Promise]:
    yield recorded("fresh", "make test and make demo in a fresh clone", "python -m bench.fresh --record", fresh)
    yield tested("source, stream, sink, lake and report on local[2,3], one session", SPARK)
    yield tested(
        "source, sink and lake on executor processes, executors killed mid-write and the driver mid-commit",
        "-m",
        "campaign",
        SPARK + "test_cluster_story.py",
    )
    yield tested(
        "a session with no Java on PATH and no JAVA_HOME",
        SPARK + "test_source.py::test_a_session_starts_with_no_java_but_the_wheels",
    )
    yield recorded(
        "spark_only", "the same in a new environment with [spark] alone", "python -m bench.spark_only --record", alone
    )
    yield recorded("lake", f"10 M events from the store's feed to gold in under {MINUTES} minutes", LAKE, build)
    yield recorded("lake", "near-linear from 1 M to 10 M", LAKE, growth)
    yield recorded("lake", f"1 % more costs under {SHARE:.0%} while it follows, with 1 M open jobs too", LAKE, more)
    yield recorded("lake", "gold equals plain Python over the same events, to the last row", LAKE, exact)
    yield tested("and silver and bronze do, whatever was cut short", SPARK + "test_lake.py")
    yield recorded("spark", "rows read a second, with and without Arrow, beside plain Python", RATES, reading)
    yield recorded("spark", "rows enqueued a second, keys enforced, beside plain Python", RATES, writing)
    yield recorded(
        "spark_postgres",
        "the same on PostgreSQL, beside Spark's own JDBC source and sink",
        "python -m bench.spark_postgres --record",
        beside_jdbc,
    )
    yield ran("the report in a real browser: nothing overflows, axes labelled, nothing requested", "tests.look")
