"""Measures the lake: `python -m bench.lake [--record] [--events 1_000_000 10_000_000] [--backlog 1_000_000]`.

A synthetic history (bench/history) becomes a lake: from the store's feed to gold, in a process of its own for each
size. Then 1 % more events, three times in the running process (as `--follow` does) and once in a new one. Then the same
with a backlog of open jobs. Gold is compared with plain Python over the same feed, to the last row.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import deltalake
import pyarrow
import pyspark

from bench import markdown, record
from bench.folder import on_disk
from bench.history import write_history
from bench.lake.build import SHARE_DAYS
from bench.lake.memory import Watched
from bench.record import RESULTS, Figures

DAY = 86_400_000
MORE = 3
RESERVED_DAYS = 1.0
"""What is added later must not lie in the future."""


def say(text: str) -> None:
    print(text, flush=True)


def built(store: Path, lake: Path, more: Sequence[int] = (), *, check: bool = False) -> Figures:
    """What a process of its own says."""
    command = [sys.executable, "-m", "bench.lake.build", str(store), str(lake)]
    command += ["--more", *map(str, more)] if more else []
    command += ["--check"] if check else []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=record.ROOT)
    with process, Watched(process.pid) as watched:
        said, _ = process.communicate()
    if process.returncode:
        raise AssertionError(f"{' '.join(command)} failed")
    return {**json.loads(said.splitlines()[-1]), "peak_mib": watched.peak}


def measured(folder: Path, events: int, backlog: int) -> Figures:
    """A full build, 1 % more three times while it runs, and 1 % more in a new process."""
    store, lake, share = folder / "jobs.db", folder / "lake", events // 100
    now = round(time.time() * 1_000)
    started = time.perf_counter()
    write_history(store, events, open_jobs=backlog, until=now - round(RESERVED_DAYS * DAY))
    what = f"{events:,} events" + (f" and {backlog:,} open jobs" if backlog else "")
    say(f"  {what} made in {time.perf_counter() - started:.0f} s")
    figures = built(store, lake, [share] * MORE)
    build = figures["build"]
    rate = build["events"] / build["seconds"]
    say(
        f"  {build['events']:,} events in {build['seconds']:.1f} s: {rate:,.0f} events/s, "
        f"peak {figures['peak_mib']:,} MiB; {build['parts']}"
    )
    for one in figures["more"]:
        say(f"  1 % more: {one['seconds']:.1f} s = {one['seconds'] / build['seconds']:.1%}; {one['parts']}")
    write_history(store, share, append=True, days=SHARE_DAYS)
    fresh = built(store, lake, check=not backlog)
    say(
        f"  1 % more, a new process: {fresh['build']['seconds']:.1f} s after {fresh['session_seconds']} s for a session"
    )
    if "check" in fresh:
        check = fresh["check"]
        say(f"  {check['rows']:,} rows of gold compared in {check['seconds']} s: {check['different'] or 'equal'}")
    return {**figures, "fresh": fresh}


def versions() -> Figures:
    return {"pyspark": pyspark.__version__, "pyarrow": pyarrow.__version__, "deltalake": deltalake.__version__}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.lake", description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path, help="put stores and lakes there (a folder on a real disk)")
    parser.add_argument("--record", action="store_true", help="keep the figures in bench/results/lake.json")
    options = parser.parse_args()
    figures: Figures = {"versions": versions(), "sizes": {}}
    for events in options.events:
        with on_disk(options.dir) as folder:
            figures["sizes"][str(events)] = measured(folder, events, 0)
    with on_disk(options.dir) as folder:
        figures["backlog"] = {"jobs": options.backlog, **measured(folder, max(options.events), options.backlog)}
    rates = [one["build"]["events"] / one["build"]["seconds"] for one in figures["sizes"].values()]
    say(
        f"  growth: {rates[0] / rates[-1]:.2f}× the time an event, from {options.events[0]:,} to {options.events[-1]:,}"
    )
    figures["warm_share"] = {
        size: median(more["seconds"] for more in one["more"]) / one["build"]["seconds"]
        for size, one in [*figures["sizes"].items(), ("backlog", figures["backlog"])]
    }
    if options.record:
        record.write(RESULTS / "lake.json", "python -m bench.lake --record", figures)
        markdown.write(RESULTS, markdown.PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
