"""docs/benchmarks.md, written from the records alone."""

from collections.abc import Sequence
from pathlib import Path

from bench import fairness, record
from bench.record import ROOT, Figures
from bench.subject import RATES

PAGE = ROOT / "docs" / "benchmarks.md"

INTRO = """# Benchmarks

Written by `python -m bench --record` from `bench/results/`; don't edit it. Only ratios within one run carry over to
another machine: a commit costs what its disk costs. One client process, no-op jobs, every answer after its COMMIT.
"""
OF_BARE = ["of bare: enqueue", "claim, settle", "exchange"]


def write(results: Path, page: Path) -> None:
    """The page, from the records in a folder."""
    parts = [INTRO]
    for name, section in (("bench", throughput), ("growth", growth), ("fairness", fair)):
        figures = record.read(name, results)
        if figures is not None:
            parts.append(section(figures) + "\n" + origin(figures))
    page.write_text("\n".join(parts), encoding="utf-8")


def origin(figures: Figures) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in figures["machine"].items())
    changed = ", with uncommitted changes" if figures["changed"] else ""
    return f"Taken {figures['date']} at commit `{figures['commit'][:12]}`{changed}: {machine}.\n"


def lines(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    ruler: list[object] = ["---", *["---:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(str(cell) for cell in row)} |\n" for row in (head, ruler, *rows))


def throughput(figures: Figures) -> str:
    head = ["jobs/s", "batch", "enqueue", "claim, settle", "exchange", "CPU µs/job", *OF_BARE]
    rows: list[list[object]] = [
        [
            row["subject"],
            row["batch"],
            *(f"{row[field]:,}" for field in RATES),
            row["cpu_micros"],
            *(f"{row[f'{field}_of_bare']:.0%}" for field in RATES),
        ]
        for row in figures["rates"]
    ]
    about = (
        f"On: {figures['features']}. A durable 4 KiB append costs {figures['fsync_micros']:.0f} µs on this disk "
        f"({figures['filesystem']}). Medians of {figures['runs']} interleaved runs. *claim, settle*: two calls and two "
        "commits a batch. *exchange*: settle the last batch and claim the next in one call and one commit. *bare "
        "SQLite*: the same rows deleted and inserted by hand, without the contract: the ceiling. *CPU*: processor time "
        "of claim, settle.\n"
    )
    return f"## Throughput by batch size\n\n{about}\n{lines(head, rows)}"


def growth(figures: Figures) -> str:
    head = ["waiting in the store", "claim µs/job", "of it CPU", "claim + settle", "claim ×", "CPU ×", "both ×"]
    columns = ["case", "claim_micros", "claim_cpu_micros", "both_micros", "claim_ratio", "cpu_ratio", "both_ratio"]
    rows: list[list[object]] = [[*(row[column] for column in columns), row["against"]] for row in figures["cases"]]
    head.append("compared with")
    return f"## Growth, batches of {figures['batch']}\n\n{lines(head, rows)}"


def fair(figures: Figures) -> str:
    head = ["store", "scene", "claims of", "figures", "fair"]
    rows: list[list[object]] = []
    for store, scene, run in fairness.rows(figures):
        facts = ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in run.items() if k not in ("ok", "claims_of"))
        rows.append([store, scene.replace("_", " "), run["claims_of"], facts, "yes" if run["ok"] else "NO"])
    return f"## Fairness\n\n{lines(head, rows)}"
