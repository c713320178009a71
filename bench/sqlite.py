"""Throughput by batch size: enqueue, claim + settle, in one client process, beside a bare ceiling and memory."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from bench.ceiling import fsync_micros
from bench.folder import kind_of, on_disk
from bench.record import Figures, machine
from bench.subject import RATES, SUBJECTS, Rates, Subject

BATCHES = (1, 10, 50, 200, 500)
FEATURES = "events, history, results, fairness, dead letters: all of the contract; synchronous=FULL, WAL"
BARE = "bare SQLite"

Say = Callable[[str], None]
Runs = dict[tuple[str, int], list[Rates]]


def jobs_for(batch: int, scale: float) -> int:
    """Small batches are slow: fewer jobs, so that each takes about the same time."""
    return max(2 * batch, int(scale * {1: 2_000, 10: 10_000, 50: 20_000}.get(batch, 40_000)))


def measure(parent: Path | None, runs: int, scale: float, say: Say, batches: Sequence[int] = BATCHES) -> Figures:
    """Medians of interleaved runs: every subject at every batch size, then all again."""
    found: Runs = {}
    fsyncs: list[float] = []
    with on_disk(parent) as folder:
        kind = kind_of(folder)
        header(kind, runs, say)
        for number in range(runs):
            fsyncs.append(fsync_micros(folder))
            for batch in batches:
                for subject in SUBJECTS:
                    rates = one(subject(), folder, batch, jobs_for(batch, scale))
                    found.setdefault((subject.name, batch), []).append(rates)
            say(f"  run {number + 1} of {runs} done; a durable 4 KiB append took {fsyncs[-1]:.0f} µs before it")
    figures = {
        "fsync_micros": round(median(fsyncs), 1),
        "filesystem": kind,
        "features": FEATURES,
        "runs": runs,
        "scale": scale,
        "rates": table(found),
    }
    show(figures, say)
    return figures


def header(kind: str, runs: int, say: Say) -> None:
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine().items())
    say(f"  {facts}; {kind}; medians of {runs} interleaved runs")
    say(f"  on: {FEATURES}")


def one(subject: Subject, folder: Path, batch: int, jobs: int) -> Rates:
    place = folder / "run"
    place.mkdir()
    try:
        return asyncio.run(subject.run(place, batch, jobs))
    finally:
        shutil.rmtree(place)


def table(found: Runs) -> list[Figures]:
    """A row per subject and batch: jobs per second, and what part of the ceiling that is in the same runs."""
    rows = []
    for (name, batch), runs in found.items():
        middle = _medians(runs)
        bare = _medians(found[(BARE, batch)])
        rates = {field: round(middle[field]) for field in RATES}
        of_bare = {f"{field}_of_bare": round(middle[field] / bare[field], 3) for field in RATES}
        cpu = {"cpu_micros": round(middle["cpu_micros"], 1)}
        rows.append({"subject": name, "batch": batch, **rates, **of_bare, **cpu})
    return rows


def _medians(runs: list[Rates]) -> dict[str, float]:
    fields = Rates.__struct_fields__
    columns = zip(*(msgspec.structs.astuple(rates) for rates in runs), strict=True)
    return {field: median(values) for field, values in zip(fields, columns, strict=True)}


def show(figures: Figures, say: Say) -> None:
    head = f"{'batch':>6}{'enqueue':>10}{'claim,settle':>14}{'exchange':>11}{'CPU µs/job':>12}   of bare SQLite"
    say(f"\n  {'jobs/s':<32}{head}")
    for row in figures["rates"]:
        part = " ".join(f"{row[f'{field}_of_bare']:>5.0%}" for field in RATES)
        say(
            f"  {row['subject']:<32}{row['batch']:>6}{row['enqueue']:>10,}{row['two_calls']:>14,}"
            f"{row['exchange']:>11,}{row['cpu_micros']:>12}   {part}"
        )


def rate(figures: Figures, subject: str, batch: int, field: str) -> int:
    """One figure of a record."""
    return next(int(row[field]) for row in figures["rates"] if (row["subject"], row["batch"]) == (subject, batch))
