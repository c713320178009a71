"""The part of docs/benchmarks.md about PostgreSQL, and its chart."""

from pathlib import Path

from bench.postgres import fairness, growth, hold, measure
from bench.record import Figures
from bench.table import lines

CHART = "benchmarks-postgres.svg"

ABOUT = (
    "Each subject in processes, an environment and a new database of its own, on one private server with {settings}. "
    "{versions}. Medians of {rounds} rounds; in each, one thing after the other is measured of all of them, in "
    "another order each time; *of the best peer* is the median of the rounds' own ratios. *tenure*: `tenure worker` "
    "with a supervisor, 1,000 at once, uvloop; leases, fencing, events, history and fairness on (they can't be turned "
    "off). *pgqueuer*: batches of 1,000, asyncpg, uvloop. "
    "*chancy*: on its event loop, 1,000 at once, eager polling, settles every 50 ms. *procrastinate*: 10 at once. "
    "*start*: from before the enqueue to the handler, in another process, on an idle worker in a new database, "
    "{waits} jobs in {turns} turns a round. "
    "*bulk*: in the fastest way each has, after a tenth as many that aren't timed, and are drained. *drain*: no-op "
    "jobs that are there already (200,000 of tenure's and pgqueuer's, fewer of the slower ones'), from the first "
    "handler's start until the last settle is committed, by one worker process and by four. *one by one*: one caller "
    "that waits for each. *idle*: all processes of one worker after the drain, shared memory counted once. *WAL*: of "
    "a job's bulk enqueue and its drain.\n"
)


def section(figures: Figures) -> str:
    """The table, with ratios to the best peer, and the raw limit."""
    fields = list(measure.WORDS)
    head = ["whole worker", *measure.WORDS.values()]
    rows: list[list[object]] = [
        [name, *(measure.number(row[field]) for field in fields)] for name, row in figures["subjects"].items()
    ]
    if len(rows) > 1:
        rows.append(
            ["**tenure, of the best peer**", *(f"**{measure.ratio(figures, field):.2f}×**" for field in fields)]
        )
    limit = figures["raw"]
    shares = ", ".join(
        f"{measure.WORDS[field].removesuffix('/s')} {measure.share(figures, field):.0%}" for field in measure.LIMITED
    )
    text = (
        f"\nThe raw limit: pgbench writes the same rows into the same tables in batches of {limit['batch']}, "
        f"{limit['clients']} clients, nothing checked and nothing sent: {limit['one']:,} enqueues/s one by one, "
        f"{limit['bulk']:,} in bulk, {limit['drain']:,} claimed and settled. Tenure reaches of it: {shares}.\n"
    )
    variants = [[name, f"{rate:,}"] for name, rate in figures["variants"].items()]
    settings = ", ".join(f"{name} {value}" for name, value in figures["server"].items())
    versions = "; ".join(figures["versions"].values()) or "No peers"
    about = ABOUT.format(
        settings=settings,
        versions=versions,
        rounds=figures["rounds"],
        waits=figures["sizes"]["latency_jobs"],
        turns=measure.TURNS,
    )
    return (
        f"## PostgreSQL, beside its peers\n\n{about}\n![jobs a second and latency of each]({CHART})\n\n"
        f"{lines(head, rows)}{text}\nWhat can be switched:\n\n{lines(['one process', 'drain/s'], variants)}"
    )


def growing(figures: Figures) -> str:
    """What a claim costs as the store grows."""
    head = ["in the store", "claim ms", "of the server ms", "settle ms", "claim ×", "server ×", "compared with"]
    rows: list[list[object]] = [
        [
            row["case"],
            *(f"{row[name]:.2f}" for name in ("claim_ms", "server_ms", "settle_ms", "claim_ratio", "server_ratio")),
            row["against"] + ("" if row["bounded"] else ", free to grow"),
        ]
        for row in figures["cases"]
    ]
    return f"## PostgreSQL: growth, claims of {figures['batch']}\n\n{growth.ABOUT}\n\n{lines(head, rows)}"


def in_turn(figures: Figures) -> str:
    """Fairness, and groups."""
    rotation = "\n".join(f"- {fairness.rotation_words(run)}" for run in figures["rotation"])
    large = figures["sizes"]["large"]
    return (
        f"## PostgreSQL: fairness\n\nA tenant with one job beside one with {large:,}:\n\n{rotation}\n\n"
        f"{fairness.group_words(figures['groups'])}.\n"
    )


def holding(figures: Figures) -> str:
    """A transaction held open."""
    plan = figures["plan"]
    head = ["", "before jobs/s", "wait p50 ms", "p99 ms", "last jobs/s", "wait p50 ms", "p99 ms", "kept"]
    rows: list[list[object]] = []
    for name, run in figures["subjects"].items():
        cells = [f"{run[when][what]:,.1f}" for when in ("before", "last") for what in hold.Window.__struct_fields__]
        rows.append([name, *cells, f"{hold.share(run):.0%}"])
    about = (
        f"{plan['rate']:,} jobs/s are offered to one worker process. A transaction takes a snapshot and stays open for "
        f"{plan['held']:,} s; compared are the {plan['window']} s before it was opened and its last "
        f"{plan['window']} s. "
        "One after the other on one server, each in its own database.\n"
    )
    return f"## PostgreSQL: a transaction held open\n\n{about}\n{lines(head, rows)}"


SECTIONS = (
    ("postgres", section),
    ("postgres_growth", growing),
    ("postgres_fairness", in_turn),
    ("postgres_hold", holding),
)
"""Each record and what is written from it."""

# The chart

SHOWN = {
    "drain": "jobs drained a second, one worker process",
    "drain_four": "jobs drained a second, four worker processes",
    "bulk": "jobs enqueued a second in bulk",
    "together": f"jobs enqueued a second by {measure.CALLERS} callers",
    "one": "jobs enqueued a second, one by one",
    "p50_ms": "milliseconds from enqueue to start, median: less is better",
}
WIDTH, LABEL, BAR, GAP = 760, 170, 16, 4
COLOURS = ("#2f81f7", "#8b949e")


def write_chart(figures: Figures, path: Path) -> None:
    path.write_text(chart(figures), encoding="utf-8")


def chart(figures: Figures) -> str:
    """Bars, a group for each measurement, each group on its own scale; ours is coloured."""
    parts, top = [], 8
    for field, title in SHOWN.items():
        parts.append(_text(0, top + 14, title, weight=600))
        top += 22
        rows = {name: float(row[field]) for name, row in figures["subjects"].items()}
        most = max(rows.values())
        for name, value in rows.items():
            length = max(1.0, (WIDTH - LABEL - 90) * value / most)
            colour = COLOURS[not name.startswith("tenure")]
            parts.append(f'<rect x="{LABEL}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>')
            parts.append(_text(LABEL - 8, top + 12, name, anchor="end"))
            parts.append(_text(LABEL + length + 6, top + 12, measure.number(value)))
            top += BAR + GAP
        top += 12
    label = "Jobs a second (more is better) and milliseconds from enqueue to start (less is better) of each queue"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}" '
        f'role="img" aria-label="{label}" font-family="system-ui, sans-serif" font-size="12">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: int = 400) -> str:
    """Grey that can be read on white and on black."""
    style = f'text-anchor="{anchor}" font-weight="{weight}" fill="#768390"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{text}</text>'
