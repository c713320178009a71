"""One process that syncs a lake: `python -m bench.lake.build STORE LAKE [--more N]`. Says what it took, as JSON.

With `--more` it appends that many events to the store and syncs again, as `tenure lake sync --follow` would. With
`--check` gold is compared with plain Python over the same feed.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.history import write_history
from bench.lake.check import gold_differs
from tenure.spark import session
from tenure.spark.lake.log import Log
from tenure.spark.lake.schemas import TABLES
from tenure.spark.lake.sync import Sync

MEMORY = "3g"
SHARE_DAYS = 0.14
"""A hundredth of a history of 14 days."""


class Timed(Sync):
    """A sync that knows how long each table took."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seconds: dict[str, float] = {}
        for name, part in (("bronze.events", "_take"), *((table, f"_{table.split('.')[1]}") for table in TABLES)):
            if hasattr(self, part):
                setattr(self, part, self._timed(name, getattr(self, part)))

    def _timed(self, name: str, part: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            started = time.perf_counter()
            try:
                return part(*args)
            finally:
                self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - started

        return timed


def synced(spark: Any, store: Path, lake: Path) -> dict[str, Any]:
    sync = Timed(spark, f"sqlite:///{store}", lake)
    started = time.perf_counter()
    events = sync.run()
    seconds = time.perf_counter() - started
    parts = {name: round(value, 2) for name, value in sync.seconds.items()}
    return {"events": events, "seconds": round(seconds, 2), "parts": parts}


def sizes(lake: Path) -> dict[str, Any]:
    logs = [Log.open(lake, table) for table in TABLES.values()]
    return {
        log.table.name: {
            "rows": sum(file.rows for file in log.files),
            "files": len(log.files),
            "mib": round(sum(file.size for file in log.files) / 2**20, 1),
        }
        for log in logs
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.lake.build", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("lake", type=Path)
    parser.add_argument("--more", type=int, nargs="*", default=[])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()
    spark = session(config={"spark.driver.memory": MEMORY, "spark.log.level": "ERROR"})
    figures: dict[str, Any] = {"session_seconds": round(time.perf_counter() - started, 1)}
    figures["build"] = synced(spark, options.store, options.lake)
    figures["more"] = []
    for events in options.more:
        write_history(options.store, events, append=True, days=SHARE_DAYS)
        figures["more"].append(synced(spark, options.store, options.lake))
    figures["tables"] = sizes(options.lake)
    if options.check:
        started = time.perf_counter()
        rows, different = gold_differs(spark, options.store, options.lake)
        figures["check"] = {"rows": rows, "different": different, "seconds": round(time.perf_counter() - started)}
    figures["driver_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps(figures), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
