"""Runs upgrades: `python -m tests.upgrade [--jobs 1000000] [--store sqlite|postgres] [--base COMMIT] [--record FILE]`.

From each base, on each store, one after the other; a record keeps what another run wrote into it of other bases and
stores, if the code is the same. Exit code 1 on any fault, and if a call was blocked for longer than
a second while others migrated; the folder with the store and the histories is kept then.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import to_builtins

from bench import record
from bench.promises.upgrade import MOST_BLOCKED_MS
from tenure.testing.postgres import PostgresServer
from tests.upgrade.bases import BASES
from tests.upgrade.campaign import Report, run
from tests.upgrade.plan import Kind, Plan

KINDS: tuple[Kind, ...] = ("sqlite", "postgres")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--held", type=int, default=200, help="jobs that an old worker holds meanwhile")
    parser.add_argument("--workers", type=int, default=2, help="of each version")
    parser.add_argument("--store", choices=KINDS, help="only this one")
    parser.add_argument("--base", help=f"only this commit; {', '.join(BASES)} otherwise")
    parser.add_argument("--dir", type=Path, help="where to put the stores (a folder on a disk)")
    parser.add_argument("--record", type=Path, help="write the figures there, as JSON")
    return parser.parse_args()


@contextmanager
def server_for(kind: Kind) -> Iterator[str | None]:
    """A private server as it comes: what is committed is on the disk."""
    if kind == "sqlite":
        yield None
        return
    server = PostgresServer(settings={})
    try:
        yield server.url
    finally:
        server.remove()


def upgraded(options: argparse.Namespace, kind: Kind, base: str) -> Report:
    folder = tempfile.mkdtemp(prefix="tenure-upgrade-", dir=options.dir)
    with server_for(kind) as server:
        plan = Plan(
            folder=folder,
            base=base,
            server=server,
            jobs=options.jobs,
            held=options.held,
            old_workers=options.workers,
            new_workers=options.workers,
        )
        report = run(plan, lambda text: print(text, flush=True))
    if report.blocked_ms > MOST_BLOCKED_MS:
        report.faults.append(f"{report.blocked} was blocked for {report.blocked_ms:,} ms")
    for name, value in msgspec.structs.asdict(report).items():
        if name != "faults":
            print(f"  {name.replace('_', ' '):<18}{value if isinstance(value, str) else f'{value:,}':>12}")
    for fault in report.faults[:20]:
        print(f"FAULT {fault}")
    if report.faults:
        print(f"kept: {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return report


def others(path: Path, reports: Sequence[Report]) -> list[Any]:
    """What is recorded of the same code, of other bases and stores."""
    recorded = record.read(path.stem, path.parent) or {}
    done = {(report.store, report.base) for report in reports}
    same = recorded.get("code") == record.digest(record.code_of(path.stem))
    return [one for one in recorded["upgrades"] if (one["store"], one["base"]) not in done] if same else []


def main() -> int:
    options = parse()
    kinds = KINDS if options.store is None else (options.store,)
    bases = BASES if options.base is None else (options.base,)
    reports = [upgraded(options, kind, base) for base in bases for kind in kinds]
    if options.record:
        command = f"python -m tests.upgrade --jobs {options.jobs}"
        record.write(options.record, command, {"upgrades": [*others(options.record, reports), *to_builtins(reports)]})
    return 1 if any(report.faults for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
