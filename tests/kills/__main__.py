"""Runs a campaign: `python -m tests.kills [--jobs 20000] [--processes 4] [--kills 50] [--seed N] [--record FILE]`.

Exit code 1 on any fault; the folder with the store and the histories is kept then.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from bench import record
from tests.kills.campaign import Report, run
from tests.kills.plan import GRACE, TTL, Plan


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=4, help="workers; at least two of them are killed")
    parser.add_argument("--kills", type=int, default=50, help="of workers")
    parser.add_argument("--producer-kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=float, default=1.5, help="seconds between kills, at least")
    parser.add_argument("--least-lost", type=int, default=100, help="leases that must have been lost")
    parser.add_argument("--dir", type=Path, help="where to put the store (a folder on a disk)")
    parser.add_argument("--record", type=Path, help="write the figures there, as JSON")
    return parser.parse_args()


def table(report: Report) -> str:
    rows = [(name, value) for name, value in msgspec.structs.asdict(report).items() if name != "faults"]
    return "\n".join(f"  {name.replace('_', ' '):<16}{value:>12,}" for name, value in rows)


def shortfalls(options: argparse.Namespace, report: Report) -> list[str]:
    """What the campaign was to do and didn't: a proof of too little is no proof."""
    found = []
    if report.jobs < options.jobs:
        found.append(f"only {report.jobs} of {options.jobs} jobs were acknowledged")
    if report.leases_lost < options.least_lost:
        found.append(f"only {report.leases_lost} leases were lost, {options.least_lost} are wanted")
    return found


def main() -> int:
    options = parse()
    folder = tempfile.mkdtemp(prefix="tenure-kills-", dir=options.dir)
    plan = Plan(
        folder=folder,
        seed=options.seed,
        jobs=options.jobs,
        processes=options.processes,
        victims=max(2, options.processes // 2),
        kills=options.kills,
        producer_kills=options.producer_kills,
        pace_seconds=options.pace,
    )
    print(
        f"{plan.jobs:,} jobs, {plan.processes} workers on one SQLite file, {plan.kills} kills of {plan.victims}, "
        f"lease {TTL} ms, grace {GRACE} ms, seed {plan.seed}",
        flush=True,
    )
    report = run(plan, lambda text: print(text, flush=True))
    return conclude(options, folder, report)


def conclude(options: argparse.Namespace, folder: str, report: Report) -> int:
    faults = report.faults + shortfalls(options, report)
    print(table(report))
    if options.record is not None:
        command = f"python -m tests.kills --jobs {options.jobs} --processes {options.processes} --kills {options.kills}"
        record.write(options.record, command, {**msgspec.to_builtins(report), "faults": faults})
    if faults:
        print(f"\n{len(faults)} faults; the store and the histories are in {folder}")
        print("\n".join(f"  {fault}" for fault in faults[:20]))
        return 1
    shutil.rmtree(folder)
    print("\nhistory checked, fsck clean: none lost, none settled twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
