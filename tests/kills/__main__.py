"""Runs a campaign: `python -m tests.kills [--jobs 20000] [--processes 4] [--kills 50] [--seed N] [--record FILE]`.

With `--store postgres` on a private PostgreSQL server, which `--server-kills 50` kills too.

Exit code 1 on any fault; the folder with the store and the histories is kept then.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from bench import record
from tenure.testing.postgres import PostgresServer
from tests.kills.campaign import Report, run
from tests.kills.plan import Plan
from tests.kills.recovery import Spread

TERMS: dict[str, dict[str, Any]] = {
    "sqlite": {"ttl": 1_000, "grace": 1_000},
    "postgres": {"ttl": 2_000, "grace": 1_000, "batch": 100, "produced_at_once": 100, "hold_seconds": 0.1},
}
"""What differs by store: a server takes more at once, and may stay away for longer than a short lease."""
SETTINGS = {"fsync": "off"}
"""Processes are killed here, not machines: what the server has written survives without."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=4, help="workers; at least two of them are killed")
    parser.add_argument("--store", choices=sorted(TERMS), default="sqlite")
    parser.add_argument("--kills", "--worker-kills", type=int, default=50, help="of workers")
    parser.add_argument("--server-kills", type=int, default=0, help="of the PostgreSQL server")
    parser.add_argument("--producer-kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=float, default=1.5, help="seconds between kills, at least")
    parser.add_argument("--least-lost", type=int, help="leases that must have been lost; twice the kills by default")
    parser.add_argument("--dir", type=Path, help="where to put the store (a folder on a disk)")
    parser.add_argument("--record", type=Path, help="write the figures there, as JSON")
    options = parser.parse_args()
    if options.store == "sqlite" and options.server_kills:
        parser.error("--server-kills: SQLite has no server; give --store postgres")
    return options


def table(report: Report) -> str:
    rows = [(name, value) for name, value in msgspec.structs.asdict(report).items() if name != "faults"]
    return "\n".join(f"  {name.replace('_', ' '):<16}{_shown(value)}" for name, value in rows if value is not None)


def _shown(value: float | Spread) -> str:
    return f"  {value}" if isinstance(value, Spread) else f"{value:>12,}"


def shortfalls(options: argparse.Namespace, report: Report) -> list[str]:
    """What the campaign was to do and didn't: a proof of too little is no proof."""
    found = []
    if report.jobs < options.jobs:
        found.append(f"only {report.jobs} of {options.jobs} jobs were acknowledged")
    least = 2 * options.kills if options.least_lost is None else options.least_lost
    if report.leases_lost < least:
        found.append(f"only {report.leases_lost} leases were lost, {least} are wanted")
    return found


def main() -> int:
    options = parse()
    folder = tempfile.mkdtemp(prefix="tenure-kills-", dir=options.dir)
    server = PostgresServer(settings=SETTINGS) if options.store == "postgres" else None
    plan = Plan(
        folder=folder,
        url=None if server is None else server.url,
        seed=options.seed,
        jobs=options.jobs,
        processes=options.processes,
        victims=max(2, options.processes // 2),
        kills=options.kills,
        producer_kills=options.producer_kills,
        server_kills=options.server_kills,
        pace_seconds=options.pace,
        **TERMS[options.store],
    )
    where = "one SQLite file" if server is None else f"a PostgreSQL server that is killed {plan.server_kills} times"
    print(
        f"{plan.jobs:,} jobs, {plan.processes} workers on {where}, {plan.kills} kills of {plan.victims}, "
        f"lease {plan.ttl} ms, grace {plan.grace} ms, seed {plan.seed}",
        flush=True,
    )
    try:
        report = run(plan, lambda text: print(text, flush=True), server)
    finally:
        if server is not None:
            server.remove()
    return conclude(options, folder, report)


def conclude(options: argparse.Namespace, folder: str, report: Report) -> int:
    faults = report.faults + shortfalls(options, report)
    print(table(report))
    if options.record is not None:
        command = f"python -m tests.kills --jobs {options.jobs} --processes {options.processes} --kills {options.kills}"
        if options.store == "postgres":
            command += f" --store postgres --server-kills {options.server_kills}"
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
