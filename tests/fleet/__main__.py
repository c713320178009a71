"""Runs a campaign: `python -m tests.fleet [--jobs 20000] [--workers 4] [--kills 50] [--seed N] [--record FILE]`.

Exit code 1 on any fault; the folder with the store and the histories is kept then.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from bench import record
from tests.fleet.campaign import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=4, help="supervisors")
    parser.add_argument("--processes", type=int, default=1, help="children of each")
    parser.add_argument("--kills", type=int, default=50, help="of children and supervisors")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between kills, at least")
    parser.add_argument("--lease", type=float, default=1.0, help="of every job, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="write the figures there, as JSON")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tenure-fleet-"))
    plan = Plan(
        folder=folder,
        jobs=options.jobs,
        workers=options.workers,
        processes=options.processes,
        kills=options.kills,
        pace_seconds=options.pace,
        lease_seconds=options.lease,
        seed=options.seed,
    )
    print(f"{plan.jobs:,} jobs, {plan.workers} workers × {plan.processes}, {plan.kills} kills, seed {plan.seed}")
    report = run(plan, print)
    for name, value in msgspec.structs.asdict(report).items():
        if name != "faults":
            print(f"  {name.replace('_', ' '):<18}{value:>12,}")
    for fault in report.faults[:20]:
        print(f"FAULT {fault}")
    if options.record:
        command = f"python -m tests.fleet --jobs {plan.jobs} --workers {plan.workers} --kills {plan.kills}"
        record.write(options.record, command, msgspec.to_builtins(report))
    if report.faults:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
