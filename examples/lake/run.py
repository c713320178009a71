"""From nothing to a report: `python -m examples.lake.run [FOLDER]`, or `make demo-lake`."""

import sys
import time
from pathlib import Path

from bench.history import write_history
from tenure.spark import session, table
from tenure.spark.lake.sync import Sync
from tenure.spark.report import write_report

EVENTS = 60_000


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    store, lake, report = folder / "jobs.db", folder / "lake", folder / "report.html"
    if store.exists():
        print(f"{store} is there: going on with it")
    else:
        start = time.perf_counter()
        write_history(store, EVENTS, days=1)
        print(f"a day of made-up history, {EVENTS:,} events, in {store} ({_since(start)})")

    spark = session(name="demo", config={"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "4"})
    try:
        start = time.perf_counter()
        events = Sync(spark, f"sqlite:///{store}", lake).run()
        print(f"{events:,} events in {lake} ({_since(start)})")
        busiest = table(spark, lake, "gold.hourly").groupBy("queue").sum("succeeded", "failed").orderBy("queue")
        for row in busiest.collect():
            print(f"{row['queue']:>16} {row[1]:>8,} succeeded {row[2]:>6,} failed")
    finally:
        spark.stop()

    print(f"report: {write_report(lake, report).resolve()}")
    return 0


def _since(start: float) -> str:
    return f"{time.perf_counter() - start:.1f} s"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-lake").absolute()))
