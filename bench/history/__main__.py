"""Writes a history: `python -m bench.history --events 1_000_000 --to FILE.db`."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.history import write_history
from tenure.domain.errors import TenureError


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__)
    parser.add_argument("--events", type=int, required=True, help="how many, the open jobs' not counted")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE.db", help="the store to make, or to append to")
    parser.add_argument("--days", type=float, default=14, help="how long the history is (14)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--until", type=moment, help="its end, as 2026-01-31T12:00Z (the last full hour)")
    parser.add_argument("--open-jobs", type=int, default=0, metavar="N", help="and so many jobs that never start")
    parser.add_argument("--open-in-a-day", action="store_true", help="all of them enqueued on the first day")
    parser.add_argument("--append", action="store_true", help="go on after the last event of FILE.db")
    return parser.parse_args()


def moment(text: str) -> int:
    """ISO 8601, UTC if it doesn't say, as milliseconds."""
    at = datetime.fromisoformat(text)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000)


def main() -> int:
    options = parse()
    columns = (TextColumn("history"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not sys.stdout.isatty()) as bar:
        task = bar.add_task("history", total=options.events + options.open_jobs)
        try:
            stats = write_history(
                options.to,
                options.events,
                days=options.days,
                seed=options.seed,
                until=options.until,
                open_jobs=options.open_jobs,
                open_in_a_day=options.open_in_a_day,
                append=options.append,
                progress=lambda written: bar.update(task, completed=written),
            )
        except TenureError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print(
        f"{stats.events:,} events of {stats.jobs:,} new and {stats.resumed:,} older jobs in {stats.chunks:,} chunks, "
        f"{when(stats.first_at)} to {when(stats.last_at)}, in {stats.seconds:.1f} s: {options.to}"
    )
    return 0


def when(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).strftime("%Y-%m-%d %H:%M")


if __name__ == "__main__":
    sys.exit(main())
